"""Orders in question for the demo: one whose lines miss its total, one whose discount is shared out wrong, one stated twice."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Engine

from demo.seed_clock import Clock
from demo.seed_orders import Sale, facts, payments
from ledger.cases import ReturnRequest, open_return
from ledger.database import transaction
from ledger.ids import uuid7
from ledger.order_document import order_facts
from ledger.order_settlements import Typed, propose_settlement
from ledger.order_settling import choices, read_in_question
from ledger.orders import store_order

GAP: Final = Sale("A-20691", "Perpetua Lunde", (("TEAPOT", 1), ("MUG-CREAM", 4)), 9)
SHARES: Final = Sale("A-20694", "Joachim Abara", (("FRAME-30", 2), ("UMBRELLA", 1)), 8, coupon_minor=900)
TWICE: Final = Sale("A-20698", "Wilhelmina Sand", (("CUSHION-RUST", 2), ("CANDLE-FIG", 1)), 7)

Take = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def seed_questions(
    console: Engine, merchant_id: UUID, staff: Mapping[str, UUID], token: str, clock: Clock, take: Take
) -> None:
    """States them; of the first a return waits, and how the last one is settled is proposed already. `take` makes payments at the
    local provider, `token` is the channel's actor."""
    gap = _stated(GAP, clock.start, take)
    gap["lines"][0]["unit_price_minor"] += 600
    shares = _stated(SHARES, clock.start, take)
    shares["order_discounts"][0]["shares"] = {"L1": 500, "L2": 300}
    once = _stated(TWICE, clock.start, take)
    again = {**once, "lines": [dict(line) for line in once["lines"]], "total_minor": once["total_minor"] - 400}
    again["lines"][0]["unit_price_minor"] -= 200
    ids = []
    for sale, document in ((GAP, gap), (SHARES, shares), (TWICE, once), (TWICE, again)):
        clock.days_ago(sale.days if document is not again else sale.days - 2)
        with transaction(console, merchant_id) as db:
            ids.append(store_order(db, merchant_id, order_facts(document)).order_id)
    clock.days_ago(GAP.days - 3)
    with transaction(console, merchant_id) as db:
        open_return(db, merchant_id, ReturnRequest(
            order_ref=GAP.ref, lines=(("L2", 2),), reason="damaged", channel="chat", reference=f"chat-{GAP.ref}", actor=token,
        ))  # fmt: skip
    clock.days_ago(1)
    with transaction(console, merchant_id) as db:
        asked = read_in_question(db, merchant_id, ids[-1])
        newer = next(one.key for one in choices(asked) if one.statement.conflict_id is not None)
        typed = Typed(
            newer, "corrected_later", "The shop gave 2.00 off each cushion on the phone and put it right.", asked.seen
        )
        propose_settlement(db, merchant_id, ids[-1], uuid7(), staff["mara"], typed)


def _stated(sale: Sale, start: datetime, take: Take) -> dict[str, Any]:
    return facts(sale, start, take(payments(sale, start)))
