"""The rows that an entitlement is derived from, read under the lock of their case."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allocation_lines import Allocation
from ledger.assessment_asks import ASK, ASKS, Row, allowances_of_others, asks_of, closed_units, opinions_of, override_of
from ledger.database import first, of_each, rows
from ledger.entitlement_facts import (
    CaptureState,
    CasePayment,
    CaseUnits,
    Cure,
    Delivered,
    Evidence,
    Inspected,
    PriorClaim,
    PriorPromo,
    Priors,
    Received,
    Repaired,
    Sent,
)
from ledger.entitlement_parts import units_worth
from ledger.errors import NotFound
from ledger.events import LockedCase
from ledger.policy_of_sale import Asked, Deciding, policy_of_sale
from ledger.risk_signals import read_signals
from ledger.unit_ranges import Range, Ranges, minus, union, within


@dataclass(frozen=True)
class Facts:
    """`order` has allocation, blocked and discrepancies; `line_ids` are the lines' ids by their reference.

    `closed`: units [line, a, b] that money back closes although the goods stay with the customer.
    """

    order: Row
    deciding: Deciding
    evidence: Evidence
    priors: Priors
    line_ids: dict[str, UUID]
    closed: tuple[tuple[str, int, int], ...] = ()


def read_facts(db: Connection, case: LockedCase) -> Facts:
    """Everything `derive` needs about one locked case. Raises NotFound, NoPolicy."""
    keys = {"m": case.merchant_id, "c": case.case_id, "o": case.order_id}
    read = first(db, _FACTS, **keys)
    if read is None or not read["orders"]:
        raise NotFound
    (order,) = read["orders"]
    refs = {row["line_id"]: row["line_ref"] for row in read["lines"]}
    evidence, priors = _evidence(case.case_id, read, refs), _priors(read, refs)
    deciding = _deciding(db, case, read, evidence)
    if deciding.signals:
        priors = replace(priors, signals=read_signals(db, case, deciding.options[0][1].each))
    closed = closed_units(db, keys, refs) if evidence.kind == "keep_item" else ()
    return Facts(order, deciding, evidence, priors, {ref: UUID(line_id) for line_id, ref in refs.items()}, closed)


def read_priors(db: Connection, keys: dict[str, UUID], refs: Mapping[str, str]) -> Priors:
    """Money and claims around the case `c` of the order `o`, or around a case that is not there yet. `refs`: by the id's text."""
    read = first(db, _PRIORS, **keys)
    if read is None:
        raise NotFound
    return _priors(read, refs)


def _priors(read: Row, refs: Mapping[str, str]) -> Priors:
    allowances = allowances_of_others(read["asks"], refs, read["claimed"])
    return Priors(
        tuple(_capture(row) for row in read["captures"]),
        _claims(read, refs, [row for row in read["claimed"] if row["case_id"] not in allowances]),
        tuple(allowances.values()),
        tuple(CasePayment(row["capture_id"], row["order_minor"], row["amount_minor"]) for row in read["paid"]),
        _promos(read["others"]),
        tuple(row["serial"] for row in read["serials"]),
        serials_elsewhere=tuple(row["serial"] for row in read["elsewhere"]),
        repaired=tuple(
            Repaired(refs[row["line_id"]], row["a"], row["b"], row["cure"], row["at"]) for row in read["repaired"]
        ),
    )


def _deciding(db: Connection, case: LockedCase, read: Row, evidence: Evidence) -> Deciding:
    (sold,), (asked,) = read["orders"], read["asked"]
    placed_at, opened_at = datetime.fromisoformat(sold["placed_at"]), datetime.fromisoformat(asked["opened_at"])
    lines = [row.line_id for row in evidence.units] + [row.line_id for row in evidence.asks]

    def worth(line_id: str) -> int:
        return units_worth(Allocation.from_document(sold["allocation"]), evidence, line_id)

    return policy_of_sale(
        db, Asked(case.merchant_id, case.order_id, placed_at, lines, asked["reason"], opened_at, case.case_id, worth)
    )


