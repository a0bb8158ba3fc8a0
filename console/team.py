"""Who works on what, in the words and fields that templates name: claims, presence, assignment, rest, mentions."""

import hashlib
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from flask import url_for
from sqlalchemy import Connection

from console import words
from console.access import current
from console.filters import instant, now, plain
from console.forms import new_operation
from console.installation import installed
from ledger.database import transaction
from ledger.leases import LEASE_MINUTES, Lease, read_lease
from ledger.mentions import Colleague, Spoken
from ledger.presence import Doing, Present, note_present, read_present
from ledger.queries.queue import QueueRow
from ledger.queries.teamwork import CaseTeam, RowTeam
from ledger.teamwork import WORKS

_DOING: Final = {"looking": "has it open", "deciding": "has the approval open"}


def tomorrow() -> date:
    """The shop's next day."""
    return now().astimezone(current.time_zone).date() + timedelta(days=1)


def morning(day: date) -> datetime:
    """When a day of the shop begins."""
    return datetime.combine(day, time(), current.time_zone)


def people(colleagues: list[Colleague]) -> list[dict[str, Any]]:
    """Those whose a case can be, oneself first: {value, label}."""
    works = [one for one in colleagues if one.role in WORKS]
    works.sort(key=lambda one: one.staff_id != current.staff_id)
    return [
        {"value": str(one.staff_id), "label": f"{one.name} (you)" if one.staff_id == current.staff_id else one.name}
        for one in works
    ]


def rests(until: datetime | None, reason: str) -> str:
    """ "rests until 30 Nov: the customer answers", "" for a case that does not."""
    if until is None:
        return ""
    waits = words.SNOOZE_REASONS.get(reason, reason)
    return f"rests until {instant(until, 'day')}: {waits[:1].lower()}{waits[1:]}"


def row_person(row: QueueRow, team: RowTeam) -> dict[str, Any] | None:
    """Whose name stands in a row: who has it in hand, else whose it is, else who looks at it; None for nobody."""
    if team.lease:
        return words.person(team.lease.staff_id, team.lease.name)
    if row.assigned_to and row.assigned_name:
        return words.person(row.assigned_to, row.assigned_name)
    others = [one for one in team.present if one[0] != current.staff_id]
    return words.person(others[0][0], others[0][1]) if others else None


def row_words(row: QueueRow, team: RowTeam) -> dict[str, str]:
    """Beside that name: that it is in hand, and who else has it open. "" where there is nothing to say."""
    lease = team.lease
    hand = f"in hand until {instant(lease.until)}" if lease else ""
    if lease and row.assigned_to and row.assigned_to != lease.staff_id:
        hand += f", assigned to {row.assigned_name}"
    others = [one for one in team.present if one[0] != current.staff_id and (not lease or one[0] != lease.staff_id)]
    return {"hand": hand, "open": "; ".join(f"{name} {_DOING[doing]}" for _, name, doing in others)}


def hand(case_id: UUID, lease: Lease | None, present: list[Present], closed_at: datetime | None) -> dict[str, Any]:
    """The line at the head of a case: in whose hand it is, who else looks, and what one can do about it."""
    mine = lease is not None and lease.staff_id == current.staff_id
    works = current.may("claim") and closed_at is None
    seen = _seen(lease, [one for one in present if one.staff_id != current.staff_id])
    holder = next((one for one in present if one.here and lease and one.staff_id == lease.staff_id), None)
    others = [one for one in present if one.staff_id != current.staff_id and one != holder]
    return {
        "url": url_for("teamwork.presence", case_id=case_id, seen=seen),
        "seen": seen,
        "lease": _lease(lease, holder) if lease else None,
        "present": [
            {"who": words.person(one.staff_id, one.name), "doing": one.doing if one.here else "left", "at": one.seen_at,
             "words": _DOING[one.doing] if one.here else f"left {instant(one.seen_at)}"}
            for one in others
        ],
        "claim": _act("teamwork.claim", case_id) if works and (lease is None or mine) else None,
        "again": mine,
        "release": _act("teamwork.release", case_id) if mine else None,
        "take_over": _act("teamwork.take_over", case_id) if works and lease and not mine and current.may("reassign") else None,
        "minutes": LEASE_MINUTES,
    }  # fmt: skip


def _lease(lease: Lease, holder: Present | None) -> dict[str, Any]:
    who = words.person(lease.staff_id, lease.name)
    doing = "" if holder is None or who["me"] else _DOING[holder.doing]
    return {"who": who, "since": lease.taken_at, "until": lease.until, "words": doing}


def _act(endpoint: str, case_id: UUID) -> dict[str, str]:
    return {"url": url_for(endpoint, case_id=case_id), "operation": new_operation()}


def _seen(lease: Lease | None, others: list[Present]) -> str:
    """What the line says, as a short mark: the page asks again whether it still does."""
    said = [str(lease.staff_id), lease.until.isoformat()] if lease else []
    said += [f"{one.staff_id} {one.doing} {one.here}" for one in others]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def card(case_id: UUID, team: CaseTeam) -> dict[str, Any]:
    """The card "Whose and when": {assigned, due, rests, tags, change_url, wake, unread, read}."""
    works = current.may("claim")
    return {
        "assigned": words.person(team.assigned_to, team.assigned_name) if team.assigned_to else None,
        "due_at": team.due_at,
        "closed": team.closed_at is not None,
        "rests": rests(team.snoozed_until, team.snooze_reason),
        "wake": _act("teamwork.wake", case_id) if works and team.snoozed_until else None,
        "tags": [{"tag": tag, "url": url_for("queue.index", view="every", tag=tag)} for tag in team.tags],
        "key": new_operation(),
        "change_url": url_for("teamwork.show", case_id=case_id) if works else None,
        "unread": [{"by": one.by, "at": one.at} for one in team.unread],
        "read": _act("teamwork.read", case_id) if team.unread else None,
    }


def in_hand(db: Connection, case_id: UUID) -> str:
    """For the confirm sheet: who else works on the case, in one sentence; "" when nobody does. It stops nobody."""
    lease = read_lease(db, current.merchant_id, case_id)
    if lease and lease.staff_id != current.staff_id:
        return f"{plain(lease.name)} has this case in hand since {instant(lease.taken_at)}. You can decide it all the same."
    deciding = [one for one in read_present(db, current.merchant_id, case_id)
                if one.here and one.doing == "deciding" and one.staff_id != current.staff_id]  # fmt: skip
    if deciding:
        return f"{plain(deciding[0].name)} has this approval open too. Whoever presses first decides."
    return ""


def come_here(case_id: UUID, present: list[Present], doing: Doing = "looking") -> None:
    """Notes that this person has the case open, if that is news. A small write of its own: the page itself only reads (S20)."""
    own = next((one for one in present if one.staff_id == current.staff_id), None)
    if own is not None and own.doing == doing and not own.again:
        return
    with transaction(installed().engine, current.merchant_id) as db:
        note_present(db, current.merchant_id, case_id, current.staff_id, doing)


def told(spoken: Spoken) -> str:
    """Whom a note was shown to, and which names are nobody's, for the message after it."""
    others = [one.name for one in spoken.people if one.staff_id != current.staff_id]
    shown = f"{_listed(others)} {'see' if len(others) > 1 else 'sees'} it in their mentions." if others else ""
    nobody = f"Nobody here is called {_listed([f'@{word}' for word in spoken.nobody])}." if spoken.nobody else ""
    return f"{shown} {nobody}".strip()


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
