"""The rows that an entitlement is derived from, read under the lock of their case."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows
from ledger.entitlement_facts import (
    CaptureState,
    CasePayment,
    CaseUnits,
    Evidence,
    Inspected,
    PolicyTerms,
    PriorClaim,
    Priors,
    Received,
)
from ledger.errors import NotFound
from ledger.events import LockedCase
from ledger.policies import Policy, effective_policy
from ledger.unit_ranges import Range, Ranges, minus, union, within


@dataclass(frozen=True)
class Facts:
    """`order` has allocation, blocked and discrepancies; `line_ids` are the lines' ids by their reference."""

    order: RowMapping
    policy: Policy
    evidence: Evidence
    priors: Priors
    line_ids: dict[str, UUID]


def read_facts(db: Connection, case: LockedCase) -> Facts:
    """Everything `derive` needs about one locked case. Raises NotFound, NoPolicy."""
    keys = {"m": case.merchant_id, "c": case.case_id, "o": case.order_id}
    order = first(
        db, "SELECT order_id, allocation, placed_at, blocked, discrepancies FROM orders WHERE merchant_id = :m AND order_id = :o",
        m=case.merchant_id, o=case.order_id,
    )  # fmt: skip
    if order is None:
        raise NotFound
    lines = rows(db, "SELECT line_id, line_ref FROM order_lines WHERE merchant_id = :m AND order_id = :o",
                 m=case.merchant_id, o=case.order_id)  # fmt: skip
    refs = {row["line_id"]: row["line_ref"] for row in lines}
    policy = effective_policy(db, case.merchant_id, order["placed_at"])
    evidence = _evidence(db, keys, refs)
    priors = Priors(
        tuple(_capture(row) for row in rows(db, _CAPTURES, **keys)),
        _claims(db, keys, refs),
        (),
        tuple(CasePayment(str(row["capture_id"]), row["order_minor"], row["amount_minor"])
              for row in rows(db, _PAID, m=case.merchant_id, c=case.case_id)),
    )  # fmt: skip
    return Facts(order, policy, evidence, priors, {ref: line_id for line_id, ref in refs.items()})


def _evidence(db: Connection, keys: dict[str, UUID], refs: dict[UUID, str]) -> Evidence:
    units = rows(db, "SELECT line_id, lower(units) AS a, upper(units) AS b FROM case_items WHERE merchant_id = :m AND case_id = :c"
                 " AND live ORDER BY line_id, lower(units)", m=keys["m"], c=keys["c"])  # fmt: skip
    found = rows(db, "SELECT kind, line_id, count, lower(units) AS a, upper(units) AS b, grade FROM evidence"
                 " WHERE merchant_id = :m AND case_id = :c ORDER BY number", m=keys["m"], c=keys["c"])  # fmt: skip
    return Evidence(
        str(keys["c"]),
        tuple(CaseUnits(refs[row["line_id"]], row["a"], row["b"]) for row in units),
        tuple(Received(refs[row["line_id"]], row["count"]) for row in found if row["kind"] == "received"),
        tuple(
            Inspected(refs[row["line_id"]], row["a"], row["b"], row["grade"])
            for row in found
            if row["kind"] == "inspected"
        ),
    )


