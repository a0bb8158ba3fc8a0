"""What a channel may say, field by field; anything else is refused by name (S19).

Amounts, currencies, destinations and people are never taken from a request. Merchant and channel may be repeated, and
are then only compared with the token's.
"""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from flask import request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_serializer
from werkzeug.exceptions import RequestEntityTooLarge

from console.api.problems import Problem
from console.pictures import MOST_BYTES
from ledger.api_tokens import Channel
from ledger.card_numbers import mask_card_numbers
from ledger.customer_known import says_who

MAX_BODY_BYTES = 64 * 1024
MAX_ERRORS = 20
_REF = r"^[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"
_TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"

_INSTANT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
# A picture of the most bytes, and the other fields beside it.
_MOST_BASE64 = (MOST_BYTES + 2) // 3 * 4
MAX_PHOTO_BODY_BYTES = _MOST_BASE64 + MAX_BODY_BYTES


def _instant(text: str) -> str:
    datetime.fromisoformat(text)
    return text


_NO_CARD = AfterValidator(mask_card_numbers)
Text = Annotated[str, Field(max_length=4000, pattern=_TEXT), _NO_CARD]
Reason = Literal["changed_mind", "size", "faulty", "damaged", "wrong_item", "other"]
AskedReason = Literal["changed_mind", "size", "faulty", "damaged", "wrong_item", "cancelled", "not_delivered", "other"]
Grade = Literal["N", "A", "B", "C", "D", "M", "X"]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AskedLine(Body):
    """How many units of one line come back."""

    line: Annotated[str, Field(min_length=1, max_length=100, pattern=_REF, description="line_ref of the order")]
    quantity: Annotated[int, Field(ge=1, le=1_000_000)]


class Conversation(Body):
    """The channel's own thread. `customer_verified` says how the channel knew the customer, "" when it did not."""

    reference: Annotated[str, Field(min_length=1, max_length=120, pattern=_REF), _NO_CARD]
    text: Text = ""
    customer_verified: Annotated[str, Field(max_length=40, pattern=r"^(?:[a-z][a-z0-9_]*)?$"), _NO_CARD] = ""


class OrderBody(Body):
    """A customer asks something of an order. `customer` proves who asks: it is compared with the order's customer. With it, or
    with the channel's own proof in `conversation.customer_verified`, a refusal says what was paid before.
    """

    order: Annotated[str, Field(min_length=1, max_length=100, pattern=_REF, description="external_ref of the order")]
    conversation: Conversation
    customer: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=254,
                pattern=_REF,
                description="the shop's own reference of the customer, or the e-mail",
            ),
        ]
        | None
    ) = None

    @property
    def proven(self) -> bool:
        """Whether the channel proves the customer; a `customer` that is not the order's is refused before it matters."""
        return bool(self.customer) or says_who(self.conversation.customer_verified)


class ReturnBody(OrderBody):
    """A customer wants to return units of an order, or says that they are `cancelled` or were `not_delivered`. `relation` is the
    customer's own answer, once it was asked for.

    `customer` proves who asks: it is compared with the order's customer. With it, or with the channel's own proof in
    `conversation.customer_verified`, a refusal says what was paid before.
    """

    lines: Annotated[list[AskedLine], Field(min_length=1, max_length=200)]
    reason: AskedReason
    relation: Literal["existing", "separate"] | None = None
    statement_sent_at: (
        Annotated[
            str,
            Field(pattern=_INSTANT, description="when the customer said it, if not now: windows count from it"),
            AfterValidator(_instant),
        ]
        | None
    ) = None


class ChargesBody(OrderBody):
    """A customer says that they were charged more than once for an order; the text only opens the case."""


class GradedUnits(Body):
    """What a person found about some of the units. `serial` is of a single unit; `assessed_bps` is their loss in value in
    ten-thousandths; `reason_found` is why they came back after all."""

    units: Annotated[int, Field(ge=1, le=1_000_000, description="how many units have this grade")]
    grade: Grade
    note: Annotated[Text, Field(max_length=2000)] = ""
    reason_found: Reason | None = None
    serial: Annotated[str, Field(min_length=1, max_length=80, pattern=_REF), _NO_CARD] | None = None
    assessed_bps: Annotated[int, Field(ge=0, le=10_000)] | None = None


class ReceivedUnits(Body):
    """Units of one line that arrived; 0 with grades adds findings about units that arrived before."""

    line: Annotated[str, Field(min_length=1, max_length=100, pattern=_REF)]
    received: Annotated[int, Field(ge=0, le=1_000_000)]
    grades: Annotated[list[GradedUnits], Field(max_length=200)] = []


class NamedCase(Body):
    """One case, named by its number or by its order while that has one open return."""

    case: Annotated[str, Field(pattern=r"^C-[0-9]{1,15}$")] | None = None
    order: Annotated[str, Field(min_length=1, max_length=100, pattern=_REF)] | None = None


class ReceiptBody(NamedCase):
    """What arrived for one case."""

    parcel: Annotated[str, Field(max_length=120, pattern=r"^[^\x00-\x1f\x7f]*$"), _NO_CARD] = ""
    lines: Annotated[list[ReceivedUnits], Field(min_length=1, max_length=200)]


