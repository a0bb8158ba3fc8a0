"""Returns that a policy approves by itself: a shop whose policy names 25.00 at once and 500.00 a day, and the steps up to it."""

import itertools
from typing import Any
from uuid import UUID

from ledger.approvals import Decision
from ledger.automatic import Left, approve_by_policy
from ledger.database import transaction
from ledger.seals import Sealer
from sandbox.client import SandboxClient
from tests import lives
from tests.orders import Order
from tests.refunds import Proposed, as_administrator, paid_order
from tests.stack import Stack
from tests.world import World, build_world, usual_policy

AUTOMATIC = {"GBP": {"most_minor": 2500, "day_minor": 50000}}
_numbers = itertools.count(1)


def generous(stack: Stack, slug: str = "harbour", *, policy: dict[str, Any] | None = None, **more: Any) -> World:
    """A shop whose policy approves by itself, and whose disputes at the provider were read a moment ago."""
    world = build_world(
        stack, slug, policy=usual_policy(f"{slug}-usual") | {"automatic": AUTOMATIC} | (policy or {}), **more
    )
    disputes_are_read(stack, world)
    return world


def disputes_are_read(stack: Stack, world: World) -> None:
    as_administrator(
        stack, "INSERT INTO account_readings (merchant_id, provider_account_id, list, done_to, read_at)"
        " VALUES (%s, %s, 'disputes', now(), now())", world.merchant_id, world.provider_account_id,
    )  # fmt: skip


def returned(
    stack: Stack, world: World, sandbox: SandboxClient, lines: tuple[tuple[str, int], ...] = (("TEE", 1),), *,
    order: Order | None = None, grade: str = "A", **changes: Any,
) -> Proposed:  # fmt: skip
    """Asked in the chat by a customer it verified, received and graded by the warehouse: proposed, and not approved yet."""
    order = order or paid_order(stack, world, sandbox)
    asked = {"order_ref": order.external_ref, "customer_verified": "signed in", "reference": f"auto-{next(_numbers)}"}
    opened = lives.open_case(stack, world, lines, **(asked | changes))
    lives.arrive(stack, world, opened.case_id, *lines, grade=grade)
    return newest(stack, world, opened.case_id, order)


def newest(stack: Stack, world: World, case_id: UUID, order: Order) -> Proposed:
    """The last refund of a case."""
    row = lives.intents(stack, world, case_id)[-1]
    return Proposed(
        case_id, row["intent_id"], row["payment_intent_ref"], row["charge_ref"], row["amount_minor"], row["currency"],
        row["provider_key"], order,
    )  # fmt: skip


def by_policy(
    stack: Stack, world: World, case_id: UUID, sealer: Sealer | None = None, window: int = 0
) -> Decision | Left | None:
    """What the web process does right after evidence of a case was recorded."""
    with transaction(stack.console, world.merchant_id) as db:
        return approve_by_policy(
            db, world.merchant_id, case_id, sealer or lives.policy_sealer(), cancel_window_seconds=window
        )


def approvals_of(stack: Stack, one: Proposed) -> list[dict[str, Any]]:
    """The approvals of the refunds of a case that were not called back."""
    return as_administrator(
        stack, "SELECT a.* FROM approvals a JOIN intents i USING (merchant_id, intent_id)"
        " WHERE i.case_id = %s AND i.state <> 'withdrawn'", one.case_id,
    )  # fmt: skip
