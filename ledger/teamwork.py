"""Whose a case is, until when it rests, when it is due, and its tags: for one case, or for many picked together.

A change is an event of the case in the same transaction. Whether a person may is read from their membership, which the
entry point has locked: what is somebody else's is a manager's to pass on, and so is a due date. None of it decides about
money, and nothing here approves.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, run, scalar
from ledger.errors import BadInput, LedgerError, NotAllowed, WrongState
from ledger.events import LockedCase, append, lock_case

# Events that say who works on a case and when: nothing that is decided rests on them.
ADVICE: Final = ("case.assigned", "case.snoozed", "case.woken", "case.due_set", "case.tagged", "case.untagged")
SNOOZE_REASONS: Final = ("customer", "parcel", "warehouse", "colleague", "provider", "other")
# A page of the queue.
MOST_AT_ONCE: Final = 50
MOST_TAGS: Final = 8
# Longer than any return window there is: a case that rests longer is a case nobody wants to see.
MOST_SNOOZE_DAYS: Final = 60
MOST_DUE_DAYS: Final = 366
_TAG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
# Roles whose people a case can belong to.
WORKS: Final = frozenset({"desk", "manager"})


@dataclass
class Done:
    """Of cases that were picked together: the numbers of those that changed, and of each that stays as it is, why."""

    changed: list[int] = field(default_factory=list)
    left: list[tuple[int, str]] = field(default_factory=list)


def _each(
    db: Connection, merchant_id: UUID, case_ids: Sequence[UUID], act: Callable[[LockedCase], bool]
) -> Done:  # fmt: skip
    """`act` on each case, locked in turn by id. What refuses one leaves the others; with one case alone it is raised."""
    if not case_ids:
        raise BadInput("pick", "pick at least one case")
    if len(set(case_ids)) > MOST_AT_ONCE:
        raise BadInput("pick", f"pick at most {MOST_AT_ONCE} cases")
    done = Done()
    for case_id in sorted(set(case_ids)):
        case = lock_case(db, merchant_id, case_id)
        try:
            if act(case):
                done.changed.append(case.number)
        except LedgerError as refused:
            if len(case_ids) == 1:
                raise
            done.left.append((case.number, refused.sentence))
    return done


def _open(case: LockedCase) -> None:
    if case.closed_at is not None:
        raise WrongState("This case is closed.")


def assign(db: Connection, merchant_id: UUID, case_ids: Sequence[UUID], staff_id: UUID, to: UUID | None) -> Done:
    """Makes cases somebody's to work on, or with None nobody's. What is another's is passed on by them or by a manager.

    Locks each case. Raises BadInput (`to`, `pick`), and for one case alone NotAllowed and WrongState; NotFound.
    """
    if to is not None and _role(db, merchant_id, to) not in WORKS:
        raise BadInput("to", "choose somebody who works on cases here")
    leads = _role(db, merchant_id, staff_id) == "manager"

    def act(case: LockedCase) -> bool:
        _open(case)
        before = _of_case(db, case)["assigned_to"]
        if before == to:
            return False
        if before not in (None, staff_id) and not leads:
            raise NotAllowed("It is a colleague's: they or a manager pass it on.")
        run(
            db, "UPDATE cases SET assigned_to = :to WHERE merchant_id = :m AND case_id = :c",
            m=merchant_id, c=case.case_id, to=to,
        )  # fmt: skip
        append(db, case, "case.assigned", f"staff:{staff_id}", _from_to(before, to))
        return True

    return _each(db, merchant_id, case_ids, act)


def assigned_cases(db: Connection, merchant_id: UUID, staff_id: UUID) -> list[UUID]:
    """The open cases that are a person's, by id."""
    return list(scalar(
        db, "SELECT coalesce(array_agg(case_id ORDER BY case_id), '{}') FROM cases WHERE merchant_id = :m"
        " AND assigned_to = :s AND closed_at IS NULL", m=merchant_id, s=staff_id,
    ))  # fmt: skip


def unassign(db: Connection, cases: Sequence[LockedCase], staff_id: UUID, actor: str) -> None:
    """Of somebody who works on cases no more: what is still theirs of these locked cases is nobody's."""
    for case in cases:
        if run(
            db, "UPDATE cases SET assigned_to = NULL WHERE merchant_id = :m AND case_id = :c AND assigned_to = :s"
            " AND closed_at IS NULL", m=case.merchant_id, c=case.case_id, s=staff_id,
        ):  # fmt: skip
            append(db, case, "case.assigned", actor, _from_to(staff_id, None))


def snooze(
    db: Connection, merchant_id: UUID, case_ids: Sequence[UUID], staff_id: UUID, until: datetime, reason: str
) -> Done:
    """Lets cases rest until an instant, for a reason of SNOOZE_REASONS: out of what waits, still in what is late.

    Locks each case. Raises BadInput (`until`, `reason`, `pick`), and for one case alone WrongState; NotFound.
    """
    if reason not in SNOOZE_REASONS:
        raise BadInput("reason", "choose what it waits for")
    now = scalar(db, "SELECT now()")
    if not now < until <= now + timedelta(days=MOST_SNOOZE_DAYS):
        raise BadInput("until", f"choose a day from tomorrow on, {MOST_SNOOZE_DAYS} days ahead at most")

    def act(case: LockedCase) -> bool:
        _open(case)
        return _rest(db, case, staff_id, until, reason)

    return _each(db, merchant_id, case_ids, act)


