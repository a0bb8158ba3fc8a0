"""What is stated of a case beside goods and parcels: append-only rows, and the recomputation each one sets off.

Goods that never left or were lost, a repair or replacement and how it went, whether an insurance was used, that the shop fetches
the goods, who asks. Of one kind and line the newest counts, so a wrong one is put right by stating another. Somebody's word pays
money here, so whoever stated it does not approve the refund (`nobody_approves_on_their_own_word`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment import EXCHANGED, reassess
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, run, scalar
from ledger.errors import BadInput, WrongState
from ledger.events import LockedCase, append, lock_order_and_case
from ledger.ids import uuid7

GOES_BACK: Final = ("return", "exchange", "warranty")
FAULT: Final = "fault"
LONGEST_NOTE: Final = 500
CURES: Final = ("repair", "replacement")


@dataclass(frozen=True)
class Kind:
    """What may be said of a fact, of which kinds of case, and whether it is about a line of goods or of a fee."""

    said: tuple[str, ...]
    cases: tuple[str, ...]
    line: str = ""


KINDS: Final[dict[str, Kind]] = {
    "not_delivered": Kind(("not_dispatched", "lost", "delivered"), ("cancellation", "return", "exchange"), "goods"),
    "cure": Kind(("done", "failed", "refused", "impossible", "waived"), GOES_BACK, "goods"),
    "fee_use": Kind(("used", "unused"), ("return", "exchange"), "fee"),
    "collection": Kind(("offered", "not_offered"), ("return", "exchange")),
    "claimant": Kind(("buyer", "other"), (*GOES_BACK, "cancellation")),
}


@dataclass(frozen=True)
class Stated:
    """One fact. `said`: one of its kind's, of a claimant nothing: `customer`, the shop's reference or the e-mail of who asks, is
    compared with the order's. `happened_at` (aware): when a cure was done, or goods were found lost. `cure`: of CURES, or None."""

    kind: str
    channel: str
    actor: str
    said: str = ""
    line_ref: str | None = None
    cure: str | None = None
    happened_at: datetime | None = None
    customer: str | None = None
    note: str = ""


def state_fact(db: Connection, merchant_id: UUID, case_id: UUID, stated: Stated) -> LockedCase:
    """Records one fact, then computes the entitlement anew; the same as the newest of its kind again changes nothing.

    Locks order, case and what reassessing locks. Raises NotFound, BadInput naming the field (kind, said, line, cure, happened_at,
    customer, note), WrongState for a case that is closed without payment, or of another kind.
    """
    kind = KINDS.get(stated.kind)
    if kind is None:
        raise BadInput("kind", f"choose one of {', '.join(KINDS)}")
    _check_said(stated, kind)
    case = lock_order_and_case(db, merchant_id, case_id)
    if case.stage in ("rejected", EXCHANGED):
        raise WrongState("This case is closed without a refund. Open a new request first.")
    if case.kind not in kind.cases:
        raise WrongState("A case of this kind does not turn on that. Open a return first.")
    line = _line(db, case, stated, kind) if kind.line else None
    _check_time(db, case, stated)
    customer, said = _claimant(db, case, stated) if stated.kind == "claimant" else (None, stated.said)
    if insert_fact(db, case, stated, line, said=said, customer=customer):
        reassess(db, case, stated.actor)
    return case


def _check_said(stated: Stated, kind: Kind) -> None:
    if stated.kind != "claimant" and stated.said not in kind.said:
        raise BadInput("said", f"choose one of {', '.join(kind.said)}")
    if stated.kind == "claimant" and stated.said:
        raise BadInput("said", "who asks is compared with the order: leave it out")
    if (stated.line_ref is None) != (not kind.line):
        raise BadInput(
            "line", f"name a line of kind {kind.line}" if kind.line else "this is of the whole case: leave it out"
        )
    if stated.cure is not None and (stated.kind != "cure" or stated.cure not in CURES):
        raise BadInput("cure", f"is of a cure alone: choose one of {', '.join(CURES)}")
    if stated.kind == "cure" and stated.said == "done" and (stated.cure is None or stated.happened_at is None):
        raise BadInput("cure" if stated.cure is None else "happened_at", "say what was done, and when")
    if stated.happened_at is not None and stated.kind not in ("cure", "not_delivered"):
        raise BadInput("happened_at", "leave it out: it does not count for this")
    if (stated.customer is None) != (stated.kind != "claimant"):
        raise BadInput("customer", "say who asks, by the shop's number or the e-mail, and only there")
    if len(stated.note) > LONGEST_NOTE:
        raise BadInput("note", f"write at most {LONGEST_NOTE} characters")


