"""What does not agree with the provider: named once, taken by a person, and resolved by adding, never by editing.

A finding of a later run joins the open discrepancy of the same refund and kind. One that was resolved and is found again
opens a new row that follows it, unless it was resolved as a difference that stays (`STANDS`) and both sides are as then.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.canonical import canonical_bytes
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run
from ledger.errors import BadInput, NotFound, WrongState
from ledger.ids import uuid7
from ledger.reconciliation_compare import About, Kind, Part, Sum

# The closed list of a person's resolutions. In STANDS the two sides will go on to differ, and that is the answer.
CODES: Final = ("timing", "adopted", "external", "provider_error", "our_error", "written_off", "duplicate_recovered")
STANDS: Final = frozenset({"timing", "provider_error", "our_error", "written_off", "duplicate_recovered"})
# These need no words beside them: the books show what they say.
WITHOUT_NOTE: Final = frozenset({"timing", "adopted", "external"})
LONGEST_NOTE: Final = 2000


@dataclass(frozen=True)
class Found:
    """What was found about one refund, dispute or payment (`refund_ref` names it). `at`: the moment in the period. Figures are
    JSON of both sides."""

    kind: Kind
    refund_ref: str
    intent_id: UUID | None
    ours: dict[str, Any]
    theirs: dict[str, Any]
    at: datetime
    about: About = "refund"


def join(db: Connection, merchant_id: UUID, account_id: UUID, run_id: UUID | None, found: Found) -> UUID:
    """The discrepancy this finding belongs to, which is a new row when none is open. Locks nothing.

    `run_id` is None for what no run found. Two runs that find the same at once meet at the key of the row: the second joins
    the first's.
    """
    here = first(db, _OF_RUN, m=merchant_id, a=account_id, r=run_id, ref=found.refund_ref, late=found.kind == "late")
    if here is not None:
        return UUID(str(here["discrepancy_id"]))
    last = _last(db, merchant_id, account_id, found)
    if last is not None and (last["code"] is None or _stands(last, found)):
        return UUID(str(last["discrepancy_id"]))
    run(
        db, _INSERT, m=merchant_id, d=uuid7(), a=account_id, r=run_id, kind=found.kind, ref=found.refund_ref,
        intent=found.intent_id, n=last["occurrence"] + 1 if last else 1, follows=last["discrepancy_id"] if last else None,
        ours=_json(found.ours), theirs=_json(found.theirs), at=found.at, about=found.about,
    )  # fmt: skip
    made = _last(db, merchant_id, account_id, found)
    if made is None:
        raise AssertionError("the row is there: it was inserted, or another run's insert was in the way")
    return UUID(str(made["discrepancy_id"]))


_INSERT: Final = """
    INSERT INTO discrepancies (merchant_id, discrepancy_id, provider_account_id, run_id, kind, refund_ref, intent_id,
        occurrence, follows, ours, theirs, dated_at, about)
    VALUES (:m, :d, :a, :r, :kind, :ref, :intent, :n, :follows, CAST(:ours AS jsonb), CAST(:theirs AS jsonb), :at, :about)
    ON CONFLICT (merchant_id, provider_account_id, refund_ref, kind, occurrence) DO NOTHING
"""
# One refund has one name in a run. Where the books were brought on late, they stay late, and that is said already.
_OF_RUN: Final = """
    SELECT d.discrepancy_id FROM discrepancies d
    WHERE d.merchant_id = :m AND d.provider_account_id = :a AND d.refund_ref = :ref AND (
        EXISTS (SELECT 1 FROM reconciliation_findings f WHERE f.merchant_id = d.merchant_id
            AND f.discrepancy_id = d.discrepancy_id AND f.run_id = :r)
        OR (:late AND EXISTS (SELECT 1 FROM discrepancy_acts c WHERE c.merchant_id = d.merchant_id
            AND c.discrepancy_id = d.discrepancy_id AND c.code = 'healed')))
    ORDER BY d.number LIMIT 1
"""
_LAST: Final = """
    SELECT d.discrepancy_id, d.occurrence, d.ours, d.theirs, c.code FROM discrepancies d
    LEFT JOIN discrepancy_acts c ON c.merchant_id = d.merchant_id AND c.discrepancy_id = d.discrepancy_id AND c.kind = 'resolved'
    WHERE d.merchant_id = :m AND d.provider_account_id = :a AND d.refund_ref = :ref AND d.kind = :kind
    ORDER BY d.occurrence DESC LIMIT 1
"""


def _last(db: Connection, merchant_id: UUID, account_id: UUID, found: Found) -> RowMapping | None:
    return first(db, _LAST, m=merchant_id, a=account_id, ref=found.refund_ref, kind=found.kind)


def _stands(last: RowMapping, found: Found) -> bool:
    return last["code"] in STANDS and (last["ours"], last["theirs"]) == (found.ours, found.theirs)


def _json(figures: dict[str, Any]) -> str:
    return canonical_bytes(figures).decode()


def add_finding(
    db: Connection,
    merchant_id: UUID,
    run_id: UUID,
    discrepancy_id: UUID,
    part: Part,
    source_ref: str,
    ours: Sum,
    theirs: Sum,
) -> None:
    """How much of the difference of this part's sums the discrepancy is, by currency: theirs less ours."""
    differences = {ours.currency: -ours.minor}
    differences[theirs.currency] = differences.get(theirs.currency, 0) + theirs.minor
    for currency, minor in differences.items():
        run(
            db,
            _FINDING,
            m=merchant_id,
            r=run_id,
            d=discrepancy_id,
            part=part,
            source=source_ref,
            currency=currency,
            minor=minor,
        )


