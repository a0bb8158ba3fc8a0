"""What may be written to a log, by every process: these fields and no others (S74).

A field that is not listed is dropped, so a careless call cannot write a name, a note, an address of the browser's bar, a
cookie, a key of the provider's account or a body. Ids, codes and counts are what a log is for; the idempotency key of a refund
is one of them, for it opens nothing without the credential.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import structlog

from ledger.card_numbers import mask_card_numbers
from ledger.tracing import current, trace_id

ALLOWED: Final = frozenset((
    # Of every line.
    "event", "level", "timestamp", "trace",
    # What it is about.
    "merchant", "merchant_id", "case", "case_id", "intent", "intent_id", "key", "attempt", "request", "refund",
    # Who, and from where.
    "staff_id", "role", "token_id", "address", "worker", "engineer",
    # What happened.
    "outcome", "state", "reason", "code", "kind", "error", "sqlstate", "where", "reference", "http_status", "status", "endpoint",
    "method", "directive", "blocked", "signal", "job", "counts", "count", "seconds",
))  # fmt: skip
# Made by us or by the provider, so that a run of digits in it is no card number.
_TYPED: Final = frozenset((
    "timestamp", "trace", "merchant_id", "case_id", "intent", "intent_id", "key", "request", "refund", "staff_id", "token_id",
    "reference", "worker",
))  # fmt: skip
_LONGEST: Final = 200


def only_allowed(_logger: Any, _method: str, entry: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Drops what is not listed, cuts and masks what is, and adds the trace. Objects become text; an error is its type."""
    kept = {key: _plain(key, value) for key, value in entry.items() if key in ALLOWED}
    trace = trace_id(str(entry.get("trace") or current()))
    return kept | {"trace": trace} if trace else {key: value for key, value in kept.items() if key != "trace"}


def _plain(key: str, value: Any) -> Any:
    match value:
        case bool() | int() | float() | None:
            return value
        case dict():
            return {str(name)[:_LONGEST]: number for name, number in value.items() if isinstance(number, int)}
        case BaseException():
            return type(value).__name__
    text = str(value)[:_LONGEST]
    return text if key in _TYPED else mask_card_numbers(text)


# For the few lines that the ledger itself writes; each process says where they go.
log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