_UNITS: Final = """
    SELECT a.line_id, lower(a.units) AS a, upper(a.units) AS b, c.reason,
        to_char(coalesce(c.stated_at, c.opened_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS sent_at
    FROM case_asks a JOIN cases c ON c.merchant_id = a.merchant_id AND c.case_id = a.case_id
    WHERE a.merchant_id = :m AND a.case_id = :c AND a.live AND a.units IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM case_items i WHERE i.merchant_id = a.merchant_id AND i.case_id = a.case_id AND i.live)
    UNION ALL
    SELECT ci.line_id, lower(ci.units) AS a, upper(ci.units) AS b, c.reason,
        to_char(coalesce(c.stated_at, c.opened_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS sent_at
    FROM case_items ci JOIN cases c ON c.merchant_id = ci.merchant_id AND c.case_id = ci.case_id
    WHERE ci.merchant_id = :m AND ci.case_id = :c AND ci.live ORDER BY line_id, a
"""
_FOUND: Final = """
    SELECT e.kind, e.line_id, e.count, lower(e.units) AS a, upper(e.units) AS b, e.grade, e.parcel, e.note, e.serial,
        e.reason_found, e.assessed_bps, to_char(e.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at,
        CASE WHEN e.kind = 'inspected' THEN (SELECT count(*) FROM photos p WHERE p.merchant_id = e.merchant_id
            AND p.case_id = e.case_id AND (p.line_id IS NULL OR p.line_id = e.line_id)
            AND (p.unit IS NULL OR e.units @> p.unit))::int ELSE 0 END AS photos
    FROM evidence e WHERE e.merchant_id = :m AND e.case_id = :c ORDER BY e.number
"""


_PARCELS: Final = """
    SELECT tracking, proof, our_label, to_char(sent_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS sent_at
    FROM parcels WHERE merchant_id = :m AND case_id = :c ORDER BY sent_at, parcel_id
"""
# Serials of the order that came back in other cases, but for rejected ones.
_SERIALS: Final = """
    SELECT DISTINCT e.serial FROM evidence e JOIN cases c ON c.merchant_id = e.merchant_id AND c.case_id = e.case_id
    WHERE e.merchant_id = :m AND c.order_id = :o AND e.case_id <> :c AND e.serial IS NOT NULL AND e.grade <> 'X'
        AND c.stage <> 'rejected' ORDER BY e.serial
"""
# Of the serials of this case, those that came back on another order of the merchant before: an index entry each, and of a serial
# that stands on very many cases ("none") the last ones.
_SERIALS_ELSEWHERE: Final = """
    SELECT mine.serial FROM (SELECT e.serial, min(e.at) AS at FROM evidence e WHERE e.merchant_id = :m AND e.case_id = :c
        AND e.serial IS NOT NULL GROUP BY e.serial) mine
    WHERE EXISTS (SELECT 1 FROM (SELECT x.case_id, x.grade FROM evidence x WHERE x.merchant_id = :m AND x.serial = mine.serial
            AND x.at < mine.at ORDER BY x.at DESC LIMIT 100) before
        JOIN cases c ON c.merchant_id = :m AND c.case_id = before.case_id
        WHERE c.order_id <> :o AND before.grade <> 'X' AND c.stage <> 'rejected') ORDER BY mine.serial
"""


def _evidence(case_id: UUID, read: Row, refs: Mapping[str, str]) -> Evidence:
    found, (asked,), parcels = read["found"], read["ask"], read["parcels"]
    return Evidence(
        str(case_id),
        tuple(
            CaseUnits(refs[row["line_id"]], row["a"], row["b"], row["reason"], row["sent_at"]) for row in read["units"]
        ),
        tuple(
            Received(refs[row["line_id"]], row["count"], row["parcel"], row["at"])
            for row in found
            if row["kind"] == "received"
        ),
        tuple(
            Inspected(
                refs[row["line_id"]],
                row["a"],
                row["b"],
                row["grade"],
                row["assessed_bps"],
                row["reason_found"],
                row["serial"],
                row["photos"],
                row["note"],
            )
            for row in found
            if row["kind"] == "inspected"
        ),
        sent=tuple(Sent(row["sent_at"], row["tracking"], by_carrier=row["proof"] == "carrier") for row in parcels),
        parcels_on_our_label=len({row["tracking"] for row in parcels if row["our_label"]}),
        kind=asked["kind"],
        asks=asks_of(asked, refs),
        opinions=opinions_of(asked, refs),
        override=override_of(asked),
        delivered=_delivered(read["delivered"]),
        **_stated(read["stated"], refs),
    )


