"""How a version of a policy comes into force: one manager drafts it, another approves it, and the database publishes it.

The guards are in the database: the drafter never approves (`another_person_approves`), ranges of one policy never overlap, a sale
falls under one policy (`one_policy_decides_a_sale`), a version replaces the newest and nothing that was sold before.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.canonical import canonical_bytes
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, LedgerError, NotAllowed, NotFound, SamePerson, WrongState
from ledger.policies import PolicyDocument
from ledger.policy_changes import changes, is_readable
from ledger.policy_choice import Candidate, ties
from ledger.policy_document import check_document, flatten, read_document, refused
from ledger.policy_raises import NEWEST, raises_now, raises_over
from ledger.policy_terms import PolicyTerms, Select, TermsRefused
from ledger.revocation import revoke_automatic, revoke_over_limits

MOST_NOTE: Final = 500


@dataclass(frozen=True)
class NewDraft:
    """What a manager typed: the document as JSON text, from when and until when it is to be in force, and why.

    `begins` None: as soon as it is approved.
    """

    text: str
    begins: datetime | None
    ends: datetime | None
    note: str


def draft(db: Connection, merchant_id: UUID, staff_id: UUID, draft_id: UUID, typed: NewDraft) -> None:
    """Keeps a draft for another manager to approve. Nothing is kept of one that cannot be.

    Raises TermsRefused (fields of the document), BadInput (begins, ends, note), NotAllowed.
    """
    document = read_document(typed.text)
    _refuse_what_is_not_typed(document)
    policy_id = document.get("policy_id")
    newest = first(db, NEWEST, m=merchant_id, p=policy_id) if isinstance(policy_id, str) else None
    version = 1 + (newest["version"] if newest else 0)
    if document.get("version", version) != version:
        raise refused("version", f"the next one is version {version}: leave it out, or write {version}")
    stored = _over_its_parent(db, merchant_id, document) | {"version": version, "status": "approved"}
    whole, terms = check_document(stored)
    _refuse_fee_alone(db, merchant_id, whole)
    before = newest["document"] if newest is not None and is_readable(newest["document"]) else None
    if before is not None and not changes(before, stored):
        raise refused("document", f"says the same as version {version - 1}: change something, or leave it in force")
    _check_range(db, merchant_id, typed, terms)
    if not 1 <= len(typed.note.strip()) <= MOST_NOTE:
        raise BadInput("note", f"say why, in up to {MOST_NOTE} characters")
    raises = raises_over(db, merchant_id, before, stored, typed.begins)
    if raises and typed.begins is not None and typed.begins < scalar(db, "SELECT now()"):
        raise BadInput(
            "begins", "it lets more be approved than the version before, so it cannot begin earlier than tomorrow"
        )
    text = canonical_bytes(stored)
    try:
        run(
            db, "INSERT INTO policy_drafts (merchant_id, draft_id, policy_id, version, document, digest, effective_from,"
            " effective_to, raises, staff_id, note) VALUES (:m, :d, :p, :v, CAST(:doc AS jsonb), :digest, :begins, :ends,"
            " :raises, :s, :note)", m=merchant_id, d=draft_id, p=terms.policy_id, v=version, doc=text.decode(),
            digest=hashlib.sha256(text).digest(), begins=typed.begins, ends=typed.ends, s=staff_id,
            raises=raises, note=mask_card_numbers(typed.note.strip())[:MOST_NOTE],
        )  # fmt: skip
    except IntegrityError as error:
        raise _refusal(error) from error


def _refuse_what_is_not_typed(document: dict[str, Any]) -> None:
    if "policy_id" not in document:
        raise refused("policy_id", 'is missing: add it, such as "returns"')
    if document.get("status", "draft") not in ("draft", "approved"):
        raise refused("status", "a draft is no other: leave it out")
    for name in ("effective_from", "effective_to"):
        if document.get(name) is not None:
            raise refused(name, "the days are fields of their own below the document: leave it out")
        document.pop(name, None)


def _over_its_parent(db: Connection, merchant_id: UUID, document: dict[str, Any]) -> dict[str, Any]:
    named = document.get("extends")
    if named is None:
        return document
    policy_id, at, version = str(named).partition("@")
    parent = None
    if at and version.isdecimal() and len(version) <= 6:
        parent = first(db, "SELECT document FROM policies WHERE merchant_id = :m AND policy_id = :p AND version = :v",
                       m=merchant_id, p=policy_id, v=int(version))  # fmt: skip
    if parent is None:
        raise refused("extends", "name an approved version of this shop, such as returns@3")
    return flatten(document, parent["document"])


_BESIDE: Final = """
    SELECT policy_id, version, document, lower(effective) AS begins, upper(effective) AS ends FROM policies
    WHERE merchant_id = :m AND effective && tstzrange(coalesce(CAST(:begins AS timestamptz), now()), CAST(:ends AS timestamptz))
    ORDER BY policy_id, version