# Reservations of this case that have not left count as available again: they are withdrawn before anything is proposed.
# What no provider holds goes back by hand, but for a card or bank whose payment the shop did not name: that goes nowhere.
# What left outside and is not placed yet is not there any more, and a charge that the bank took up gives no refund at all, not
# even of the part it did not ask for (STRIPE.md §7).
# `captured_minor` is the whole of the payment, of which `order_minor` is the order's part, taken or only authorised.
_CAPTURES: Final = """
    SELECT cp.capture_id, cp.tender, cp.currency, cp.order_minor, cp.step_minor, cp.disputed_minor,
        cp.captured_minor + cp.held_minor + cp.releasing_minor + cp.released_minor AS captured_minor,
        CASE WHEN cp.charge_ref IS NULL AND cp.tender NOT IN ('gift_card', 'store_credit', 'cash') THEN 0
            WHEN bank.takes THEN 0
            ELSE greatest(0, cp.available_minor - outside.unplaced_minor + own.refunds) END AS available_minor,
        CASE WHEN cp.charge_ref IS NULL THEN 0 ELSE cp.held_minor + least(cp.releasing_minor, own.cancels) END AS held_minor,
        coalesce((SELECT sum(i.order_minor) FROM intents i WHERE i.merchant_id = cp.merchant_id
            AND i.capture_id = cp.capture_id AND (i.state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded')
                OR (i.state IN ('approved', 'held') AND (i.case_id <> :c OR EXISTS (SELECT 1 FROM manual_settlements s
                    WHERE s.merchant_id = i.merchant_id AND s.intent_id = i.intent_id))))), 0)::bigint AS drawn_order_minor,
        outside.open_minor AS external_unallocated_minor
    FROM captures cp CROSS JOIN LATERAL (
        SELECT coalesce(sum(i.amount_minor) FILTER (WHERE i.act <> 'cancel_payment'), 0)::bigint AS refunds,
            coalesce(sum(i.amount_minor) FILTER (WHERE i.act = 'cancel_payment'), 0)::bigint AS cancels FROM intents i
        WHERE i.merchant_id = cp.merchant_id AND i.capture_id = cp.capture_id AND i.case_id = :c AND i.state IN ('approved', 'held')
            AND NOT EXISTS (SELECT 1 FROM manual_settlements s WHERE s.merchant_id = i.merchant_id AND s.intent_id = i.intent_id)
    ) own
    CROSS JOIN LATERAL (SELECT coalesce(sum(e.amount_minor - e.placed_minor), 0)::bigint AS unplaced_minor,
            coalesce(sum(e.amount_minor - e.allocated_minor), 0)::bigint AS open_minor
        FROM external_refunds e WHERE e.merchant_id = cp.merchant_id AND e.charge_ref = cp.charge_ref
            AND e.provider_account_id = cp.provider_account_id AND e.status NOT IN ('failed', 'canceled')) outside
    CROSS JOIN LATERAL (SELECT coalesce(bool_or(dispute_takes(d.status)), false) AS takes
        FROM disputes d WHERE d.merchant_id = cp.merchant_id AND d.charge_ref = cp.charge_ref
            AND d.provider_account_id = cp.provider_account_id) bank
    WHERE cp.merchant_id = :m AND cp.order_id = :o ORDER BY cp.position
"""

# What other cases of the order hold, have had back, and claim; what was paid for outside is claimed too.
_HELD: Final = """
    SELECT ci.case_id, ci.line_id, lower(ci.units) AS a, upper(ci.units) AS b FROM case_items ci
    WHERE ci.merchant_id = :m AND ci.order_id = :o AND ci.case_id <> :c AND ci.live
    ORDER BY ci.case_id, ci.line_id, lower(ci.units)
"""
_BACK: Final = """
    SELECT DISTINCT ON (e.case_id) e.case_id, e.record->'units' AS units FROM entitlements e
    WHERE e.merchant_id = :m AND e.case_id = ANY(:cases) ORDER BY e.case_id, e.n DESC
"""
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


def _claims(db: Connection, keys: dict[str, UUID], refs: dict[UUID, str]) -> tuple[PriorClaim, ...]:
    """One row per range; what a case claims of a line stands on its first row there.

    A line without units of its own (shipping, fee) is held as [0, quantity).
    """
    held: dict[tuple[UUID, str], Ranges] = {}
    for row in rows(db, _HELD, **keys):
        key = (row["case_id"], refs[row["line_id"]])
        held[key] = union([*held.get(key, ()), (row["a"], row["b"])])
    claimed = rows(db, _CLAIMED, **keys)
    minors = {(row["case_id"], refs[row["line_id"]]): row["minor"] for row in claimed}
    for row in claimed:
        held.setdefault((row["case_id"], refs[row["line_id"]]), ((0, row["quantity"]),))
    if not held:
        return ()
    back: dict[tuple[UUID, str], list[Range]] = {}
    for row in rows(db, _BACK, m=keys["m"], cases=[case for case, _ in held]):
        for line, a, b in row["units"]:
            back.setdefault((row["case_id"], line), []).append((a, b))
    found = []
    for (case, line), units in held.items():
        returned = within(units, back.get((case, line), ()))
        ranges = [(unit, True) for unit in returned] + [(unit, False) for unit in minus(units, returned)]
        for number, ((a, b), is_back) in enumerate(ranges):
            found.append(PriorClaim(str(case), line, a, b, 0 if number else minors.get((case, line), 0), is_back))
    return tuple(found)


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


def _capture(row: RowMapping) -> CaptureState:
    return CaptureState(
        str(row["capture_id"]), row["tender"], row["currency"], row["captured_minor"], row["order_minor"],
        row["available_minor"], row["drawn_order_minor"], row["step_minor"], row["disputed_minor"],
        row["external_unallocated_minor"], row["held_minor"],
    )  # fmt: skip


def policy_terms(policy: Policy) -> PolicyTerms:
    return PolicyTerms(
        policy.policy_id, policy.version, policy.terms.refund_trigger, policy.terms.shipping,
        policy.terms.external_unallocated, manager_from_minor=policy.terms.routes.manager_from_minor,
    )  # fmt: skip