# What was stated of the case, in its order: of one kind and line the newest counts, of cures every one is said.
_STATED: Final = """
    SELECT kind, line_id, said, cure, customer_ref, to_char(happened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at
    FROM case_facts WHERE merchant_id = :m AND case_id = :c ORDER BY number
"""
# Units of the order that earlier cases repaired or replaced, as far as that stands.
_REPAIRED: Final = """
    SELECT f.line_id, lower(i.units) AS a, upper(i.units) AS b, f.cure,
        to_char(f.happened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at
    FROM case_facts f JOIN case_items i ON i.merchant_id = f.merchant_id AND i.case_id = f.case_id AND i.line_id = f.line_id
    WHERE f.merchant_id = :m AND f.order_id = :o AND f.case_id <> :c AND f.kind = 'cure' AND f.said = 'done'
        AND NOT EXISTS (SELECT 1 FROM case_facts later WHERE later.merchant_id = f.merchant_id AND later.case_id = f.case_id
            AND later.kind = 'cure' AND later.line_id = f.line_id AND later.number > f.number)
    ORDER BY f.line_id, lower(i.units), f.fact_id
"""


def _stated(found: Sequence[Row], refs: Mapping[str, str]) -> dict[str, Any]:
    newest = {(row["kind"], row["line_id"]): row for row in found}
    of = {kind: [row for (named, _), row in newest.items() if named == kind] for kind, _ in newest}
    lost, claimant = of.get("not_delivered", ()), of.get("claimant", ())
    return {
        "not_delivered": tuple(refs[row["line_id"]] for row in lost if row["said"] != "delivered"),
        "found_delivered": tuple(refs[row["line_id"]] for row in lost if row["said"] == "delivered"),
        "cures": tuple(
            Cure(refs[row["line_id"]], row["said"], row["cure"], row["at"]) for row in found if row["kind"] == "cure"
        ),
        "used_fees": tuple((refs[row["line_id"]], row["said"] == "used") for row in of.get("fee_use", ())),
        "collection_offered": any(row["said"] == "offered" for row in of.get("collection", ())),
        "customer_ref": next((row["customer_ref"] for row in claimant if row["said"] == "other"), None),
    }


_DELIVERED: Final = """
    SELECT DISTINCT ON (line_ref) line_ref, shipment,
        to_char(delivered_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at
    FROM order_deliveries WHERE merchant_id = :m AND order_id = :o ORDER BY line_ref, n DESC
"""


def read_delivered(db: Connection, keys: dict[str, UUID]) -> tuple[Delivered, ...]:
    """What the shop stated last of the deliveries of the order `o`, where that was after it stated the order."""
    return _delivered(rows(db, _DELIVERED, **keys))


def _delivered(found: Iterable[Row | RowMapping]) -> tuple[Delivered, ...]:
    return tuple(Delivered(row["line_ref"], row["at"], row["shipment"]) for row in found)