"""


def _check_range(db: Connection, merchant_id: UUID, typed: NewDraft, terms: PolicyTerms) -> None:
    """What the database would refuse at the approval is said to the drafter already, with the field to change."""
    now: datetime = scalar(db, "SELECT now()")
    begins = typed.begins or now
    if typed.ends is not None and typed.ends <= max(begins, now if typed.begins is None else begins):
        raise BadInput("ends", "has to be after the day it begins")
    ours = Candidate("ours", terms.select, terms.priority)
    for row in rows(db, _BESIDE, m=merchant_id, begins=typed.begins, ends=typed.ends):
        cited = f"{row['policy_id']}@{row['version']}"
        if begins < now and (row["begins"] is None or row["begins"] < now):
            raise BadInput("begins", f"{cited} decides what was sold then: begin today or later")
        if row["policy_id"] == terms.policy_id and row["begins"] is not None and row["begins"] >= begins:
            raise BadInput("ends", f"{cited} begins on {row['begins']:%Y-%m-%d}: end before it")
        if row["policy_id"] != terms.policy_id and ties(ours, _candidate(row)):
            raise refused(
                "select", f"one sale could fall under this policy and {cited} alike: select more closely, or give them"
                " different priorities",
            )  # fmt: skip


def _candidate(row: RowMapping) -> Candidate[str]:
    """A version that stands already; of one that cannot be read nothing is known, so it is taken to be for every sale."""
    document = row["document"]
    try:
        select = Select.model_validate_json(json.dumps(document.get("select", {})))
    except ValidationError:
        select = Select()
    return Candidate(row["policy_id"], select, document.get("priority", 0))


@dataclass(frozen=True)
class Held:
    """Approved refunds that were held because the new version allows less: of people, and of policies by themselves."""

    of_people: int
    of_policies: int


_DRAFT: Final = """
    SELECT d.staff_id, d.policy_id, d.version, d.document, d.effective_from, n.answer, n.staff_id AS answered_by
    FROM policy_drafts d
    LEFT JOIN policy_answers n ON n.merchant_id = d.merchant_id AND n.draft_id = d.draft_id
    WHERE d.merchant_id = :m AND d.draft_id = :d
