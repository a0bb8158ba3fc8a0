"""What happens to N orders and their returns, worked out from a seed: who asks where, who approves, what goes wrong.

The plan is a list of acts for each process of people; the courses of several lives are interleaved in it. Nothing in it
depends on how the processes run.
"""

import random
from dataclasses import dataclass
from typing import Any, Final

from faults.guards import GUARDS
from sandbox.faults import KINDS

CHANNELS: Final = ("chat", "voice", "counter", "warehouse")
# Waits of these are long, and the others show the same courses.
_SLOW: Final = ("delay_holding", "huge_body")
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "delay_before": {"ms": 800}, "delay_after": {"ms": 800}, "list_lag": {"seconds": 1200},
    "refund_fails_late": {"after_seconds": 60}, "refund_settles_late": {"after_seconds": 60},
    "wrong_answer": {"fields": {"currency": "eur"}},
}  # fmt: skip
FAULTS: Final = tuple(kind for kinds in KINDS.values() for kind in kinds if kind not in _SLOW)
# Prices are below these, and no refund is above all of them.
THING_MINOR, OTHER_MINOR = 5000, 9000
LARGEST_MINOR: Final = 3 * THING_MINOR + OTHER_MINOR
# So many lives of one process are under way at once.
WINDOW: Final = 8


@dataclass(frozen=True)
class Act:
    """One thing somebody does about life number `life`."""

    life: int
    name: str
    wishes: dict[str, Any]


@dataclass(frozen=True)
class LifeOrder:
    """What was bought: three of one thing and one of another. `captured_minor`: what the shop says it took for it; the
    payment at the provider is of `paid_minor`, which is more."""

    life: int
    thing_minor: int
    other_minor: int
    captured_minor: int
    paid_minor: int

    @property
    def ref(self) -> str:
        return f"LIFE-{self.life}"


@dataclass(frozen=True)
class Disturbance:
    """What happens when so many acts are done: `kill` (of worker, people, web), `cut` (connections), `clock`."""

    after: int
    name: str
    which: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """`acts`: by process of people."""

    seed: int
    orders: list[LifeOrder]
    acts: list[list[Act]]
    disturbances: list[Disturbance]

    @property
    def length(self) -> int:
        return sum(map(len, self.acts))


def plan(lives: int, seed: int, people: int, guard: str = "") -> Plan:
    """The same for the same arguments. The second writer of a guard that is taken away has the last word in every life."""
    chance = random.Random(seed)
    orders = [_order(chance, number) for number in range(lives)]
    courses: list[list[list[Act]]] = [[] for _ in range(people)]
    rogues = [name for name, guard in GUARDS.items() if guard.rogue is not None]
    for order in orders:
        last = guard if guard in rogues else rogues[order.life % len(rogues)]
        courses[order.life % people].append(_life(chance, order, rogues, last))
    acts = [_woven(chance, mine) for mine in courses]
    return Plan(seed, orders, acts, _disturbances(chance, sum(map(len, acts))))


def _order(chance: random.Random, number: int) -> LifeOrder:
    thing, other = 3 * chance.randrange(400, THING_MINOR), chance.randrange(500, OTHER_MINOR)
    total = thing + other
    # A few were paid in part only: their two returns do not both fit.
    short = number % 6 == 5
    captured = max(thing, other) + min(thing, other) // 2 if short else total
    return LifeOrder(number, thing, other, captured, total + 1000)


class _Life:
    """One life's acts, drawn one after the other."""

    def __init__(self, chance: random.Random, order: LifeOrder, rogues: list[str], last: str) -> None:
        self.chance, self.order, self.rogues, self.last = chance, order, rogues, last
        self.acts: list[Act] = []
        self.short = order.captured_minor < order.thing_minor + order.other_minor
        count = 3 if self.short else chance.randrange(1, 3)
        self.asked: list[list[Any]] = [["THING", count]] if self.short or self.maybe(0.8) else [["OTHER", 1]]
        self.channels = chance.sample(CHANNELS, 3)

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def add(self, name: str, **wishes: Any) -> None:
        self.acts.append(Act(self.order.life, name, wishes))

    def rogue(self, share: float) -> None:
        if self.maybe(share):
            self.add("rogue", guard=self.chance.choice(self.rogues))

    def asks(self) -> None:
        """In one channel or in two; the goods come in."""
        first, second, third = self.channels
        if self.maybe(0.7):
            kind = self.chance.choice(FAULTS)
            self.add("fault", kind=kind, options=OPTIONS.get(kind, {}))
        self.add("ask", channel=first, lines=self.asked)
        if self.maybe(0.5):
            self.add("ask", channel=second, lines=self.asked, relation=self.chance.choice([None, "existing"]))
        self.add("arrive", lines=self.asked)
        if self.short:
            self.add("ask", channel=third, lines=[["OTHER", 1]], relation="separate")
            self.add("arrive", lines=[["OTHER", 1]])

    def is_paid(self) -> None:
        """Reviewers approve, while somebody is at the dashboard and the bank asks for its money."""
        if self.maybe(0.12):
            self.add("dashboard", minor=self.chance.randrange(100, 900))
        disputed = self.maybe(0.1)
        if disputed:
            self.add("dispute", inquiry=self.maybe(0.3))
        several = self.chance.choice([["priya", "tobias"], ["priya", "mara", "jonas"], ["tobias"]])
        self.add("approve", people=several, window=self.chance.choice([0, 0, 0, 30]))
        if self.maybe(0.12):
            self.add("withdraw", person=self.chance.choice(["tobias", "mara"]))
        self.rogue(0.6)
        if self.maybe(0.3):
            relation = self.chance.choice([None, "separate"])
            self.add("ask", channel=self.channels[2], lines=self.asked, relation=relation)
        if self.maybe(0.25):
            self.add("provider", status=self.chance.choice(["succeeded", "failed", "canceled"]))
        if disputed:
            self.add("close_dispute", outcome=self.chance.choice(["won", "lost"]))

    def goes_on(self) -> None:
        """What is still owed is asked for again, or the other units come back as well."""
        self.rogue(0.6)
        if self.maybe(0.4):
            self.add("again", person="mara")
            self.add("approve", people=["priya", "tobias"], window=0)
        if self.maybe(0.25) and self.asked[0] == ["THING", 1]:
            self.add("ask", channel=self.channels[1], lines=[["THING", 1]], relation="separate")
            self.add("arrive", lines=[["THING", 1]])
            self.add("approve", people=["mara"], window=0)
        self.add("rogue", guard=self.last)


def _life(chance: random.Random, order: LifeOrder, rogues: list[str], last: str) -> list[Act]:
    life = _Life(chance, order, rogues, last)
    life.asks()
    life.is_paid()
    life.goes_on()
    return life.acts


def _woven(chance: random.Random, courses: list[list[Act]]) -> list[Act]:
    """Several lives at once, each in its own order."""
    waiting = list(courses)
    under_way: list[list[Act]] = []
    woven: list[Act] = []
    while waiting or under_way:
        while waiting and len(under_way) < WINDOW:
            under_way.append(waiting.pop(0))
        course = chance.choice(under_way)
        woven.append(course.pop(0))
        if not course:
            under_way.remove(course)
    return woven


def _disturbances(chance: random.Random, acts: int) -> list[Disturbance]:
    """One for about every twelve acts."""
    found = []
    for after in range(6, acts, 12):
        name = chance.choice(["worker", "worker", "people", "web", "cut", "clock", "clock"])
        found.append(Disturbance(after, name, chance.randrange(8), chance.choice([20, 90, 400, 1300])))
    return found
