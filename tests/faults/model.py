"""A plain model of the ledger: a few lists and whole numbers that say what every command has to come to.

It knows nothing of transactions, locks, journals or seals. The order has THING × 3 and OTHER × 1 at round prices, paid by one
card, so that a unit is worth its price and the arithmetic is a sum. What others do at the provider is in `outside`.
"""

from dataclasses import dataclass, field
from uuid import UUID

from tests.faults.outside import Dispute, OutsideRefund

PRICES = {"THING": 1000, "OTHER": 2000}
BOUGHT = {"THING": 3, "OTHER": 1}
CAPTURED = sum(PRICES[line] * BOUGHT[line] for line in PRICES)
LIVE = ("proposed", "approved", "held", "submitting", "unknown", "pending", "needs_review")
UNSENT = ("proposed", "approved", "held")
# Money has left or may leave.
AWAY = ("submitting", "unknown", "pending", "needs_review")
# Called back for these, what is proposed next goes on from it; so it does from one that failed or came back.
LINKED = ("refunded_outside", "disputed")


@dataclass(eq=False)
class ModelIntent:
    """`at_provider`: the status of the one refund that stands there, "" when none does. `derived`: how often its
    case had been worked out when it was proposed; after one more it is not what a person saw, and is not sent again.
    `why`: what holds it, or for what it was called back. `after`: the one that it goes on from. `day`: the business day whose
    cap carries it."""

    case_id: UUID
    order_ref: str
    amount: int
    derived: int
    after: "ModelIntent | None"
    number: int
    state: str = "proposed"
    why: str = ""
    day: int | None = None
    reserved: bool = False
    at_provider: str = ""
    _intent_id: UUID | None = None

    @property
    def intent_id(self) -> UUID:
        """The ledger's name for it, once that is known."""
        assert self._intent_id is not None
        return self._intent_id

    @property
    def is_known(self) -> bool:
        return self._intent_id is not None

    def is_called(self, intent_id: UUID) -> None:
        self._intent_id = intent_id

    @property
    def counts(self) -> bool:
        """Whether it takes of its lines."""
        return self.state not in ("withdrawn", "failed", "reversed")

    @property
    def can_be_gone_on_from(self) -> bool:
        return self.state in ("failed", "reversed") or (self.state == "withdrawn" and self.why in LINKED)


@dataclass
class ModelCase:
    """Units held are (line, number); `received` is how many of each line came in; `derived` how often it was worked out."""

    case_id: UUID
    number: int
    order_ref: str
    units: set[tuple[str, int]]
    received: dict[str, int] = field(default_factory=dict)
    rejected: bool = False
    derived: int = 0

    @property
    def line(self) -> str:
        """Each case of these histories is about one line."""
        (line,) = {name for name, _ in self.units}
        return line

    @property
    def worth(self) -> int:
        return sum(PRICES[line] for line, _ in self.units)


