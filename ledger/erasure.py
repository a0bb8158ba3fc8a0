"""Personal data goes when its time is over, or when somebody asks for it and two admins agree (S77, S78).

What is erased is overwritten in its own row: contact, the customer's words, notes, findings in words, tracking numbers, photos,
and the text an entitlement was derived from. Orders, amounts, approvals, the hash chain and the customer's number stay; the chain
never held any of it (ledger.events), so it verifies before and after. Each case says in its history that it was erased.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, NotFound, SamePerson, WrongState
from ledger.events import SYSTEM, append, lock_case

LONGEST_REASON: Final = 300
BATCH: Final = 100


@dataclass(frozen=True)
class Erasure:
    """One request to be forgotten. `granted` None: it waits for a second admin; `done_at` None: not done (yet).

    `open_cases` of the customer keep a granted one waiting; `cases` and `photos` are what was erased.
    """

    erasure_id: UUID
    customer_ref: str
    reason: str
    asked_by: UUID
    asked_by_name: str
    asked_at: datetime
    decided_by_name: str | None
    decided_at: datetime | None
    granted: bool | None
    done_at: datetime | None
    cases: int | None
    photos: int | None
    open_cases: int


_WAITS: Final = """
    SELECT 1 FROM erasures WHERE merchant_id = :m AND customer_id = :c AND (decided_at IS NULL OR granted AND done_at IS NULL)
"""


def ask_erasure(
    db: Connection, merchant_id: UUID, erasure_id: UUID, customer: str, reason: str, asked_by: UUID
) -> None:
    """Asks under `erasure_id` for the customer with this reference or e-mail; the same id again changes nothing.

    Raises BadInput (customer, reason), WrongState while another one of theirs waits.
    """
    if first(db, "SELECT 1 FROM erasures WHERE merchant_id = :m AND erasure_id = :e", m=merchant_id, e=erasure_id):
        return
    said = mask_card_numbers(" ".join(reason.split()))
    if not 1 <= len(said) <= LONGEST_REASON:
        raise BadInput("reason", "say who asked, and how you know that it was them")
    found = rows(
        db, "SELECT customer_id, erased_at FROM customers WHERE merchant_id = :m"
        " AND (external_ref = :text OR lower(email) = lower(:text)) LIMIT 2", m=merchant_id, text=customer.strip(),
    )  # fmt: skip
    if len(found) != 1:
        several = "several customers have that e-mail: give the shop's number of the customer"
        raise BadInput("customer", several if found else "no customer of this shop has that number or e-mail")
    if scalar(db, _WAITS, m=merchant_id, c=found[0]["customer_id"]):
        raise WrongState("An erasure of this customer waits already.")
    run(
        db, "INSERT INTO erasures (merchant_id, erasure_id, customer_id, reason, asked_by) VALUES (:m, :e, :c, :why, :by)",
        m=merchant_id, e=erasure_id, c=found[0]["customer_id"], why=said, by=asked_by,
    )  # fmt: skip


def answer_erasure(db: Connection, merchant_id: UUID, erasure_id: UUID, decided_by: UUID, *, granted: bool) -> bool:
    """Grants or refuses an erasure; False when it was decided before. Locks its row. Raises NotFound, SamePerson."""
    row = first(
        db, "SELECT asked_by, decided_at FROM erasures WHERE merchant_id = :m AND erasure_id = :e FOR NO KEY UPDATE",
        m=merchant_id, e=erasure_id,
    )  # fmt: skip
    if row is None:
        raise NotFound
    if row["decided_at"] is not None:
        return False
    if granted and decided_by == row["asked_by"]:
        raise SamePerson("A second admin has to decide this.")
    run(
        db, "UPDATE erasures SET decided_by = :by, decided_at = now(), granted = :g WHERE merchant_id = :m AND erasure_id = :e",
        by=decided_by, g=granted, m=merchant_id, e=erasure_id,
    )  # fmt: skip
    return True


# An open case, one whose money is under way, and a payment that is disputed: whoever decides there still needs what was said.
_NEEDED: Final = """
    (c.closed_at IS NULL
        OR EXISTS (SELECT FROM intents i WHERE i.merchant_id = c.merchant_id AND i.case_id = c.case_id
            AND i.state NOT IN ('succeeded', 'failed', 'withdrawn', 'reversed'))
        OR EXISTS (SELECT FROM captures k JOIN disputes d ON d.merchant_id = k.merchant_id AND d.charge_ref = k.charge_ref
            WHERE k.merchant_id = c.merchant_id AND k.order_id = c.order_id
            AND d.status NOT IN ('won', 'lost', 'prevented', 'warning_closed')))
"""
_ERASURES: Final = f"""
    SELECT e.erasure_id, cu.external_ref AS customer_ref, e.reason, e.asked_by, a.name AS asked_by_name, e.asked_at,
        d.name AS decided_by_name, e.decided_at, e.granted, e.done_at, e.cases, e.photos,
        (SELECT count(*) FROM cases c WHERE c.merchant_id = e.merchant_id AND c.customer_id = e.customer_id AND {_NEEDED})::int
            AS open_cases
    FROM erasures e JOIN customers cu ON cu.merchant_id = e.merchant_id AND cu.customer_id = e.customer_id
    JOIN staff a ON a.staff_id = e.asked_by LEFT JOIN staff d ON d.staff_id = e.decided_by
    WHERE e.merchant_id = :m ORDER BY (e.decided_at IS NOT NULL), e.asked_at DESC LIMIT 50
