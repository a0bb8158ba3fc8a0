"""Which goods come back at all: final sale and exclusions by law, used goods, gift cards that were sold."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.entitlement_working import RuleResult, Working
from ledger.unit_ranges import Ranges, minus, union, within, written


def final_sale(work: Working) -> Iterator[RuleResult]:
    """Never for faulty goods, and only on the merchant's own track."""
    if work.preset is not None:
        return
    for line_id, units in work.units.items():
        sound = minus(units, work.faulty.get(line_id, ()))
        attributes = (work.line(line_id).attributes if sound else None) or {}
        named = [name for name in sorted(work.policy.excluded) if attributes.get(name)]
        if sound and (work.policy.final_sale or attributes.get("final_sale") or named):
            work.units[line_id] = minus(units, sound)
            reason = f"excluded_{named[0]}" if named else "final_sale"
            where = line_id if sound == units else f"{line_id}{written(sound)}"
            yield RuleResult("product.final_sale", "fail", where, reason)


# What a consumer cannot withdraw from; sealed goods only once they were opened (Directive 2011/83/EU Art. 16).
_EXCLUDED = (
    "custom_made", "perishable", "dated_service", "digital", "mixed", "press", "market_priced", "auction",
)  # fmt: skip
_SEALED = ("sealed_hygiene", "sealed_media")
# New York gives its thirty days for goods that were not used; California does not ask.
_UNUSED_ONLY = frozenset({"US-NY"})
_UNUSED = "NA"


def product_excluded(work: Working) -> Iterator[RuleResult]:
    if work.preset is not None and work.preset.kind == "undisclosed" and work.sale.region in _UNUSED_ONLY:
        yield from _used(work)
    if work.preset is None or work.preset.kind != "withdrawal":
        return
    for line_id, units in work.units.items():
        attributes = (work.line(line_id).attributes if units else None) or {}
        named = [name for name in _EXCLUDED if attributes.get(name)]
        opened: Ranges = units if named else ()
        if not named and any(attributes.get(name) for name in _SEALED):
            named = [name for name in _SEALED if attributes.get(name)]
            rows = work.graded.get(line_id, ())
            opened = within(units, union(span for ranges, row in rows if row.grade != "N" for span in ranges))
            unseen = minus(units, [span for ranges, _ in rows for span in ranges])
            if unseen:
                where = f"{line_id}{written(unseen)}"
                yield RuleResult("product.excluded", "needs_review", where, "seal_not_seen")
        if opened:
            work.units[line_id] = minus(units, opened)
            yield RuleResult("product.excluded", "fail", f"{line_id}{written(opened)}", f"excluded_{named[0]}")


def _used(work: Working) -> Iterator[RuleResult]:
    """Where the law gives time only for goods that were not used: a unit is unused once a person saw it to be."""
    for line_id, units in work.units.items():
        rows = work.graded.get(line_id, ())
        used = within(units, [span for ranges, row in rows if row.grade not in _UNUSED for span in ranges])
        unseen = minus(units, [span for ranges, _ in rows for span in ranges])
        work.units[line_id] = minus(minus(units, used), unseen)
        if used:
            yield RuleResult("product.excluded", "fail", f"{line_id}{written(used)}", "used_goods")
        if unseen:
            where = f"{line_id}{written(unseen)}"
            yield RuleResult("product.excluded", "fail", where, "not_seen_to_be_unused", (), f"inspected:{where}")


def gift_card(work: Working) -> Iterator[RuleResult]:
    """A gift card that was sold goes back only while nothing of it was spent, which no record here says."""
    for line_id, units in work.units.items():
        if units and (work.line(line_id).attributes or {}).get("gift_card"):
            yield RuleResult(
                "gift_card.unredeemed", "needs_review", f"{line_id}{written(units)}", "whether_it_was_spent"
            )