def wake(db: Connection, merchant_id: UUID, case_ids: Sequence[UUID], staff_id: UUID) -> Done:
    """Ends the rest of cases now. Locks each case. Raises BadInput (`pick`), NotFound."""
    return _each(db, merchant_id, case_ids, lambda case: _rest(db, case, staff_id, None, ""))


def _rest(db: Connection, case: LockedCase, staff_id: UUID, until: datetime | None, reason: str) -> bool:
    before = _of_case(db, case)
    if (before["snoozed_until"], before["snooze_reason"]) == (until, reason):
        return False
    run(
        db, "UPDATE cases SET snoozed_until = :until, snooze_reason = :reason WHERE merchant_id = :m AND case_id = :c",
        m=case.merchant_id, c=case.case_id, until=until, reason=reason,
    )  # fmt: skip
    body = {"until": until.isoformat()} if until else {}
    append(db, case, "case.snoozed" if until else "case.woken", f"staff:{staff_id}", body, reason=reason)
    return True


def set_due(db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID, due_at: datetime) -> bool:
    """Gives an open case another due date; False when it has it already. A manager's: the policy promised the first one.

    Locks the case. Raises NotAllowed, BadInput (`due`), WrongState, NotFound.
    """
    if _role(db, merchant_id, staff_id) != "manager":
        raise NotAllowed("A manager sets another due date.")
    now = scalar(db, "SELECT now()")
    if not now < due_at <= now + timedelta(days=MOST_DUE_DAYS):
        raise BadInput("due", "choose today or a day of the coming year")
    case = lock_case(db, merchant_id, case_id)
    _open(case)
    before = _of_case(db, case)["due_at"]
    if before == due_at:
        return False
    run(
        db, "UPDATE cases SET due_at = :due WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id, due=due_at,
    )  # fmt: skip
    append(db, case, "case.due_set", f"staff:{staff_id}", {"from": before.isoformat(), "to": due_at.isoformat()})
    return True


def tag(db: Connection, merchant_id: UUID, case_ids: Sequence[UUID], staff_id: UUID, text: str) -> Done:
    """Puts a tag on cases. Locks each case. Raises BadInput (`tag`, `pick`), and for one case alone WrongState; NotFound."""
    word = tag_word(text)

    def act(case: LockedCase) -> bool:
        keys = {"m": merchant_id, "c": case.case_id}
        others = scalar(
            db, "SELECT count(*) FROM case_tags WHERE merchant_id = :m AND case_id = :c AND tag <> :t AND gone_at IS NULL",
            t=word, **keys,
        )  # fmt: skip
        if others >= MOST_TAGS:
            raise WrongState(f"It has {MOST_TAGS} tags already.")
        added = run(
            db, "INSERT INTO case_tags AS o (merchant_id, case_id, tag, staff_id) VALUES (:m, :c, :t, :s)"
            " ON CONFLICT (merchant_id, case_id, tag) DO UPDATE SET staff_id = excluded.staff_id, at = now(), gone_at = NULL"
            " WHERE o.gone_at IS NOT NULL", t=word, s=staff_id, **keys,
        )  # fmt: skip
        if added:
            append(db, case, "case.tagged", f"staff:{staff_id}", {"tag": word})
        return bool(added)

    return _each(db, merchant_id, case_ids, act)


def untag(db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID, text: str) -> bool:
    """Takes a tag off a case; False when it has it no more. Locks the case. Raises NotFound."""
    case = lock_case(db, merchant_id, case_id)
    gone = run(
        db, "UPDATE case_tags SET gone_at = now() WHERE merchant_id = :m AND case_id = :c AND tag = :t AND gone_at IS NULL",
        m=merchant_id, c=case_id, t=text,
    )  # fmt: skip
    if gone:
        append(db, case, "case.untagged", f"staff:{staff_id}", {"tag": text})
    return bool(gone)


def tag_word(text: str) -> str:
    """A tag as it is kept: "Fragile item" is `fragile-item`. Raises BadInput (`tag`)."""
    word = "-".join(text.lower().split())
    if not _TAG.fullmatch(word) or mask_card_numbers(word) != word:
        raise BadInput("tag", "write 1 to 24 letters a to z, digits and hyphens")
    return word


def _of_case(db: Connection, case: LockedCase) -> Any:
    return first(
        db, "SELECT assigned_to, snoozed_until, snooze_reason, due_at FROM cases WHERE merchant_id = :m AND case_id = :c",
        m=case.merchant_id, c=case.case_id,
    )  # fmt: skip


def _from_to(before: UUID | None, after: UUID | None) -> dict[str, Any]:
    return {"from": str(before) if before else "", "to": str(after) if after else ""}


def _role(db: Connection, merchant_id: UUID, staff_id: UUID) -> str:
    found = scalar(
        db, "SELECT m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m"
        " AND m.staff_id = :s AND m.ended_at IS NULL AND s.disabled_at IS NULL", m=merchant_id, s=staff_id,
    )  # fmt: skip
    return str(found or "")
