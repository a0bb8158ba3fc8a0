"""Which units may be paid for now: one small function per rule, all of them run, in the order of `UNIT_RULES`.

A rule reads the working state, may take units off it (a *fail* removes its scope) and says what it found. A *review*
removes nothing: it sends the case to a person. `until` names the fact that would lift a fail; None means final.
To add a rule, write the function, put it in the list and its id in `CATALOGUE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledger.calendar_days import local_day
from ledger.entitlement_allowances import KEPT
from ledger.entitlement_conflicts import evidence_conflict, reason_supported, received_counts, serials_asked
from ledger.entitlement_products import final_sale, gift_card, product_excluded
from ledger.entitlement_windows import presumption, time_known, window_merchant, window_statutory, zone_of
from ledger.entitlement_working import RuleResult, Working
from ledger.unit_ranges import Range, Ranges, first, minus, size, union, within, written

Rule = Callable[[Working], Iterator[RuleResult]]


def alloc_balanced(work: Working) -> Iterator[RuleResult]:
    for found in work.allocation.blocked_by:
        work.held_back = True
        work.units = dict.fromkeys(work.units, ())
        facts = tuple(f"{name}:{fact}" for name, fact in found.facts)
        yield RuleResult("alloc.balanced", "fail", "case", found.name, facts, f"discrepancy.settled:{found.name}")


def order_owner(work: Working) -> Iterator[RuleResult]:
    theirs, ours = work.evidence.customer_ref, work.sale.customer_ref
    if theirs is not None and ours is not None and theirs != ours:
        work.units = dict.fromkeys(work.units, ())
        yield RuleResult("order.owner", "fail", "case", "another_customer's_order")


def unit_exists(work: Working) -> Iterator[RuleResult]:
    for line_id, units in work.units.items():
        line = work.allocation.line(line_id)
        quantity = line.quantity if line and line.returnable else 0
        kept = within(units, [(0, quantity)])
        if kept != units:
            work.units[line_id] = kept
            gone = written(minus(units, kept))
            yield RuleResult("unit.exists", "fail", f"{line_id}{gone}", "not_on_the_order", (f"quantity:{quantity}",))
    if work.evidence.kind in ("return", "exchange"):
        for line_id in work.evidence.not_delivered:
            if work.units.get(line_id):
                work.units[line_id] = ()
                yield RuleResult("unit.exists", "fail", line_id, "not_delivered", (), "cancellation")


def unit_free(work: Working) -> Iterator[RuleResult]:
    for line_id, units in work.units.items():
        for claim in sorted(work.claims.get(line_id, ()), key=lambda claim: (claim.a, claim.case_ref)):
            taken = within(units, [(claim.a, claim.b)])
            if taken:
                units = minus(units, taken)
                where = f"{line_id}{written(taken)}"
                yield RuleResult("unit.free", "fail", where, "held_by_another_case", (f"case:{claim.case_ref}",))
        for row in work.allowances.get(line_id, ()):
            settled = within(units, [(row.a or 0, row.b or 0)]) if row.closes else ()
            if settled:
                units = minus(units, settled)
                yield RuleResult("unit.free", "fail", f"{line_id}{written(settled)}", "settled_by_an_allowance")
        work.units[line_id] = units


def serial_match(work: Working) -> Iterator[RuleResult]:
    """A unit sold under a serial comes back under one of its line, and each of them once."""
    for line_id, units in work.units.items():
        line = work.allocation.line(line_id)
        if line is None or not units or not serials_asked(work, line_id):
            continue
        owners = _owners(work, line_id, line.serials)
        for ranges, row in work.graded.get(line_id, ()):
            for a, b in within(units, ranges):
                wrong = _wrong_serial(work, row.serial, (a, b), owners)
                units = minus(units, [(a, b)])
                if wrong is None:
                    continue
                work.units[line_id] = minus(work.units[line_id], [(a, b)])
                where, facts = f"{line_id}{written([(a, b)])}", (f"serial:{row.serial}",)
                until = f"inspected:{where}" if row.serial is None else None
                yield RuleResult("serial.match", "fail", where, wrong, facts, until)
        if units:
            work.units[line_id] = minus(work.units[line_id], units)
            where = f"{line_id}{written(units)}"
            yield RuleResult("serial.match", "fail", where, "serial_missing", (), f"inspected:{where}")


def _owners(work: Working, line_id: str, sold: tuple[str, ...]) -> dict[str, Range]:
    """The unit of the case that came back under each serial of a line: of several the one sold under it, else the first seen."""
    owners: dict[str, Range] = {}
    places = {serial: (k, k + 1) for k, serial in enumerate(sold)}
    for ranges, row in reversed(work.graded.get(line_id, ())):
        for span in ranges:
            if row.serial in places and span[1] - span[0] == 1 and owners.get(row.serial) != places[row.serial]:
                owners[row.serial] = span if span == places[row.serial] else owners.get(row.serial, span)
    return owners


def _wrong_serial(work: Working, given: str | None, unit: Range, owners: dict[str, Range]) -> str | None:
    if given is None:
        return "serial_missing"
    if given not in owners:
        return "serial_not_sold_here"
    return "serial_came_back_before" if given in work.priors.serials_back or owners[given] != unit else None


def evidence_quantity(work: Working) -> Iterator[RuleResult]:
    """Once anything of the case is booked in, what was received is the ceiling of every line, lowest units first."""
    if work.evidence.kind not in ("return", "exchange"):
        return
    counts = received_counts(work)
    trigger = work.policy.refund_trigger
    collects = _collects(work)
    if not work.arrived and (collects or _on_its_way(work, trigger)):
        if trigger in ("received", "inspected"):
            work.held_back = True
            sizes = tuple(f"announced:{line_id}:{size(units)}" for line_id, units in work.announced.items())
            sent = bool(work.evidence.sent) or not collects
            reason = "sent_back_and_not_booked_in" if sent else "to_be_collected_and_not_booked_in"
            yield RuleResult("evidence.quantity", "needs_review", "case", reason, sizes)
        work.in_advance = True
        return
    for line_id, units in work.units.items():
        received, announced = counts.get(line_id, 0), size(work.announced[line_id])
        work.units[line_id] = _arrived(work, line_id, units, received)
        facts: tuple[str, ...] = (f"announced:{announced}", f"received:{received}")
        waiting = minus(units, work.units[line_id])
        if waiting:
            where = f"{line_id}{written(waiting)}"
            yield RuleResult("evidence.quantity", "fail", where, "not_received", facts, f"received:{line_id}")


def _arrived(work: Working, line_id: str, units: Ranges, received: int) -> Ranges:
    """So many of the units as arrived: those somebody looked at before the others where a serial says which they are."""
    if not units or not work.line(line_id).serials:
        return first(units, received)
    seen = within(units, [(row.a, row.b) for row in work.evidence.inspected if row.line_id == line_id])
    return union([*first(seen, received), *first(minus(units, seen), received - size(seen))])


def _collects(work: Working) -> bool:
    """Who offered to fetch the goods may not wait for them with the money (2011/83 Art. 13(3))."""
    return work.evidence.collection_offered and work.preset is not None and work.preset.kind == "withdrawal"


def _on_its_way(work: Working, trigger: str) -> bool:
    if trigger == "announced":
        return True
    if trigger == "carrier_scan":
        return any(row.by_carrier for row in work.evidence.sent)
    return bool(work.evidence.sent) and (trigger == "proof_of_sending" or work.preset is not None)


def evidence_trigger(work: Working) -> Iterator[RuleResult]:
    if work.evidence.kind == "cancellation":
        yield from _never_arrived(work)
    if work.policy.refund_trigger != "inspected" or work.in_advance or work.evidence.kind not in ("return", "exchange"):
        return
    for line_id, units in work.units.items():
        seen = [span for ranges, _ in work.graded.get(line_id, ()) for span in ranges]
        work.units[line_id] = within(units, seen)
        waiting = minus(units, work.units[line_id])
        if waiting:
            where = f"{line_id}{written(waiting)}"
            yield RuleResult("evidence.trigger", "fail", where, "not_inspected", (), f"inspected:{where}")


def _never_arrived(work: Working) -> Iterator[RuleResult]:
    """What is cancelled was not sent, or got lost, and somebody found that; the customer's word opens the case and no more."""
    for line_id, units in work.units.items():
        line = work.line(line_id)
        named = {line_id, line.parent_line}
        if not units:
            continue
        if named & {*work.evidence.found_delivered}:
            work.units[line_id] = ()
            yield RuleResult("evidence.trigger", "fail", line_id, "it_was_delivered")
        elif not named & {*work.evidence.not_delivered}:
            work.units[line_id] = ()
            yield RuleResult(
                "evidence.trigger", "fail", line_id, "not_known_to_be_lost", (), f"not_delivered:{line_id}"
            )
        elif line.delivered_at is not None:
            facts = (f"delivered:{local_day(line.delivered_at, zone_of(work))}",)
            yield RuleResult("evidence.conflict", "needs_review", line_id, "said_to_be_delivered", facts)


