"""What the replay knows of a month: the parts of its return lines, how each was answered, and what was refused and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ledger.online_retail_rows import ReturnLine


@dataclass(frozen=True)
class Part:
    """Units of one sold line that a return line brings back; `line_no` is the return line's in the file."""

    line_no: int
    number: int
    order_ref: str
    line_ref: str
    units: int

    def body(self, channel: str, relation: str | None) -> dict[str, Any]:
        """What a channel sends for it."""
        body: dict[str, Any] = {
            "order": self.order_ref, "lines": [{"line": self.line_ref, "quantity": self.units}], "reason": "changed_mind",
            "conversation": {"reference": f"{channel}-{self.line_no}-{self.number}", "customer_verified": "account"},
        }  # fmt: skip
        return body if relation is None else {**body, "relation": relation}


@dataclass(frozen=True)
class Answered:
    """How one part of a return line ended at the API: its case, or the problem; `statuses` of both channels."""

    part: Part
    case: str | None
    statuses: tuple[str, str]


@dataclass(frozen=True)
class Came:
    """A return line of the file. `prices`: what the customer paid for a unit of the goods before it came back, minor units;
    `taken`: those of the sales it was matched to. `refused`: why it belongs to no sale, "" where it does."""

    line: ReturnLine
    prices: frozenset[int]
    taken: frozenset[int]
    refused: str = ""

    @property
    def priced_otherwise(self) -> bool:
        """Whether the line says a price at which the customer bought the goods never."""
        return bool(self.prices) and self.line.unit_price_minor not in self.prices


@dataclass
class Month:
    """What the file held, and what became of each return line."""

    orders: int = 0
    return_lines: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    came: list[Came] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)

    def units_of(self, case: str) -> dict[str, int]:
        """The units of a case by line, as they were asked for."""
        units: Counter[str] = Counter()
        for answer in self.answers:
            if answer.case == case:
                units[answer.part.line_ref] += answer.part.units
        return dict(units)
