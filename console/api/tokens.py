"""Who calls: the token in the Authorization header, its merchant, channel and scopes (S62, S63)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from flask import Response, request
from sqlalchemy import Connection

from console import access
from console.api.problems import Problem
from console.installation import installed
from console.log import log
from console.sessions import COOKIE
from ledger.api_tokens import (
    MISS_MINUTES,
    TOKEN,
    Channel,
    count_miss,
    guesses_too_much,
    parse_token,
    revoke_shown,
    still_usable,
    usable_token,
)
from ledger.database import transaction
from ledger.errors import NotFound


def scoped(name: str) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """The view needs a token with the scope `name`, and gets its Channel as first argument.

    Raises Problem 400, 401, 403, and 429 to a token that has asked for too many references that do not exist.
    """

    def stated(view: Callable[..., Response]) -> Callable[..., Response]:
        @wraps(view)
        def guarded(**path: Any) -> Response:
            channel = authenticate()
            if name not in channel.scopes:
                log.warning("api_refused", reason="scope", token_id=channel.token_id)
                raise Problem("not-allowed", f"This needs a token with the scope {name}.")
            try:
                return view(channel, **path)
            except NotFound:
                with transaction(installed().engine, channel.merchant_id) as db:
                    count_miss(db, channel)
                raise

        return access.scope(name)(guarded)

    return stated


def refuse_token_in_address() -> Response | None:
    """Before every request: a token that came in the address is in logs by now, so it is revoked and refused."""
    address = request.full_path
    found = TOKEN.search(address)
    if found is None:
        return None
    sent = parse_token(found[0])
    if sent is not None:
        with transaction(installed().engine, token_id=sent.token_id) as db:
            revoked = revoke_shown(db, sent)
        log.warning("token_in_address", token_id=sent.token_id, outcome="revoked" if revoked else "unknown")
    raise Problem("token-in-address", "A token is sent in the Authorization header only.")


def authenticate() -> Channel:
    """The channel that calls. One 401 for whatever is wrong with a token. Raises Problem 400, 401, 429."""
    if COOKIE in request.cookies and "Authorization" in request.headers:
        raise Problem("two-identities", "This request carries a staff session and a token.")
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    sent = parse_token(text.strip()) if kind.lower() == "bearer" else None
    channel, guessing = None, False
    if sent is not None and _of_this_deployment(sent.environment):
        with transaction(installed().engine, token_id=sent.token_id) as db:
            channel = usable_token(db, sent, request.remote_addr or "")
            guessing = channel is not None and guesses_too_much(db, channel)
    if channel is None:
        log.warning("api_refused", reason="token", token_id=sent.token_id if sent else "")
        raise Problem("bad-token", "There is no usable token in the request.", headers={"WWW-Authenticate": "Bearer"})
    if guessing:
        raise Problem(
            "too-many-guesses", f"Asked for too many unknown references within {MISS_MINUTES} minutes.",
            headers={"Retry-After": str(60 * MISS_MINUTES)},
        )  # fmt: skip
    return channel


def _of_this_deployment(environment: str) -> bool:
    production = installed().settings.environment == "production"
    return (environment == "live") == production


@contextmanager
def working(channel: Channel, *, read_only: bool = False) -> Iterator[Connection]:
    """The one transaction of a request, pinned to the token's merchant; the token is looked at again inside it (S20)."""
    with transaction(installed().engine, channel.merchant_id, read_only=read_only, token_id=channel.token_id) as db:
        if not still_usable(db, channel):
            raise Problem(
                "bad-token", "There is no usable token in the request.", headers={"WWW-Authenticate": "Bearer"}
            )
        yield db
