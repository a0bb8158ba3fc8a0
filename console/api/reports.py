"""What systems report of a case: goods, parcels and photos. Which case it is, recorded once, and what follows from it."""

from collections.abc import Callable
from uuid import UUID

from flask import Response
from sqlalchemy import Connection

from console.api.answers import STAGE_WORDS
from console.api.bodies import NamedCase
from console.api.idempotency import answer_once
from console.api.tokens import working
from console.automatic import after_evidence
from ledger.api_tokens import Channel
from ledger.errors import BadInput
from ledger.events import LockedCase
from ledger.evidence import find_case
from ledger.idempotency import Kept


def reported(
    channel: Channel, operation: str, body: NamedCase, record: Callable[[Connection, UUID], LockedCase], *, own: bool
) -> Response:
    """201 once `record` is done for the request's key, with how the case stood then and no amount; then the policy may approve.

    `own`: as `named_case` has it. Raises what it, `answer_once` and `record` raise.
    """

    def recorded(db: Connection) -> Kept:
        case = record(db, named_case(db, channel, body, own=own))
        return Kept(201, {"case": f"C-{case.number}", "stage": case.stage, "stage_words": STAGE_WORDS[case.stage]})

    answer = answer_once(channel, operation, body, recorded)
    carry_on(channel, answer)
    return answer


def named_case(db: Connection, channel: Channel, body: NamedCase, *, own: bool) -> UUID:
    """The case that the body names. `own`: for a token that opens returns one that it opened or joined (S63).

    Raises NotFound, BadInput (neither or both are named, the order has several).
    """
    if (body.case is None) == (body.order is None):
        raise BadInput("case", "name either the case or the order")
    number = int(body.case.removeprefix("C-")) if body.case else None
    of = channel.actor if own and opens_returns(channel) else None
    return find_case(db, channel.merchant_id, number=number, order_ref=body.order, of=of)


def opens_returns(channel: Channel) -> bool:
    """Whether this token asks for customers: what it then says of the goods is their word."""
    return "cases:open" in channel.scopes


def carry_on(channel: Channel, answer: Response) -> None:
    """The policy may approve what is owed now. Also when this was recorded before: a crash may have come in between."""
    if answer.status_code != 201:
        return
    number = int(answer.get_json()["case"].removeprefix("C-"))
    with working(channel, read_only=True) as db:
        case_id = find_case(db, channel.merchant_id, number=number)
    after_evidence(channel.merchant_id, case_id)