"""


def answer(db: Connection, merchant_id: UUID, draft_id: UUID, staff_id: UUID, word: str, note: str = "") -> Held | None:
    """`approved` and `turned_down` are another manager's, `withdrawn` is the drafter's. Repeated, it changes nothing: None.

    An approved version is in force, or begins on its day, when this commits. Locks the merchant's row, then the cases whose
    refunds are held. Raises NotFound, NotAllowed, SamePerson, WrongState, BadInput (note).
    """
    found = first(db, _DRAFT, m=merchant_id, d=draft_id)
    if found is None:
        raise NotFound
    if found["answer"] is not None:
        if (found["answer"], found["answered_by"]) == (word, staff_id):
            return None
        raise WrongState("This draft was answered already.")
    if len(note) > MOST_NOTE:
        raise BadInput("note", f"write up to {MOST_NOTE} characters")
    if word == "approved" and found["staff_id"] == staff_id:
        raise SamePerson("You drafted this, so another manager has to approve it.")
    try:
        run(
            db, "INSERT INTO policy_answers (merchant_id, draft_id, answer, drafted_by, staff_id, raises, note)"
            " VALUES (:m, :d, :word, :by, :s, :raises, :note)", m=merchant_id, d=draft_id, word=word, by=found["staff_id"],
            s=staff_id, raises=word == "approved" and raises_now(db, merchant_id, found),
            note=mask_card_numbers(note.strip())[:MOST_NOTE],
        )  # fmt: skip
    except IntegrityError as error:
        raise _refusal(error) from error
    if word != "approved":
        return Held(0, 0)
    actor = f"staff:{staff_id}"
    return Held(revoke_over_limits(db, merchant_id, actor), revoke_automatic(db, merchant_id, actor))


# What the database refused, in words; its guards hold also where two answer at once.
_REFUSALS: Final[dict[str, LedgerError]] = {
    "managers_only": NotAllowed("Managers draft and approve policies."),
    "another_person_approves": SamePerson("You drafted this, so another manager has to approve it."),
    "the_drafter_withdraws": NotAllowed("Who drafted it withdraws it; another manager turns it down."),
    "drafted_from_the_newest": WrongState(
        "Another version of this policy came into force since this was drafted. Turn it down and have it drafted anew."
    ),
    "one_policy_decides_a_sale": WrongState(
        "One sale could now fall under two policies alike, so neither was published over the other. Turn it down and have it"
        " drafted anew, with a closer selection or another priority."
    ),
    "policies_never_overlap": WrongState(
        "Another version of this policy is in force in that time. Draft it for another time."
    ),
    "takes_over_nothing_past": WrongState("A policy decides what was sold then. Draft it from today or later."),
    "policies_effective_check": WrongState("It would be over before it begins. Draft it for another time."),
    "policy_answers_pkey": WrongState("This draft was answered already."),
}


def _refusal(error: IntegrityError) -> LedgerError:
    diagnosis = getattr(error.orig, "diag", None)
    found = _REFUSALS.get(str(getattr(diagnosis, "constraint_name", "")))
    if found is None:
        raise error
    return type(found)(found.sentence)


def publish(
    db: Connection,
    merchant_id: UUID,
    document: Any,
    author: str,
    approver: str,
    since: datetime | None,
    until: datetime | None = None,
) -> None:
    """Inserts the version that `document` names, in force for orders placed in [since, until). By the owner's connection, for
    setting a merchant up; a version that replaces another is drafted and approved in the console.

    Raises BadInput: a field that cannot be read, author and approver the same, a range that overlaps another's of the same
    policy, one sale under two policies, or a version that exists (all are refused by constraint too).
    """
    if not isinstance(document, dict):
        raise BadInput("document", "give one JSON object")
    for name in ("policy_id", "version"):
        if name not in document:
            raise BadInput(name, "is missing: add it")
    try:
        whole, terms = check_document(document)
        _refuse_fee_alone(db, merchant_id, whole)
        _check_apart(db, merchant_id, terms, since, until)
    except TermsRefused as error:
        raise BadInput(error.problems[0].field, error.problems[0].say) from error
    if author.strip().casefold() == approver.strip().casefold():
        raise BadInput("approver", "author and approver are two people")
    text = canonical_bytes(document)
    run(
        db, "INSERT INTO policies (merchant_id, policy_id, version, effective, document, digest, author, approver) VALUES"
        " (:m, :policy, :version, tstzrange(:since, :until), CAST(:doc AS jsonb), :digest, :author, :approver)", m=merchant_id,
        policy=terms.policy_id, version=terms.version, since=since, until=until, doc=text.decode(),
        digest=hashlib.sha256(text).digest(), author=author.strip(), approver=approver.strip(),
    )  # fmt: skip


_OVERLAPPING: Final = """
    SELECT policy_id, version, document FROM policies WHERE merchant_id = :m
        AND (effective && tstzrange(CAST(:since AS timestamptz), CAST(:until AS timestamptz)) OR (policy_id = :p AND version = :v))
    ORDER BY policy_id, version
"""


def _check_apart(
    db: Connection, merchant_id: UUID, terms: PolicyTerms, since: datetime | None, until: datetime | None
) -> None:
    ours = Candidate("ours", terms.select, terms.priority)
    for row in rows(db, _OVERLAPPING, m=merchant_id, since=since, until=until, p=terms.policy_id, v=terms.version):
        if row["policy_id"] == terms.policy_id or ties(ours, _candidate(row)):
            taken = f"{row['policy_id']}@{row['version']}"
            raise BadInput(
                "since", f"{taken} is in force in that time, or is that version: choose another range or version"
            )


def _refuse_fee_alone(db: Connection, merchant_id: UUID, whole: PolicyDocument) -> None:
    fee_alone = whole.connect.refund_application_fee and not whole.connect.reverse_transfer
    if fee_alone and scalar(db, _ON_DESTINATION, m=merchant_id):
        raise refused("connect.refund_application_fee", "goes back on destination charges only with reverse_transfer")


_ON_DESTINATION: Final = (
    "SELECT 1 FROM provider_accounts WHERE merchant_id = :m AND charge_type = 'destination' LIMIT 1"
)