@dataclass
class Model:
    """What should be so."""

    orders: tuple[str, ...]
    cap: int
    day: int = 0
    cases: dict[UUID, ModelCase] = field(default_factory=dict)
    intents: list[ModelIntent] = field(default_factory=list)
    refunds: list[OutsideRefund] = field(default_factory=list)
    disputes: list[Dispute] = field(default_factory=list)

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
        return [one for one in self.intents if one.case_id == case.case_id and one.state in states]

    def of_order(self, order: str, *states: str) -> list[ModelIntent]:
        return [one for one in self.intents if one.order_ref == order and one.state in states]

    def work_out(self, case: ModelCase, because: str = "evidence_changed") -> None:
        """Withdraws what has not left, and proposes what is still owed as far as the payment bears it."""
        case.derived += 1
        for one in self.of_case(case, *UNSENT):
            self.withdraw(one, because)
        amount = min(self.owed(case) - self.paid(case), self.room(case.order_ref))
        if amount > 0 and not self.of_case(case, *AWAY) and not self.unanswered(case.order_ref):
            before = [one for one in self.intents if one.case_id == case.case_id and one.can_be_gone_on_from]
            self.intents.append(ModelIntent(
                case.case_id, case.order_ref, amount, case.derived, before[-1] if before else None, len(self.intents)
            ))  # fmt: skip

    def paid(self, case: ModelCase) -> int:
        """By us, and by others as a person said."""
        return sum(one.amount for one in self.of_case(case, "succeeded")) + self.matched(case)

    # Refunds

    def stale(self, one: ModelIntent) -> bool:
        return one.derived != self.cases[one.case_id].derived

    def may_leave(self, one: ModelIntent) -> bool:
        return not self.stale(one) and not self.on_hold(one.order_ref)

    def withdraw(self, one: ModelIntent, why: str = "not_yet") -> None:
        one.state, one.why, one.reserved, one.day = "withdrawn", why, False, None

    def can_reserve(self, one: ModelIntent) -> bool:
        """Whether its payment still has so much that nobody else took."""
        return self.available(one.order_ref) - self.unplaced(one.order_ref) >= one.amount

    def used_today(self) -> int:
        """What counts against the cap of this business day."""
        return sum(one.amount for one in self.intents if one.day == self.day)

    def approve(self, one: ModelIntent) -> None:
        one.reserved = True
        if self.used_today() + one.amount <= self.cap:
            one.state, one.day = "approved", self.day
        else:
            one.state, one.why = "held", "cap"

    def release(self, one: ModelIntent) -> None:
        """From the cap of an earlier day into that of this one."""
        one.state, one.why, one.day = "approved", "", self.day

    def settle(self, one: ModelIntent, shown: str) -> None:
        """What the provider shows decides."""
        match shown:
            case "succeeded":
                one.state, one.reserved = "succeeded", False
            case "pending" | "requires_action":
                one.state = "pending"
            case _:
                one.state, one.reserved, one.day = "failed", False, None

    def reverse(self, one: ModelIntent) -> None:
        """The money came back: its lines, its payment and its day have it again."""
        one.state, one.at_provider, one.day = "reversed", "", None

    # What others did

    def found_at(self, order: str) -> list[OutsideRefund | Dispute]:
        """Refunds first: what is gone is gone, and the bank takes of the rest."""
        found: list[OutsideRefund | Dispute] = [*self.refunds, *self.disputes]
        return [one for one in found if one.order_ref == order]

    def unanswered(self, order: str) -> bool:
        """Whether something was refunded outside and nobody has said yet for what."""
        return any(one.order_ref == order and one.stands and one.left for one in self.refunds)

    def unplaced(self, order: str) -> int:
        """What left outside and is reserved or paid here: it is spent all the same."""
        return sum(one.unplaced for one in self.found_at(order))

    def room(self, order: str) -> int:
        """What of a payment may be promised to somebody."""
        if any(one.order_ref == order and one.takes for one in self.disputes):
            return 0
        return self.available(order) - sum(one.unplaced for one in self.refunds if one.order_ref == order)

    def on_hold(self, order: str) -> bool:
        """Whether the bank has the charge, or asks about it and nobody of ours has ruled."""
        return any(one.order_ref == order and one.holds for one in self.disputes)

    def matched(self, case: ModelCase) -> int:
        return sum(one.put.get(case.case_id, 0) for one in self.refunds)

    def can_be_matched(self, refund: OutsideRefund, case: ModelCase) -> int:
        """How much of a refund fits on what a case holds: not what was paid for it, nor what others have of its line."""
        if case.rejected:
            return 0
        sent = sum(one.amount for one in self.of_case(case, *AWAY, "succeeded"))
        others = sum(
            self.matched(other) + sum(one.amount for one in self.of_case(other, *LIVE, "succeeded"))
            for other in self.cases.values()
            if other.order_ref == case.order_ref and other.line == case.line and other is not case
        )
        mine = sent + self.matched(case)
        whole = PRICES[case.line] * BOUGHT[case.line]
        return max(0, min(refund.left, case.worth - mine, whole - others - mine))

    def place(self, order: str, *, takes: bool) -> list[ModelCase]:
        """The books of a charge are brought to what was found there; which cases lost what waited, oldest first. `takes`:
        by a worker, who moves its money as well."""
        for found in self.found_at(order):
            if not found.takes:
                found.placed = 0
        gone = self._make_room(order)
        for found in self.found_at(order) if takes else ():
            found.placed += min(found.unplaced, max(0, self.available(order)))
        if not self.on_hold(order):
            for one in self.of_order(order, "held"):
                if one.why == "disputed":
                    one.state, one.why = "approved", ""
        return [case for case in self.cases.values() if case.case_id in {one.case_id for one in gone}]

    def _make_room(self, order: str) -> list[ModelIntent]:
        waiting = self.of_order(order, *UNSENT)
        outside = sum(one.unplaced for one in self.refunds if one.order_ref == order)
        gone: list[ModelIntent] = []
        if self.unanswered(order):
            gone = waiting
        elif outside:
            missing = outside - self.available(order)
            gone = [one for one in waiting if one.state == "proposed"]
            for one in sorted((one for one in waiting if one.state != "proposed"), key=lambda one: -one.number):
                if missing > 0:
                    gone.append(one)
                    missing -= one.amount
        why = "refunded_outside"
        if not gone and not outside and any(one.order_ref == order and one.takes for one in self.disputes):
            gone, why = [one for one in waiting if one.state == "proposed"], "disputed"
        for one in gone:
            self.withdraw(one, why)
        if self.on_hold(order):
            for one in self.of_order(order, "approved"):
                one.state, one.why = "held", "disputed"
        return gone

    # What has to be so

    def available(self, order: str) -> int:
        return CAPTURED - sum(self.balances(order)[1:])

    def balances(self, order: str) -> tuple[int, int, int, int]:
        """available, reserved, refunded, disputed."""
        mine = [one for one in self.intents if one.order_ref == order]
        reserved = sum(one.amount for one in mine if one.reserved)
        refunded = sum(one.amount for one in mine if one.state == "succeeded")
        refunded += sum(one.placed for one in self.refunds if one.order_ref == order)
        disputed = sum(one.placed for one in self.disputes if one.order_ref == order)
        return CAPTURED - reserved - refunded - disputed, reserved, refunded, disputed

    def claimed(self, order: str) -> int:
        return sum(one.amount for one in self.intents if one.order_ref == order and one.counts) + sum(
            sum(one.put.values()) for one in self.refunds if one.order_ref == order
        )

    def paid_there(self, case: ModelCase) -> int:
        """What stands at the provider for a case."""
        return sum(one.amount for one in self.intents if one.case_id == case.case_id and one.at_provider)

    def left_there(self, order: str) -> int:
        """What the provider would still refund of a payment."""
        ours = sum(one.amount for one in self.intents if one.order_ref == order and one.at_provider)
        return CAPTURED - ours - sum(one.amount for one in self.refunds if one.order_ref == order and one.stands)
