"""A plain model of the ledger: a few dictionaries and whole numbers that say what every command has to come to.

It knows nothing of transactions, locks, journals or seals. The order has THING × 3 and OTHER × 1 at round prices, paid by one
card, so that a unit is worth its price and the arithmetic is a sum.
"""

from dataclasses import dataclass, field
from uuid import UUID

PRICES = {"THING": 1000, "OTHER": 2000}
BOUGHT = {"THING": 3, "OTHER": 1}
CAPTURED = sum(PRICES[line] * BOUGHT[line] for line in PRICES)
LIVE = ("proposed", "approved", "held", "submitting", "unknown", "pending", "needs_review")
UNSENT = ("proposed", "approved", "held")
# Money has left or may leave.
OUT = ("submitting", "unknown", "pending", "needs_review", "succeeded")


@dataclass
class ModelIntent:
    """`at_provider`: the status of the one refund that stands there, "" when none does. `derived`: how often its
    case had been worked out when it was proposed; after one more it is not what a person saw, and is not sent again."""

    intent_id: UUID
    case_id: UUID
    order_ref: str
    amount: int
    derived: int
    state: str = "proposed"
    reserved: bool = False
    at_provider: str = ""

    @property
    def counts(self) -> bool:
        """Whether it takes of its lines."""
        return self.state not in ("withdrawn", "failed", "reversed")


@dataclass
class ModelCase:
    """Units held are (line, number); `received` is how many of each line came in; `derived` how often it was worked out."""

    case_id: UUID
    order_ref: str
    units: set[tuple[str, int]]
    received: dict[str, int] = field(default_factory=dict)
    rejected: bool = False
    derived: int = 0


@dataclass
class Model:
    """What should be so."""

    orders: tuple[str, ...]
    cases: dict[UUID, ModelCase] = field(default_factory=dict)
    intents: dict[UUID, ModelIntent] = field(default_factory=dict)

    # Returns

    def held(self, order: str, line: str) -> set[int]:
        """The units of a line that a case has."""
        return {n for case in self.cases.values() if case.order_ref == order and not case.rejected
                for name, n in case.units if name == line}  # fmt: skip

    def free(self, order: str, line: str) -> list[int]:
        return sorted(set(range(BOUGHT[line])) - self.held(order, line))

    def open_separate(self, order: str, line: str, count: int) -> set[tuple[str, int]] | None:
        """The units a separate request gets, lowest first; None when it is refused."""
        free = self.free(order, line)
        return {(line, n) for n in free[:count]} if len(free) >= count else None

    def owed(self, case: ModelCase) -> int:
        """What a case is entitled to: the units it holds that came in."""
        if case.rejected:
            return 0
        return sum(
            PRICES[line] * min(case.received.get(line, 0), sum(name == line for name, _ in case.units))
            for line in PRICES
        )

    def of_case(self, case: ModelCase, *states: str) -> list[ModelIntent]:
        return [one for one in self.intents.values() if one.case_id == case.case_id and one.state in states]

    def work_out(self, case: ModelCase) -> int:
        """Withdraws what has not left; the amount of the new proposal, 0 for none."""
        case.derived += 1
        for one in self.of_case(case, *UNSENT):
            self.withdraw(one)
        if self.of_case(case, "submitting", "unknown", "pending", "needs_review"):
            return 0
        return max(0, self.owed(case) - sum(one.amount for one in self.of_case(case, "succeeded")))

    # Refunds

    def stale(self, one: ModelIntent) -> bool:
        return one.derived != self.cases[one.case_id].derived

    def withdraw(self, one: ModelIntent) -> None:
        one.state, one.reserved = "withdrawn", False

    def approve(self, one: ModelIntent, *, cap_left: int) -> None:
        one.state, one.reserved = ("approved" if one.amount <= cap_left else "held"), True

    def settle(self, one: ModelIntent, shown: str) -> None:
        """What the provider shows decides."""
        match shown:
            case "succeeded":
                one.state, one.reserved = "succeeded", False
            case "pending" | "requires_action":
                one.state = "pending"
            case _:
                one.state, one.reserved = "failed", False

    # What has to be so

    def balances(self, order: str) -> tuple[int, int, int]:
        """available, reserved, refunded."""
        mine = [one for one in self.intents.values() if one.order_ref == order]
        reserved = sum(one.amount for one in mine if one.reserved)
        refunded = sum(one.amount for one in mine if one.state == "succeeded")
        return CAPTURED - reserved - refunded, reserved, refunded

    def claimed(self, order: str) -> int:
        return sum(one.amount for one in self.intents.values() if one.order_ref == order and one.counts)

    def paid_there(self, case: ModelCase) -> int:
        """What stands at the provider for a case."""
        return sum(one.amount for one in self.intents.values() if one.case_id == case.case_id and one.at_provider)