class ParcelBody(NamedCase):
    """That a parcel is on its way back, and who proves it: the customer by a receipt, or the carrier by its scan."""

    tracking: Annotated[str, Field(min_length=1, max_length=80, pattern=_REF)]
    sent_at: Annotated[
        str, Field(pattern=_INSTANT, description="such as 2026-11-28T09:30:00Z"), AfterValidator(_instant)
    ]
    proof: Literal["customer", "carrier"]
    our_label: bool = False


class FactBody(NamedCase):
    """What is known of a case beside goods and parcels. `said`, by `kind`: not_delivered: not_dispatched, lost, or delivered after
    all; cure (a repair or replacement): done, failed, refused, impossible, waived; fee_use (of an insurance or installation): used,
    unused; collection (by the shop, of what goes back): offered, not_offered. claimant: `customer` says who asks. Of one kind and
    line the newest counts.
    """

    kind: Literal["not_delivered", "cure", "fee_use", "collection", "claimant"]
    said: (
        Literal[
            "not_dispatched", "lost", "delivered", "done", "failed", "refused", "impossible", "waived", "used", "unused", "offered",
            "not_offered",
        ]
        | None
    ) = None  # fmt: skip
    line: Annotated[str, Field(min_length=1, max_length=100, pattern=_REF)] | None = None
    cure: Literal["repair", "replacement"] | None = None
    happened_at: (
        Annotated[
            str,
            Field(pattern=_INSTANT, description="when a cure was done, or a loss was found"),
            AfterValidator(_instant),
        ]
        | None
    ) = None
    customer: Annotated[str, Field(min_length=1, max_length=254, pattern=_REF)] | None = None
    note: Annotated[Text, Field(max_length=500)] = ""


class PhotoBody(NamedCase):
    """One picture: JPEG, PNG or WebP, as base64. `line` and `unit` say what it is of; without them it is of the whole case."""

    photo: Annotated[str, Field(min_length=4, max_length=_MOST_BASE64, pattern=r"^[A-Za-z0-9+/]+={0,2}$")]
    line: Annotated[str, Field(min_length=1, max_length=100, pattern=_REF)] | None = None
    unit: Annotated[int, Field(ge=1, le=1_000_000, description="counted from 1 within the line")] | None = None
    caption: Annotated[Text, Field(max_length=200)] = ""

    @field_serializer("photo")
    def _by_digest(self, photo: str) -> str:
        """What a request is known by does not need the whole picture."""
        return hashlib.sha256(photo.encode()).hexdigest()


B = TypeVar("B", bound=Body)


def read_document(channel: Channel, *, compared: tuple[str, ...], limit: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The JSON object of the request, without the fields that are only compared. Raises Problem 400, 413, 415."""
    if request.mimetype != "application/json":
        raise Problem("not-json", "The Content-Type has to be application/json.")
    request.max_content_length = limit
    try:
        content = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise Problem("too-large", f"At most {limit} bytes are read.") from None
    try:
        document = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Problem("malformed-json", "The body is not UTF-8.") from None
    except RecursionError:
        raise Problem("malformed-json", "The body is nested too deeply.") from None
    except ValueError as error:
        raise Problem("malformed-json", f"The body is not JSON: {str(error)[:200]}.") from None
    if not isinstance(document, dict):
        raise Problem("malformed-json", "The body has to be one JSON object.")
    own = {"merchant": channel.slug, "channel": channel.channel}
    for name in compared:
        if name in document and document.pop(name) != own[name]:
            raise Problem("other-merchant", f"The token says {name}; the body names another.")
    return document


def read_body(kind: type[B], channel: Channel, *, limit: int = MAX_BODY_BYTES) -> B:
    """The request's body as `kind`. Raises Problem 400, 413, 415, and 422 that names each wrong field."""
    document = read_document(channel, compared=("merchant", "channel"), limit=limit)
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise wrong_fields(error) from None


def wrong_fields(error: ValidationError) -> Problem:
    """The refusal that names each wrong field and what to do about it; no value is repeated."""
    found = [
        {
            "field": ".".join(map(str, detail["loc"])) or "body",
            "say": _say(detail["type"], detail["msg"], str(detail["loc"][-1:])),
        }
        for detail in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return Problem("bad-input", f"{found[0]['field']}: {found[0]['say']}", errors=found[:MAX_ERRORS])


_COMPUTED = ("amount", "minor", "currency", "destination", "price", "refund", "card")
_SAYS = {
    "missing": "is missing: add it",
    "int_type": "has to be a whole number without quotes or decimals",
    "string_type": "has to be text in quotes",
    "string_unicode": "holds something that is not text: send UTF-8",
    "string_pattern_mismatch": "is not of the form this field takes; control characters and outer spaces are refused",
    "list_type": "has to be a list in brackets",
    "model_type": "has to be an object in braces",
}


def _say(kind: str, message: str, name: str) -> str:
    if kind == "extra_forbidden":
        if any(word in name.lower() for word in _COMPUTED):
            return "is computed here and never taken from a request: remove it"
        return "is not a field of this request: remove it"
    return _SAYS.get(kind, message[:1].lower() + message[1:])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field is given twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