_FINDING: Final = """
    INSERT INTO reconciliation_findings (merchant_id, run_id, discrepancy_id, part, source_ref, currency, difference_minor)
    VALUES (:m, :r, :d, :part, :source, :currency, :minor) ON CONFLICT DO NOTHING
"""


def system_resolves(db: Connection, merchant_id: UUID, discrepancy_id: UUID, code: str, note: str) -> None:
    """What the worker itself saw end: `healed`, `gone` or `timing`. Nothing to do for one that is resolved."""
    run(
        db, "INSERT INTO discrepancy_acts (merchant_id, act_id, discrepancy_id, kind, code, note, actor)"
        " VALUES (:m, :id, :d, 'resolved', :code, :note, 'system')"
        " ON CONFLICT (merchant_id, discrepancy_id) WHERE kind = 'resolved' DO NOTHING",
        m=merchant_id, id=uuid7(), d=discrepancy_id, code=code, note=note[:LONGEST_NOTE],
    )  # fmt: skip


def resolve_gone(
    db: Connection, merchant_id: UUID, account_id: UUID, run_id: UUID, from_at: datetime, to_at: datetime
) -> int:
    """Open discrepancies that a finished run over their moment did not find any more; returns how many."""
    gone = rows(db, _GONE, m=merchant_id, a=account_id, r=run_id, from_at=from_at, to_at=to_at)
    for row in gone:
        text = _READABLE if row["kind"] == "unreadable" else _EQUAL
        system_resolves(db, merchant_id, row["discrepancy_id"], "gone", text)
    return len(gone)


_EQUAL: Final = "A later run compared both sides and found them equal."
_READABLE: Final = "A later run could read it."
_GONE: Final = """
    SELECT d.discrepancy_id, d.kind FROM discrepancies d
    WHERE d.merchant_id = :m AND d.provider_account_id = :a AND d.dated_at >= :from_at AND d.dated_at < :to_at
        AND d.about <> 'payment' AND NOT EXISTS (SELECT 1 FROM discrepancy_acts c WHERE c.merchant_id = d.merchant_id
            AND c.discrepancy_id = d.discrepancy_id AND c.kind = 'resolved')
        AND NOT EXISTS (SELECT 1 FROM reconciliation_findings f WHERE f.merchant_id = d.merchant_id
            AND f.discrepancy_id = d.discrepancy_id AND f.run_id = :r)
"""


def take(db: Connection, merchant_id: UUID, discrepancy_id: UUID, staff_id: UUID) -> bool:
    """A person takes an open discrepancy; False when it was theirs already. Raises NotFound, WrongState (resolved)."""
    row = _open(db, merchant_id, discrepancy_id)
    if row["taken_by"] == staff_id:
        return False
    _act(db, merchant_id, discrepancy_id, staff_id, "taken", None, "")
    return True


def note(db: Connection, merchant_id: UUID, discrepancy_id: UUID, staff_id: UUID, text: str) -> None:
    """Adds a person's words. Raises NotFound, WrongState (resolved), BadInput (empty)."""
    _open(db, merchant_id, discrepancy_id)
    if not text.strip():
        raise BadInput("note", "write what you found")
    _act(db, merchant_id, discrepancy_id, staff_id, "noted", None, text)


def resolve(db: Connection, merchant_id: UUID, discrepancy_id: UUID, staff_id: UUID, code: str, text: str) -> None:
    """A person resolves an open discrepancy with a code of CODES, which moves no money.

    Raises NotFound, WrongState (resolved), BadInput (code unknown, or a note is owed).
    """
    _open(db, merchant_id, discrepancy_id)
    if code not in CODES:
        raise BadInput("code", f"choose one of {', '.join(CODES)}")
    if not text.strip() and code not in WITHOUT_NOTE:
        raise BadInput("note", "say why, for whoever reads the books later")
    try:
        _act(db, merchant_id, discrepancy_id, staff_id, "resolved", code, text)
    except IntegrityError as error:
        if "discrepancy_resolved_once" in str(error.orig):
            raise WrongState(_RESOLVED, state="resolved") from error
        raise


_RESOLVED: Final = (
    "Somebody has resolved this meanwhile. What they wrote stands; a later run opens it again if it is still so."
)
_OPEN: Final = """
    SELECT d.discrepancy_id,
        (SELECT a.staff_id FROM discrepancy_acts a WHERE a.merchant_id = d.merchant_id AND a.discrepancy_id = d.discrepancy_id
            AND a.kind = 'taken' ORDER BY a.at DESC, a.act_id DESC LIMIT 1) AS taken_by,
        EXISTS (SELECT 1 FROM discrepancy_acts a WHERE a.merchant_id = d.merchant_id AND a.discrepancy_id = d.discrepancy_id
            AND a.kind = 'resolved') AS resolved
    FROM discrepancies d WHERE d.merchant_id = :m AND d.discrepancy_id = :d
"""


def _open(db: Connection, merchant_id: UUID, discrepancy_id: UUID) -> RowMapping:
    row = first(db, _OPEN, m=merchant_id, d=discrepancy_id)
    if row is None:
        raise NotFound
    if row["resolved"]:
        raise WrongState(_RESOLVED, state="resolved")
    return row


def _act(
    db: Connection, merchant_id: UUID, discrepancy_id: UUID, staff_id: UUID, kind: str, code: str | None, text: str
) -> None:
    run(
        db, "INSERT INTO discrepancy_acts (merchant_id, act_id, discrepancy_id, kind, code, note, actor, staff_id)"
        " VALUES (:m, :id, :d, :kind, :code, :note, :actor, :staff)", m=merchant_id, id=uuid7(), d=discrepancy_id, kind=kind,
        code=code, note=mask_card_numbers(text.strip())[:LONGEST_NOTE], actor=f"staff:{staff_id}", staff=staff_id,
    )  # fmt: skip
