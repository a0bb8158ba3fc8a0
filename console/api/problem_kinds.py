"""Every kind of problem the API answers with: status, title, and what a caller does about it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Kind:
    """One kind of problem."""

    status: int
    title: str
    what_to_do: str


KINDS: Final[dict[str, Kind]] = {
    "malformed-json": Kind(
        400,
        "The body cannot be read",
        "Send one JSON object in UTF-8 that names each field once.",
    ),
    "other-merchant": Kind(
        400,
        "The body names another merchant or channel",
        "Leave merchant and channel out: the token says both.",
    ),
    "token-in-address": Kind(
        400,
        "A token was in the address",
        "The token is revoked. Ask for a new one and send it in the Authorization header.",
    ),
    "two-identities": Kind(
        400,
        "A staff cookie and a token in one request",
        "Call the API without the cookies of the console.",
    ),
    "key-missing": Kind(
        400,
        "The Idempotency-Key header is missing or not usable",
        "Send a new random key of 1 to 255 printable characters for each request, and the same key when you repeat it.",
    ),
    "bad-token": Kind(
        401,
        "The token is not accepted",
        "Send Authorization: Bearer and a token that is valid, not expired, and used from its own network.",
    ),
    "not-allowed": Kind(
        403,
        "The token may not do this",
        "Use a token with the scope that detail names.",
    ),
    "not-found": Kind(
        404,
        "There is nothing here for this token",
        "Check the reference. What another channel opened is not shown.",
    ),
    "method-not-allowed": Kind(
        405,
        "This address does not take this method",
        "Use one of the methods in the Allow header.",
    ),
    "idempotency-key-in-use": Kind(
        409,
        "A request with this key is still running",
        "Repeat it with the same key in a moment.",
    ),
    "ask-customer": Kind(
        409,
        "Ask the customer",
        "Ask: is this an existing request, or a separate item? Then send it again with a new key and "
        'relation "existing" or "separate".',
    ),
    "already-refunded": Kind(
        409,
        "Already refunded",
        "Tell the customer what was paid, when and under which reference. Nothing is sent again.",
    ),
    "more-than-left": Kind(
        409,
        "More units than are left",
        "Ask for no more units of each line than `left`, or join the open case.",
    ),
    "wrong-state": Kind(
        409,
        "The case is no longer in a state that allows this",
        "Read the case again and act on what it says.",
    ),
    "order-conflict": Kind(
        409,
        "The order is here with other money facts",
        "Both are kept, and nothing of this order is paid until a person of the merchant has decided.",
    ),
    "payment-taken": Kind(
        409,
        "A payment of this order belongs to another order",
        "Correct the payment references: one payment pays one order.",
    ),
    "no-provider-account": Kind(
        409,
        "The merchant has no account at the payment provider yet",
        "Ask the merchant to set one up, then send the order again.",
    ),
    "too-large": Kind(
        413,
        "The body is too large",
        "Split it: the limit is in detail.",
    ),
    "not-json": Kind(
        415,
        "The body is not JSON",
        "Send Content-Type: application/json.",
    ),
    "bad-input": Kind(
        422,
        "A field is not acceptable",
        "Correct the fields in `errors` and send it again.",
    ),
    "idempotency-key-reused": Kind(
        422,
        "The key was used with another body",
        "Use a new key for another request.",
    ),
    "too-many-guesses": Kind(
        429,
        "Too many unknown references",
        "Wait, then ask only for references the customer gave.",
    ),
    "refused": Kind(
        409,
        "The ledger refused this",
        "Read detail.",
    ),
    "internal": Kind(
        500,
        "Something went wrong here",
        "Repeat the request with the same Idempotency-Key; if it stays, tell the merchant the reference.",
    ),
    "try-again": Kind(
        503,
        "Too busy just now",
        "Repeat the request with the same Idempotency-Key in a moment.",
    ),
}