"""  # noqa: S608 - constants


def erasures(db: Connection, merchant_id: UUID) -> list[Erasure]:
    """The last fifty, those that wait for a second admin first."""
    return [Erasure(**row) for row in rows(db, _ERASURES, m=merchant_id)]


@dataclass(frozen=True)
class Asked:
    """A granted erasure that nothing holds up any more."""

    erasure_id: UUID
    customer_id: UUID


_DUE: Final = f"""
    SELECT e.erasure_id, e.customer_id FROM erasures e WHERE e.merchant_id = :m AND e.granted AND e.done_at IS NULL
        AND NOT EXISTS (SELECT FROM cases c WHERE c.merchant_id = e.merchant_id AND c.customer_id = e.customer_id AND {_NEEDED})
    ORDER BY e.decided_at LIMIT 100
"""  # noqa: S608 - constants


def due_erasures(db: Connection, merchant_id: UUID) -> list[Asked]:
    """Granted erasures of customers without an open case, oldest first."""
    return [Asked(**row) for row in rows(db, _DUE, m=merchant_id)]


def cases_of(db: Connection, merchant_id: UUID, customer_id: UUID) -> list[UUID]:
    """Every case of a customer."""
    found = rows(db, "SELECT case_id FROM cases WHERE merchant_id = :m AND customer_id = :c ORDER BY case_id",
                 m=merchant_id, c=customer_id)  # fmt: skip
    return [row["case_id"] for row in found]


_KEPT: Final = """
    (SELECT coalesce((SELECT {column} FROM retention r WHERE r.merchant_id = :m), {default}))
"""
TEXTS_UNTIL: Final = f"now() - make_interval(months => {_KEPT.format(column='text_months', default=24)})"
PHOTOS_UNTIL: Final = f"now() - make_interval(days => {_KEPT.format(column='photo_days', default=540)})"
_TEXTS_OVER: Final = f"""
    SELECT c.case_id FROM cases c WHERE c.merchant_id = :m AND c.closed_at IS NOT NULL AND c.text_erased_at IS NULL
        AND c.closed_at < {TEXTS_UNTIL} AND NOT {_NEEDED} ORDER BY c.closed_at LIMIT :most
"""  # noqa: S608 - constants
_PHOTOS_OVER: Final = f"""
    SELECT DISTINCT c.case_id FROM photos p JOIN cases c ON c.merchant_id = p.merchant_id AND c.case_id = p.case_id
    WHERE p.merchant_id = :m AND NOT p.erased AND p.at < {PHOTOS_UNTIL}
        AND c.photos_erased_at IS NULL AND c.closed_at < {PHOTOS_UNTIL}
        AND NOT {_NEEDED} ORDER BY c.case_id LIMIT :most
"""  # noqa: S608 - constants


def texts_over(db: Connection, merchant_id: UUID) -> list[UUID]:
    """Cases that were closed so long ago that their words go, at most BATCH."""
    return [row["case_id"] for row in rows(db, _TEXTS_OVER, m=merchant_id, most=BATCH)]


def photos_over(db: Connection, merchant_id: UUID) -> list[UUID]:
    """Cases whose photos go, at most BATCH."""
    return [row["case_id"] for row in rows(db, _PHOTOS_OVER, m=merchant_id, most=BATCH)]


# What is owed for charges was worked out from charges alone, in which nobody's words are.
_TEXTS: Final = """
    UPDATE conversations SET customer_text = 'Erased.', reference = 'erased-' || conversation_id
        WHERE merchant_id = :m AND case_id = :c;
    UPDATE notes SET text = 'Erased.' WHERE merchant_id = :m AND case_id = :c;
    UPDATE evidence SET note = 'Erased.', parcel = '' WHERE merchant_id = :m AND case_id = :c AND (note, parcel) <> ('', '');
    UPDATE parcels SET tracking = 'erased-' || parcel_id WHERE merchant_id = :m AND case_id = :c;
    UPDATE case_facts SET note = CASE note WHEN '' THEN '' ELSE 'Erased.' END,
            customer_ref = CASE WHEN customer_ref IS NOT NULL THEN 'Erased.' END
        WHERE merchant_id = :m AND case_id = :c AND (note <> '' OR customer_ref IS NOT NULL);
    UPDATE entitlements SET evidence = NULL, inputs_erased = true WHERE merchant_id = :m AND case_id = :c
        AND evidence IS NOT NULL AND record->>'kind' IS DISTINCT FROM 'duplicate_charge';
    UPDATE unmatched_receipts SET note = 'Erased.', parcel = '', lines = '[]', order_ref = '' WHERE merchant_id = :m
        AND receipt_id IN (SELECT receipt_id FROM receipt_answers WHERE merchant_id = :m AND case_id = :c);
    UPDATE cases SET text_erased_at = now() WHERE merchant_id = :m AND case_id = :c
