"""`POST /hooks/stripe/<merchant>`: a hint from the provider that something changed there (S65, S66).

Checked in this order: length, raw bytes, one signature header, the merchant's own secrets, age both ways, JSON, live or
test, account. Then one insert and 200. A hook only triggers our own reading, so its body is not kept: it holds billing
details. Whatever fails, the sender learns the same.
"""

import hashlib
import json
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from flask import Blueprint, Response, request
from stripe import SignatureVerificationError, WebhookSignature
from werkzeug.exceptions import RequestEntityTooLarge

from console import access
from console.gate import without_form
from console.installation import installed
from console.log import log
from ledger import provider_events
from ledger.database import transaction

MAX_BODY_BYTES: Final = 256 * 1024
MAX_HEADER_BYTES: Final = 4 * 1024
MAX_SECRETS: Final = 3
MAX_AGE_SECONDS: Final = 300
# One time, and one signature for each secret that is valid while one is rolled; v0 is the provider's sham scheme of test mode.
_HEADER: Final = re.compile(r"t=([0-9]{1,12})((?:,v[01]=[0-9a-f]{64}){1,6})")
# So that an unknown merchant takes as long as a known one.
_NOBODY: Final = "whsec_of_nobody"

blueprint = Blueprint("webhooks", __name__, url_prefix="/hooks")


class Refused(Exception):
    """This is not a hook of the provider to this merchant."""


@dataclass(frozen=True)
class Signed:
    """The parts of a signature header."""

    text: str
    at: int


@blueprint.post("/stripe/<shop>", provide_automatic_options=False)
@without_form
@access.public("the provider has no session: its signature is checked")
def take_stripe_event(shop: str) -> Response:
    """200 stored or here already; 400 for everything else, with one body."""
    try:
        content = _content()
        _check_signature(content, _signature(), _secrets(shop))
        store(shop, content)
    except Refused as refused:
        log.warning("hook_refused", reason=str(refused))
        return Response("This hook was not accepted.\n", status=400, content_type="text/plain; charset=utf-8")
    return Response("", status=200, content_type="text/plain; charset=utf-8")


def _content() -> bytes:
    length = request.content_length
    if length is None or length > MAX_BODY_BYTES:
        raise Refused("length")
    if request.mimetype != "application/json":
        raise Refused("type")
    request.max_content_length = MAX_BODY_BYTES
    try:
        return request.get_data(cache=False, parse_form_data=False)
    except RequestEntityTooLarge:
        raise Refused("length") from None


def _signature() -> Signed:
    # Several headers of a name arrive joined by a comma, so a second one shows as a second time.
    text = request.headers.get("Stripe-Signature", "")
    found = _HEADER.fullmatch(text) if len(text) <= MAX_HEADER_BYTES else None
    if found is None or found[2].count("v1=") > MAX_SECRETS:
        raise Refused("signature header")
    return Signed(text, int(found[1]))


def _secrets(merchant_slug: str) -> list[str]:
    found = installed().settings.webhook_secrets.get(merchant_slug, ())[:MAX_SECRETS]
    # A blank one would let in whoever signs with nothing; the process does not start with it.
    return [text for secret in found if (text := secret.get_secret_value().strip())]


def _check_signature(content: bytes, signed: Signed, secrets: list[str]) -> None:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("encoding") from None
    matches = [_signed_with(text, signed, secret) for secret in secrets or [_NOBODY]]
    if not secrets or not any(matches):
        raise Refused("signature")
    # The provider's library refuses the past only.
    if abs(time.time() - signed.at) > MAX_AGE_SECONDS:
        raise Refused("age")


def _signed_with(text: str, signed: Signed, secret: str) -> bool:
    try:
        return bool(WebhookSignature.verify_header(text, signed.text, secret))
    except SignatureVerificationError:
        return False


def store(merchant_slug: str, content: bytes) -> None:
    """Keeps what an event says happened to what, once; not its body. Raises Refused."""
    event = _event(content)
    with transaction(installed().engine) as db:
        merchant = provider_events.endpoint(db, merchant_slug)
        if merchant is None or event["livemode"] is not merchant.livemode:
            raise Refused("livemode")
        account = event.get("account")
        if account is not None and (type(account) is not str or account not in merchant.account_refs):
            raise Refused("account")
        provider_events.keep(db, merchant.merchant_id, _hint(event, content))


def _event(content: bytes) -> dict[str, Any]:
    try:
        event = json.loads(content)
    except (ValueError, RecursionError):
        raise Refused("json") from None
    if not isinstance(event, dict) or event.get("object") != "event" or type(event.get("livemode")) is not bool:
        raise Refused("event")
    return event


def _hint(event: dict[str, Any], content: bytes) -> provider_events.Hint:
    try:
        about = event["data"]["object"]
        created = event["created"]
        if type(created) is not int or not 0 <= created < 2**33:
            raise Refused("event")
        paid = about["id"] if about.get("object") == "payment_intent" else about.get("payment_intent") or ""
        paid = paid["id"] if isinstance(paid, dict) else paid
        return provider_events.Hint(
            _word(event["id"]), _word(event["type"]), _word(about["id"]), _word(paid) if paid else "",
            datetime.fromtimestamp(created, UTC), hashlib.sha256(content).digest(),
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError):
        raise Refused("event") from None


def _word(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", value):
        raise Refused("event")
    return value