# Reservations of this case that have not left count as available again: they are withdrawn before anything is proposed.
# What no provider holds goes back by hand, but for a card or bank whose payment the shop did not name: that goes nowhere.
# What left outside and is not placed yet is not there any more, and a charge that the bank took up gives no refund at all, not
# even of the part it did not ask for (STRIPE.md §7). What was charged twice goes back to the charge it is on: nothing else is
# drawn on that while it waits for its approval.
# An exchange credit stands for the payment it names: what is owed goes there, within the credit (`mine`) and what that payment has.
# `captured_minor` is the whole of the payment, of which `order_minor` is the order's part, taken or only authorised.
_CAPTURES: Final = """
    SELECT cp.capture_id, mine.position, cp.tender, cp.currency, mine.order_minor, cp.step_minor, cp.disputed_minor,
        mine.captured_minor + mine.held_minor + mine.releasing_minor + mine.released_minor AS captured_minor,
        CASE WHEN cp.charge_ref IS NULL AND cp.tender NOT IN ('gift_card', 'store_credit', 'cash') THEN 0
            WHEN bank.takes THEN 0
            ELSE greatest(0, cp.available_minor - outside.unplaced_minor + own.refunds - twice.minor) END AS available_minor,
        CASE WHEN cp.charge_ref IS NULL OR mine.source_capture_id IS NOT NULL THEN 0
            ELSE cp.held_minor + least(cp.releasing_minor, own.cancels) END AS held_minor,
        coalesce((SELECT sum(i.order_minor) FROM intents i WHERE i.merchant_id = cp.merchant_id
            AND i.capture_id = cp.capture_id AND i.order_id = :o
            AND (i.state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded')
                OR (i.state IN ('approved', 'held') AND (i.case_id <> :c OR EXISTS (SELECT 1 FROM manual_settlements s
                    WHERE s.merchant_id = i.merchant_id AND s.intent_id = i.intent_id))))), 0)::bigint AS drawn_order_minor,
        outside.open_minor AS external_unallocated_minor
    FROM captures mine JOIN captures cp ON cp.merchant_id = mine.merchant_id
        AND cp.capture_id = coalesce(mine.source_capture_id, mine.capture_id) CROSS JOIN LATERAL (
        SELECT coalesce(sum(i.amount_minor) FILTER (WHERE i.act <> 'cancel_payment'), 0)::bigint AS refunds,
            coalesce(sum(i.amount_minor) FILTER (WHERE i.act = 'cancel_payment'), 0)::bigint AS cancels FROM intents i
        WHERE i.merchant_id = cp.merchant_id AND i.capture_id = cp.capture_id AND i.case_id = :c AND i.state IN ('approved', 'held')
            AND NOT EXISTS (SELECT 1 FROM manual_settlements s WHERE s.merchant_id = i.merchant_id AND s.intent_id = i.intent_id)
    ) own
    CROSS JOIN LATERAL (SELECT coalesce(sum(e.amount_minor - e.placed_minor), 0)::bigint AS unplaced_minor,
            coalesce(sum(e.amount_minor - e.allocated_minor), 0)::bigint AS open_minor
        FROM external_refunds e WHERE e.merchant_id = cp.merchant_id AND e.charge_ref = cp.charge_ref
            AND e.provider_account_id = cp.provider_account_id AND e.status NOT IN ('failed', 'canceled')) outside
    CROSS JOIN LATERAL (SELECT coalesce(sum(i.amount_minor), 0)::bigint AS minor FROM intents i
        WHERE i.merchant_id = cp.merchant_id AND i.capture_id = cp.capture_id AND i.state = 'proposed' AND i.case_id <> :c
            AND EXISTS (SELECT 1 FROM charge_claims k WHERE k.merchant_id = i.merchant_id AND k.case_id = i.case_id)) twice
    CROSS JOIN LATERAL (SELECT coalesce(bool_or(dispute_takes(d.status)), false) AS takes
        FROM disputes d WHERE d.merchant_id = cp.merchant_id AND d.charge_ref = cp.charge_ref
            AND d.provider_account_id = cp.provider_account_id) bank
    WHERE mine.merchant_id = :m AND mine.order_id = :o ORDER BY mine.position
"""

# What other cases of the order hold, have had back by their latest entitlements, and claim; what was paid for outside is
# claimed too.
_HELD: Final = """
    SELECT ci.case_id, ci.line_id, lower(ci.units) AS a, upper(ci.units) AS b FROM case_items ci
    WHERE ci.merchant_id = :m AND ci.order_id = :o AND ci.case_id <> :c AND ci.live
    ORDER BY ci.case_id, ci.line_id, lower(ci.units)
"""
_OTHERS: Final = """
    SELECT DISTINCT ON (e.case_id) e.case_id, e.record->'units' AS units, e.record->'retained' AS retained,
        e.record->'released' AS released, e.record->'promo_retained' AS promos
    FROM entitlements e JOIN cases c ON c.merchant_id = e.merchant_id AND c.case_id = e.case_id
    WHERE e.merchant_id = :m AND c.order_id = :o AND e.case_id <> :c
        AND EXISTS (SELECT 1 FROM case_items ci WHERE ci.merchant_id = e.merchant_id AND ci.case_id = e.case_id AND ci.live)
    ORDER BY e.case_id, e.n DESC
"""


def _promos(others: Iterable[Row]) -> tuple[PriorPromo, ...]:
    """What other cases kept back for broken promotions, less what was released, by promotion and line."""
    kept: dict[tuple[str, str], int] = {}
    for row in others:
        for name, line, minor in row["promos"] or ():
            kept[name, line] = kept.get((name, line), 0) + minor
    return tuple(PriorPromo(name, line, minor) for (name, line), minor in sorted(kept.items()) if minor)


_CLAIMED: Final = """
    SELECT claimed.case_id, claimed.line_id, l.quantity, sum(claimed.minor)::bigint AS minor FROM (
        SELECT i.case_id, lc.line_id, lc.amount_minor AS minor FROM line_claims lc
        JOIN intents i ON i.merchant_id = lc.merchant_id AND i.intent_id = lc.intent_id
        WHERE lc.merchant_id = :m AND i.order_id = :o
        UNION ALL
        SELECT a.case_id, a.line_id, a.order_minor FROM external_allocations a
        JOIN cases c ON c.merchant_id = a.merchant_id AND c.case_id = a.case_id
        WHERE a.merchant_id = :m AND c.order_id = :o) claimed
    JOIN order_lines l ON l.merchant_id = :m AND l.line_id = claimed.line_id
    WHERE claimed.case_id <> :c GROUP BY claimed.case_id, claimed.line_id, l.quantity HAVING sum(claimed.minor) <> 0
    ORDER BY claimed.case_id, claimed.line_id
"""


