"""Notes: a person's own words about a case. They change nothing and are no part of what is approved."""

from uuid import UUID

from sqlalchemy import Connection

from ledger.card_numbers import mask_card_numbers
from ledger.database import run, scalar
from ledger.errors import BadInput, NotFound
from ledger.mentions import Spoken, colleagues, mention, spoken_to

MOST_CHARACTERS = 2000


def add_note(db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID, note_id: UUID, text: str) -> Spoken:
    """Adds a note under `note_id`, and shows the case to whom it speaks; the same id again changes nothing.

    Card numbers are masked. Raises NotFound, BadInput (`note`): also for a name after an @ that several people have.
    """
    said = mask_card_numbers(text.strip())
    if not 1 <= len(said) <= MOST_CHARACTERS:
        raise BadInput("note", f"write 1 to {MOST_CHARACTERS} characters")
    if not scalar(db, "SELECT 1 FROM cases WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id):
        raise NotFound
    spoken = spoken_to(said, colleagues(db, merchant_id) if "@" in said else [])
    if spoken.several:
        raise BadInput("note", f"several people are called @{spoken.several[0]}: write the whole name")
    run(
        db, "INSERT INTO notes (merchant_id, note_id, case_id, staff_id, text) VALUES (:m, :id, :c, :s, :text)"
        " ON CONFLICT DO NOTHING", m=merchant_id, id=note_id, c=case_id, s=staff_id, text=said,
    )  # fmt: skip
    mention(db, merchant_id, case_id, note_id, staff_id, spoken.people)
    return spoken
