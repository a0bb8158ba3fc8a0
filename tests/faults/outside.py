"""What others do at the provider, for the plain model: a refund made there by hand, a customer's bank."""

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(eq=False)
class OutsideRefund:
    """`placed`: how much of it stands in our books. `put`: on which cases a person put it; `unrelated`: was for no goods."""

    ref: str
    order_ref: str
    amount: int
    status: str
    placed: int = 0
    put: dict[UUID, int] = field(default_factory=dict)
    unrelated: int = 0

    @property
    def stands(self) -> bool:
        return self.status not in ("failed", "canceled")

    @property
    def takes(self) -> bool:
        return self.stands

    @property
    def unplaced(self) -> int:
        return self.amount - self.placed if self.stands else 0

    @property
    def left(self) -> int:
        """What nobody has answered for."""
        return self.amount - sum(self.put.values()) - self.unrelated


@dataclass(eq=False)
class Dispute:
    """`ruled`: finance said of a question of the bank that the refund goes nevertheless."""

    ref: str
    order_ref: str
    amount: int
    status: str
    placed: int = 0
    ruled: bool = False

    @property
    def takes(self) -> bool:
        """A formal one takes its money, and keeps it when it is lost."""
        return self.status in ("needs_response", "lost")

    @property
    def asks(self) -> bool:
        return self.status == "warning_needs_response"

    @property
    def is_open(self) -> bool:
        return self.status in ("needs_response", "warning_needs_response")

    @property
    def holds(self) -> bool:
        return self.takes or (self.asks and not self.ruled)

    @property
    def unplaced(self) -> int:
        return self.amount - self.placed if self.takes else 0
