"""Which named method shares what, at import; and what a person chose where an order's facts do not add up.

The defaults are the specification's. A shop's own shares win over a method; a stored allocation is never computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

DiscountMethod = Literal["explicit@1", "value.cumulative@1", "value.largest_remainder@1", "quantity.cumulative@1"]
BundleMethod = Literal["bundle.ssp@1", "bundle.weights@1", "bundle.equal@1", "bundle.explicit@1"]
Stands = Literal["total", "lines", "captured"]
TaxMethod = Literal["tax.as_charged@1", "tax.by_rate@1"]


@dataclass(frozen=True)
class Methods:
    """The methods of a policy for orders imported under it. `gap_per_line`: minor units a line may miss the total by."""

    order_discount: DiscountMethod = "value.cumulative@1"
    bundle: BundleMethod = "bundle.ssp@1"
    tax: TaxMethod = "tax.as_charged@1"
    gap_per_line: int = 1
    gap_over: Literal["review", "by_value"] = "review"
    free_gift: Literal["zero_value", "spread"] = "zero_value"
    part_discount: Literal["line_spread", "unit_attributed"] = "line_spread"


DEFAULT: Final = Methods()


@dataclass(frozen=True)
class Settlement:
    """What a person chose for an order whose facts do not add up; it is stored with the allocation made by it.

    `stands`: which figure is right where lines and total do not meet; the lines are then spread to it by value. `methods`: the
    method for a discount whose own shares do not sum. `targets`: the lines that a line below zero takes from.
    """

    by: str
    reason: str
    stands: Stands | None = None
    methods: Mapping[str, DiscountMethod] = field(default_factory=dict)
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "by": self.by,
            "reason": self.reason,
            "stands": self.stands,
            "methods": dict(self.methods),
            "targets": {ref: list(lines) for ref, lines in self.targets.items()},
        }