_LINE: Final = """
    SELECT l.line_id, l.quantity, l.kind, EXISTS (SELECT 1 FROM case_items i WHERE i.merchant_id = l.merchant_id
        AND i.line_id = l.line_id AND i.case_id = :c AND i.live) AS held
    FROM order_lines l WHERE l.merchant_id = :m AND l.order_id = :o AND l.line_ref = :ref
"""


def _line(db: Connection, case: LockedCase, stated: Stated, kind: Kind) -> RowMapping:
    line = first(db, _LINE, m=case.merchant_id, c=case.case_id, o=case.order_id, ref=stated.line_ref)
    if line is None or line["kind"] != kind.line:
        raise BadInput("line", f"the order of this case has no line {stated.line_ref!r} of kind {kind.line}")
    if kind.line == "goods" and not line["held"]:
        raise BadInput("line", "this case holds no units of that line. Open a request for it first")
    return line


def _check_time(db: Connection, case: LockedCase, stated: Stated) -> None:
    check_happened(db, case, stated.happened_at)


def check_happened(db: Connection, case: LockedCase, at: datetime | None) -> None:
    """Raises BadInput for an instant that is to come, or before the order."""
    if at is None:
        return
    if at > case.at + timedelta(days=1):
        raise BadInput("happened_at", "it happened today or before")
    placed = scalar(
        db, "SELECT placed_at FROM orders WHERE merchant_id = :m AND order_id = :o", m=case.merchant_id, o=case.order_id
    )
    if at < placed - timedelta(days=1):
        raise BadInput("happened_at", "it happened after the order was placed")


_BUYER: Final = """
    SELECT k.external_ref, k.email FROM orders o JOIN customers k ON k.merchant_id = o.merchant_id AND k.customer_id = o.customer_id
    WHERE o.merchant_id = :m AND o.order_id = :o
"""


def _claimant(db: Connection, case: LockedCase, stated: Stated) -> tuple[str, str]:
    """Who asks, and whether that is whom the order's contract is with."""
    asks = mask_card_numbers((stated.customer or "").strip())
    if not 1 <= len(asks) <= 254:
        raise BadInput("customer", "write 1 to 254 characters")
    buyer = first(db, _BUYER, m=case.merchant_id, o=case.order_id)
    if buyer is None:
        raise BadInput("customer", "the shop named no customer of this order to compare with")
    known = [one.casefold() for one in (buyer["external_ref"], buyer["email"]) if one]
    return asks, "buyer" if asks.casefold() in known else "other"


_NEWEST: Final = """
    SELECT said, cure, happened_at, customer_ref, note FROM case_facts WHERE merchant_id = :m AND case_id = :c AND kind = :kind
        AND line_id IS NOT DISTINCT FROM CAST(:l AS uuid) ORDER BY number DESC LIMIT 1
"""
_INSERT: Final = """
    INSERT INTO case_facts (merchant_id, fact_id, case_id, number, kind, order_id, line_id, line_quantity, said, cure,
        happened_at, customer_ref, note, channel, actor, at)
    SELECT :m, :id, :c, 1 + (SELECT coalesce(max(number), 0) FROM case_facts WHERE merchant_id = :m AND case_id = :c), :kind, :o,
        :l, :q, :said, :cure, :happened, :customer, :note, :channel, :actor, :at
"""


def insert_fact(
    db: Connection, case: LockedCase, stated: Stated, line: RowMapping | None, *, said: str, customer: str | None = None
) -> bool:
    """The row and its event; False where the newest of the kind says the same. The case is locked; the caller reassesses."""
    keys = {"m": case.merchant_id, "c": case.case_id, "kind": stated.kind, "l": line["line_id"] if line else None}
    row: dict[str, Any] = {
        "said": said, "cure": stated.cure, "happened_at": stated.happened_at, "customer_ref": customer,
        "note": mask_card_numbers(stated.note.strip())[:LONGEST_NOTE],
    }  # fmt: skip
    newest = first(db, _NEWEST, **keys)
    if newest is not None and dict(newest) == row:
        return False
    run(
        db, _INSERT, **keys, id=uuid7(), o=case.order_id, q=line["quantity"] if line else None, said=said, cure=stated.cure,
        happened=stated.happened_at, customer=customer, note=row["note"], channel=stated.channel, actor=stated.actor, at=case.at,
    )  # fmt: skip
    body = {"channel": stated.channel, "fact": stated.kind, "said": said}
    append(db, case, "fact.stated", stated.actor, body | ({"line": stated.line_ref} if stated.line_ref else {}))
    return True
