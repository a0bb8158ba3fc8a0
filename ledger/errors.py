"""What the ledger refuses, and why. The docstring of a class is its sentence; `facts` carry what a page or a problem
document shows. `again` says whether the same call may succeed later without anything else changing."""

from typing import Any, ClassVar


class LedgerError(Exception):
    """The ledger refused this."""

    code: ClassVar[str] = "refused"
    again: ClassVar[bool] = False

    def __init__(self, sentence: str | None = None, **facts: Any) -> None:
        self.sentence = sentence or (self.__doc__ or "").strip()
        self.facts = facts
        super().__init__(self.sentence)


class NotFound(LedgerError):
    """There is no such row here, or you may not see it."""

    code = "not-found"


class BadInput(LedgerError):
    """A field is not acceptable; `field` names it."""

    code = "bad-input"

    def __init__(self, field: str, sentence: str, **facts: Any) -> None:
        super().__init__(f"{field}: {sentence}", field=field, **facts)


class NotAllowed(LedgerError):
    """Your role does not allow this."""

    code = "not-allowed"


class LimitReached(LedgerError):
    """This is more than you may approve in this hour or day. Wait until it frees, or hand it to somebody else."""

    code = "limit-reached"


class SumTooHigh(NotAllowed):
    """Together with the other refunds of this order and customer this is above what you may approve. Hand it to a manager."""

    code = "sum-too-high"


class SumTakesTwo(NotAllowed):
    """Together with other refunds this takes two managers. Have it worked out again on its case, then both approve it."""

    code = "sum-takes-two"


class SamePerson(LedgerError):
    """You asked for this, so another person has to approve it."""

    code = "same-person"


class Stale(LedgerError):
    """This changed while you were reading. Nothing was sent."""

    code = "stale"


class WrongState(LedgerError):
    """The refund is no longer in a state that allows this."""

    code = "wrong-state"


class AlreadyDecided(LedgerError):
    """This refund was already approved. Nothing was sent twice."""

    code = "already-decided"


class InHand(LedgerError):
    """Somebody else has this case in hand."""

    code = "in-hand"


class AlreadyRefunded(LedgerError):
    """Already refunded: nothing is left to return on this line."""

    code = "already-refunded"


class AskCustomer(LedgerError):
    """Some of this is already in a request. Ask the customer: is this the existing request, or a separate item?"""

    code = "ask-customer"


class MoreThanLeft(LedgerError):
    """More units are asked for than are left on the line."""

    code = "more-than-left"


class NotEnoughMoneyLeft(LedgerError):
    """The payment has less left on it than this refund."""

    code = "not-enough-left"


class KeyReused(LedgerError):
    """This idempotency key was used before with another body. Use a new key for another request."""

    code = "idempotency-key-reused"


class KeyInUse(LedgerError):
    """A request with this idempotency key is still running. Repeat it with the same key in a moment."""

    code = "idempotency-key-in-use"
    again = True


class NetworkInsideTransaction(AssertionError):
    """A call that leaves this machine was about to be made inside a database transaction."""