def evidence_grade(work: Working) -> Iterator[RuleResult]:
    """A unit graded X claims nothing; a later grade of the same unit replaces an earlier one."""
    for line_id, units in work.units.items():
        foreign = [span for ranges, row in work.graded.get(line_id, ()) if row.grade == "X" for span in ranges]
        quarantined = within(units, foreign)
        if quarantined:
            work.units[line_id] = minus(units, foreign)
            where = f"{line_id}{written(quarantined)}"
            yield RuleResult("evidence.grade", "fail", where, "not_our_unit", (f"quarantined:{size(quarantined)}",))


def bundle_whole(work: Working) -> Iterator[RuleResult]:
    """Where bundles go back only whole: kits of which every component is here, lowest first; the rest waits."""
    if work.policy.bundle_return != "whole_only":
        return
    for parent in work.allocation.lines:
        parts = work.allocation.components(parent.line_id) if parent.parent else ()
        if not any(work.units.get(part.line_id) for part in parts):
            continue
        kits: Ranges = ((0, parent.quantity),)
        for part in parts:
            per = part.per_bundle or 1
            missing = minus(((0, part.quantity),), work.returned(part.line_id))
            kits = minus(kits, [(a // per, -(-b // per)) for a, b in missing])
        for part in parts:
            per, units = part.per_bundle or 1, work.units.get(part.line_id, ())
            kept = within(units, [(a * per, b * per) for a, b in kits])
            if kept != units:
                work.units[part.line_id] = kept
                where = f"{part.line_id}{written(minus(units, kept))}"
                yield RuleResult("bundle.whole", "fail", where, "kit_not_whole", (), f"received:{parent.line_id}")


UNIT_RULES: tuple[tuple[str, Rule], ...] = (
    ("alloc.balanced", alloc_balanced),
    ("order.owner", order_owner),
    ("time.known", time_known),
    ("unit.exists", unit_exists),
    ("unit.free", unit_free),
    ("window.merchant", window_merchant),
    ("window.statutory", window_statutory),
    ("product.final_sale", final_sale),
    ("product.excluded", product_excluded),
    ("gift_card.unredeemed", gift_card),
    ("cure.first", presumption),
    ("evidence.quantity", evidence_quantity),
    ("evidence.trigger", evidence_trigger),
    ("serial.match", serial_match),
    ("evidence.grade", evidence_grade),
    ("bundle.whole", bundle_whole),
    ("evidence.conflict", evidence_conflict),
    ("reason.supported", reason_supported),
)


# Of goods that stay with the customer: the rules on what comes back have nothing to say.
_OF_KEPT = frozenset({"alloc.balanced", "order.owner", "time.known", "unit.exists", "unit.free"})


def run_unit_rules(work: Working) -> list[RuleResult]:
    """Every rule in turn; a rule with nothing to say is recorded as passed for the case."""
    results: list[RuleResult] = []
    for rule_id, rule in UNIT_RULES:
        found = list(rule(work)) if work.evidence.kind not in KEPT or rule_id in _OF_KEPT else []
        results.extend(found)
        if not any(result.id == rule_id for result in found):
            results.append(RuleResult(rule_id, "pass", "case", "holds"))
    return results