"""


def erase_texts(db: Connection, merchant_id: UUID, case_id: UUID, why: str) -> bool:
    """Writes over everything that was said about a case, and says so in its history. False when it was done.

    Locks the case. `why`: "retention" or "request". The database refuses it while the case is open.
    """
    case = lock_case(db, merchant_id, case_id)
    if scalar(db, "SELECT text_erased_at FROM cases WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id):
        return False
    for statement in _TEXTS.split(";"):
        run(db, statement, m=merchant_id, c=case_id)
    append(db, case, "texts.erased", SYSTEM, {"why": why})
    return True


def erase_photos(db: Connection, merchant_id: UUID, case_id: UUID, why: str) -> int:
    """Empties the photos of a case and returns how many there were. Locks the case."""
    case = lock_case(db, merchant_id, case_id)
    done = "SELECT photos_erased_at FROM cases WHERE merchant_id = :m AND case_id = :c"
    if scalar(db, done, m=merchant_id, c=case_id):
        return 0
    count = run(
        db, "UPDATE photos SET content = '', caption = 'Erased.', erased = true WHERE merchant_id = :m AND case_id = :c",
        m=merchant_id, c=case_id,
    )  # fmt: skip
    run(
        db,
        "UPDATE cases SET photos_erased_at = now() WHERE merchant_id = :m AND case_id = :c",
        m=merchant_id,
        c=case_id,
    )
    if count:
        append(db, case, "photos.erased", SYSTEM, {"why": why, "count": count})
    return count


_FORGET: Final = """
    UPDATE customers SET name = 'Erased', email = NULL, erased_at = now()
    WHERE merchant_id = :m AND customer_id = :c AND erased_at IS NULL
"""


def finish_erasure(db: Connection, merchant_id: UUID, asked: Asked, cases: int, photos: int) -> None:
    """Erases the contact and writes down what was done. The cases are erased already."""
    run(db, _FORGET, m=merchant_id, c=asked.customer_id)
    run(
        db, "UPDATE erasures SET done_at = now(), cases = :cases, photos = :photos WHERE merchant_id = :m AND erasure_id = :e"
        " AND done_at IS NULL", cases=cases, photos=photos, m=merchant_id, e=asked.erasure_id,
    )  # fmt: skip


_CONTACTS_OVER: Final = f"""
    UPDATE customers SET name = 'Erased', email = NULL, erased_at = now() WHERE merchant_id = :m AND customer_id IN (
        SELECT cu.customer_id FROM customers cu WHERE cu.merchant_id = :m AND cu.erased_at IS NULL AND cu.created_at < {TEXTS_UNTIL}
            AND NOT EXISTS (SELECT FROM orders o WHERE o.merchant_id = :m AND o.customer_id = cu.customer_id
                AND o.placed_at >= {TEXTS_UNTIL})
            AND NOT EXISTS (SELECT FROM cases c WHERE c.merchant_id = :m AND c.customer_id = cu.customer_id
                AND c.text_erased_at IS NULL)
        ORDER BY cu.created_at LIMIT :most)
"""  # noqa: S608 - constants
_RECEIPTS_OVER: Final = f"""
    UPDATE unmatched_receipts SET note = 'Erased.', parcel = '', lines = '[]', order_ref = ''
    WHERE merchant_id = :m AND answered_at < {TEXTS_UNTIL} AND receipt_id IN (SELECT receipt_id FROM receipt_answers
        WHERE merchant_id = :m AND at < {TEXTS_UNTIL} AND case_id IS NULL) AND answered_at > {TEXTS_UNTIL} - interval '60 days'
"""  # noqa: S608 - constants


def keep_for(db: Connection, merchant_id: UUID, text_months: int, photo_days: int) -> None:
    """Sets how long a merchant keeps words and contact (months) and photos (days) after a case is closed. For the owner's role."""
    run(
        db, "INSERT INTO retention (merchant_id, text_months, photo_days) VALUES (:m, :months, :days) ON CONFLICT (merchant_id)"
        " DO UPDATE SET text_months = excluded.text_months, photo_days = excluded.photo_days",
        m=merchant_id, months=text_months, days=photo_days,
    )  # fmt: skip


def erase_contacts(db: Connection, merchant_id: UUID) -> int:
    """Forgets customers who bought nothing and asked nothing for the time that words are kept, at most BATCH; how many.

    Receipts that came to nothing lose their words with them.
    """
    run(db, _RECEIPTS_OVER, m=merchant_id)
    return run(db, _CONTACTS_OVER, m=merchant_id, most=BATCH)


def erase_sign_ins(db: Connection) -> int:
    """Sign-in misses go after thirty days, and of sessions the address and what they held; how many rows."""
    misses = run(db, "DELETE FROM sign_in_misses WHERE at < now() - interval '30 days'")
    return misses + run(
        db, "UPDATE sessions SET address = '', content = '{}' WHERE seen_at < now() - interval '30 days' AND seen_at >"
        " now() - interval '60 days'"
    )  # fmt: skip
