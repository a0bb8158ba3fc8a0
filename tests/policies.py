"""Policies in tests: drafts of the world's managers, their answers, and returns of orders that were sold at some time."""

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping

from ledger.database import rows, transaction
from ledger.ids import uuid7
from ledger.policy_publishing import Held, NewDraft, answer, draft
from tests import lives
from tests.orders import Order
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import Person, World, add_order, usual_policy


def drafted(
    stack: Stack,
    world: World,
    changes: dict[str, Any],
    *,
    by: Person | None = None,
    begins: datetime | None = None,
    ends: datetime | None = None,
    note: str = "The season begins",
) -> UUID:
    """A draft of the usual terms with these changes, by Mara unless somebody else is named."""
    usual = usual_policy(world.policy_id)
    document = {name: usual[name] for name in usual.keys() - {"version", "effective_from", "effective_to"}} | changes
    text = json.dumps({name: value for name, value in document.items() if value != "absent"})
    draft_id = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        draft(db, world.merchant_id, (by or world.mara).staff_id, draft_id, NewDraft(text, begins, ends, note))
    return draft_id


def answered(
    stack: Stack, world: World, draft_id: UUID, by: Person, word: str = "approved", note: str = ""
) -> Held | None:
    with transaction(stack.console, world.merchant_id) as db:
        return answer(db, world.merchant_id, draft_id, by.staff_id, word, note)


def in_force(stack: Stack, world: World, changes: dict[str, Any], **more: Any) -> None:
    """A version that Mara drafted and Jonas approved."""
    answered(stack, world, drafted(stack, world, changes, **more), world.jonas)


def versions(stack: Stack, world: World) -> list[tuple[str, int, bool]]:
    """Each version, and whether it is in force now."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = rows(
            db, "SELECT policy_id, version, effective @> now() AS now FROM policies ORDER BY policy_id, version"
        )
    return [(row["policy_id"], row["version"], row["now"]) for row in found]


def sold_now(stack: Stack, order: Order) -> None:
    """As if the order had been placed this moment."""
    as_administrator(stack, "UPDATE orders SET placed_at = clock_timestamp() WHERE order_id = %s", order.order_id)


def categorised(stack: Stack, world: World, ref: str, categories: dict[str, str]) -> Order:
    """An order of today whose lines have these categories."""
    order = add_order(stack, world, ref)
    sold_now(stack, order)
    for place, line in enumerate(("TEE", "LAMP")):
        if line in categories:
            as_administrator(
                stack, "UPDATE orders SET allocation = jsonb_set(allocation, ARRAY['lines', %s::text, 'attributes'],"
                " jsonb_build_object('category', %s::text)) WHERE order_id = %s", str(place), categories[line], order.order_id,
            )  # fmt: skip
    return order


def decided(stack: Stack, world: World, case_id: UUID) -> RowMapping:
    """The newest entitlement of a case."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return rows(db, "SELECT * FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1",
                    m=world.merchant_id, c=case_id)[0]  # fmt: skip


def undecided(stack: Stack, case_id: UUID) -> tuple[str, str]:
    """The stage of a case and the last reason why no policy decides it."""
    row = as_administrator(
        stack, "SELECT c.stage, e.reason FROM cases c JOIN events e USING (merchant_id, case_id) WHERE c.case_id = %s"
        " AND e.kind = 'case.no_policy' ORDER BY e.number DESC LIMIT 1", case_id,
    )[0]  # fmt: skip
    return row["stage"], row["reason"]


def returned(stack: Stack, world: World, order: Order, reference: str) -> UUID:
    """One T-shirt of the order asked for and received: the case."""
    opened = lives.open_case(stack, world, (("TEE", 1),), order_ref=order.external_ref, reference=reference)
    lives.arrive(stack, world, opened.case_id, ("TEE", 1))
    return opened.case_id