def _claims(read: Row, refs: Mapping[str, str], claimed: Sequence[Row]) -> tuple[PriorClaim, ...]:
    """One row per range; what a case claims of a line, and what a deduction of it retains, stand on its first row there.

    A line without units of its own (shipping, fee) is held as [0, quantity).
    """
    held: dict[tuple[str, str], Ranges] = {}
    for row in read["held"]:
        key = (row["case_id"], refs[row["line_id"]])
        held[key] = union([*held.get(key, ()), (row["a"], row["b"])])
    minors = {(row["case_id"], refs[row["line_id"]]): row["minor"] for row in claimed}
    for row in claimed:
        held.setdefault((row["case_id"], refs[row["line_id"]]), ((0, row["quantity"]),))
    back: dict[tuple[str, str], list[Range]] = {}
    for row in read["others"]:
        for line, a, b in row["units"]:
            back.setdefault((row["case_id"], line), []).append((a, b))
        for line, minor in _kept_back(row).items():
            key = (row["case_id"], line)
            if key in held:
                minors[key] = minors.get(key, 0) + minor
    found = []
    for (case, line), units in held.items():
        returned = within(units, back.get((case, line), ()))
        ranges = [(unit, True) for unit in returned] + [(unit, False) for unit in minus(units, returned)]
        for number, ((a, b), is_back) in enumerate(ranges):
            found.append(PriorClaim(case, line, a, b, 0 if number else minors.get((case, line), 0), is_back))
    return tuple(found)


def _kept_back(row: Row) -> dict[str, int]:
    """What a case's entitlement retains of each line, less what it releases of what earlier ones retained."""
    kept: dict[str, int] = dict(row["retained"] or {})
    for line, minor in (row["released"] or {}).items():
        kept[line] = kept.get(line, 0) - minor
    return {line: minor for line, minor in kept.items() if minor}


_PAID: Final = """
    SELECT capture_id, order_minor, amount_minor FROM intents i WHERE merchant_id = :m AND case_id = :c
        AND (state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded')
            OR (state IN ('approved', 'held') AND EXISTS (SELECT 1 FROM manual_settlements s
                WHERE s.merchant_id = i.merchant_id AND s.intent_id = i.intent_id)))
    UNION ALL
    SELECT cp.capture_id, sum(a.order_minor)::bigint, sum(a.amount_minor)::bigint FROM external_allocations a
    JOIN external_refunds e ON e.merchant_id = a.merchant_id AND e.refund_ref = a.refund_ref
    JOIN captures cp ON cp.merchant_id = e.merchant_id AND cp.provider_account_id = e.provider_account_id
        AND cp.charge_ref = e.charge_ref
    WHERE a.merchant_id = :m AND a.case_id = :c GROUP BY cp.capture_id, e.refund_ref HAVING sum(a.amount_minor) > 0
"""


_ORDER: Final = """
    SELECT order_id, allocation, placed_at, blocked, discrepancies FROM orders WHERE merchant_id = :m AND order_id = :o
"""
_LINES: Final = "SELECT line_id, line_ref FROM order_lines WHERE merchant_id = :m AND order_id = :o"
_ASKED: Final = "SELECT reason, opened_at FROM cases WHERE merchant_id = :m AND case_id = :c"
_AROUND: Final = {
    "others": _OTHERS,
    "claimed": _CLAIMED,
    "asks": ASKS,
    "captures": _CAPTURES,
    "held": _HELD,
    "paid": _PAID,
    "serials": _SERIALS,
    "elsewhere": _SERIALS_ELSEWHERE,
    "repaired": _REPAIRED,
}
_PRIORS: Final = of_each(**_AROUND)
_FACTS: Final = of_each(
    orders=_ORDER,
    lines=_LINES,
    asked=_ASKED,
    units=_UNITS,
    found=_FOUND,
    parcels=_PARCELS,
    ask=ASK,
    delivered=_DELIVERED,
    stated=_STATED,
    **_AROUND,
)


def _capture(row: Row) -> CaptureState:
    return CaptureState(
        row["capture_id"], row["tender"], row["currency"], row["captured_minor"], row["order_minor"],
        row["available_minor"], row["drawn_order_minor"], row["step_minor"], row["disputed_minor"],
        row["external_unallocated_minor"], row["held_minor"], row["position"],
    )  # fmt: skip
