"""One request, one answer: the Idempotency-Key of a POST, and the answer kept for it (DESIGN §2, rule 1).

Kept is what is final: what was done, and what the ledger refused by its rules. A body that cannot be read, a reference
that does not exist and an error of ours are not kept: the same key may be used again.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from flask import Response, request
from sqlalchemy import Connection

from console.api.bodies import Body
from console.api.problems import MEDIA_TYPE, Problem, ledger_document
from console.api.tokens import working
from ledger.api_tokens import Channel
from ledger.errors import AlreadyRefunded, AskCustomer, MoreThanLeft, WrongState
from ledger.idempotency import Kept, Key, keep_answer, request_digest, take_key
from ledger.refused_acts import count_refused

RULINGS: Final = (AskCustomer, AlreadyRefunded, MoreThanLeft, WrongState)
_USABLE: Final = re.compile(r"[\x21-\x7e]{1,255}")


def answer_once(
    channel: Channel, operation: str, body: Body, work: Callable[[Connection], Kept], *, proven: bool = False
) -> Response:
    """Does the work once for the request's key, or answers as the first time. Work and kept answer commit together.

    `proven`: whether a ruling may tell what it knows about the customer's earlier requests and refunds.
    Raises Problem (no key), KeyInUse, KeyReused, and what `work` raises but for the ledger's rulings.
    """
    key = Key(channel.merchant_id, channel.actor, _key_text())
    digest = _digest(operation, body)
    with working(channel) as db:
        kept = take_key(db, key, digest)
        if kept is not None:
            return answer(kept.status, kept.answer, replayed=True)
        kept = _ruled(db, channel, work, proven)
        keep_answer(db, key, digest, kept)
    return answer(kept.status, kept.answer)


def answered_before(channel: Channel, operation: str, body: Body) -> Response | None:
    """The answer that the request's key has already, for work that is costly before its transaction. Raises as `answer_once`."""
    key = Key(channel.merchant_id, channel.actor, _key_text())
    with working(channel, read_only=True) as db:
        kept = take_key(db, key, _digest(operation, body))
    return None if kept is None else answer(kept.status, kept.answer, replayed=True)


def _digest(operation: str, body: Body) -> bytes:
    return request_digest(operation, body.model_dump(mode="json", exclude_defaults=True))


def _ruled(db: Connection, channel: Channel, work: Callable[[Connection], Kept], proven: bool) -> Kept:
    try:
        with db.begin_nested():
            return work(db)
    except RULINGS as ruling:
        count_refused(db, channel.merchant_id, channel.actor, ruling)
        document = ledger_document(ruling, proven=proven)
        return Kept(document["status"], document)


def _key_text() -> str:
    text = request.headers.get("Idempotency-Key", "")
    if not _USABLE.fullmatch(text):
        raise Problem("key-missing", "A POST needs the header Idempotency-Key.")
    return text


def answer(status: int, body: dict[str, Any], *, replayed: bool = False) -> Response:
    """The response of a status and a JSON body, marked when it was given before."""
    kind = MEDIA_TYPE if status >= 400 else "application/json"
    made = Response(json.dumps(body), status=status, content_type=kind)
    if replayed:
        made.headers["Idempotent-Replayed"] = "true"
    return made
