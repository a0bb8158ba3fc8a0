"""The states of a refund intent, the moves between them, and what each state means to the desks.

The database holds the same list (`intent_transitions`) and is the guard; this copy is for reading and for asking before
acting. A test compares the two.
"""

from datetime import timedelta
from typing import Final, Literal

State = Literal[
    "proposed", "approved", "held", "submitting", "unknown", "pending", "needs_review",
    "succeeded", "failed", "withdrawn", "reversed",
]  # fmt: skip

TRANSITIONS: Final[dict[str, tuple[str, ...]]] = {
    "new": ("proposed",),
    "proposed": ("approved", "withdrawn"),
    "approved": ("submitting", "held", "withdrawn"),
    "held": ("approved", "withdrawn"),
    "submitting": ("pending", "succeeded", "failed", "unknown"),
    "unknown": ("submitting", "pending", "succeeded", "failed", "needs_review"),
    "pending": ("succeeded", "failed", "needs_review"),
    "needs_review": ("pending", "succeeded", "failed"),
    "succeeded": ("reversed",),
}
FINAL: Final = frozenset({"failed", "withdrawn", "reversed"})
# A paid intent is settled; it is not final only because the bank may still return the money.
LIVE: Final = ("proposed", "approved", "held", "submitting", "unknown", "pending", "needs_review")
# Money may have left or still leave: nothing of it is free to anybody else.
MONEY_OUT: Final = ("submitting", "unknown", "pending", "needs_review", "succeeded")

# The stage of the case that a state of its intent shows as.
STAGE: Final[dict[str, str]] = {
    "proposed": "ready",
    "approved": "approved",
    "held": "held",
    "submitting": "sending",
    "unknown": "unknown",
    "pending": "pending",
    "needs_review": "needs_review",
    "succeeded": "paid",
    "failed": "refused",
    "reversed": "came_back",
}

# P16: how long a state may last before it is overdue, and the desk where it shows. The reasons: a proposal waits for the
# case's own due time; an approved intent leaves within a minute of its cancel window; an unknown one is looked up within
# minutes and is a person's after a day (the key's safe age); a pending card refund settles within 10 business days.
TIME_LIMITS: Final[dict[str, tuple[timedelta, str]]] = {
    "proposed": (timedelta(days=14), "queue"),
    "approved": (timedelta(minutes=10), "queue"),
    "held": (timedelta(days=2), "caps"),
    "submitting": (timedelta(minutes=5), "unknown"),
    "unknown": (timedelta(hours=24), "unknown"),
    "pending": (timedelta(days=14), "unknown"),
    "needs_review": (timedelta(days=1), "unknown"),
}
# An approved refund that is paid back by hand waits for a person at its own desk; its approval is good for a day (S31).
BY_HAND: Final = "by_hand"
BY_HAND_LIMIT: Final = (timedelta(hours=20), BY_HAND)
# A refund held for a dispute waits for the bank, which may take two or three months; when an answer is due is watched by itself.
DISPUTED: Final = "disputed"
DISPUTED_LIMIT: Final = (timedelta(days=120), "disputes")
