"""What the demo's team did with its cases: claims, assignments, rest, tags and notes that speak to somebody."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Connection, Engine

from demo.scenes import TEAM, Work
from demo.seed_clock import ZONE, Clock
from ledger.database import scalar, transaction
from ledger.ids import uuid7
from ledger.leases import claim_case
from ledger.notes import add_note
from ledger.teamwork import assign, snooze, tag

# The demo is looked at for longer than a claim lasts.
DEMO_LEASE_MINUTES = 12 * 60


def seed_team(console: Engine, merchant_id: UUID, staff: Mapping[str, UUID], clock: Clock) -> None:
    """Plays TEAM, the longest ago first. `staff` by first name."""
    for work in sorted(TEAM, key=lambda work: -work.hours):
        clock.now = clock.start - timedelta(hours=work.hours)
        with transaction(console, merchant_id) as db:
            _do(db, merchant_id, staff, work, clock)


def _do(db: Connection, merchant_id: UUID, staff: Mapping[str, UUID], work: Work, clock: Clock) -> None:
    case_id = scalar(
        db, "SELECT c.case_id FROM cases c JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id"
        " WHERE c.merchant_id = :m AND o.external_ref = :ref ORDER BY c.opened_at LIMIT 1", m=merchant_id, ref=work.order,
    )  # fmt: skip
    me = staff[work.by]
    if work.to:
        assign(db, merchant_id, [case_id], me, staff[work.to])
    if work.tag:
        tag(db, merchant_id, [case_id], me, work.tag)
    if work.note:
        add_note(db, merchant_id, case_id, me, uuid7(), work.note)
    if work.rests:
        day = clock.start.astimezone(ZONE).replace(hour=0, minute=0, second=0, microsecond=0)
        snooze(db, merchant_id, [case_id], me, day + timedelta(days=work.rests), work.waits)
    if work.in_hand:
        claim_case(db, merchant_id, case_id, me, minutes=DEMO_LEASE_MINUTES)
