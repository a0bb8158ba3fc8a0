"""The month's file, read once: orders imported with their payments taken at the provider, return lines matched."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from demo.local_stack import LocalStack
from demo.merchant import Merchant
from demo.provider_payments import LocalPayments
from demo.replay_month import Month, Part
from demo.roles import CONSOLE
from ledger.database import connect, transaction
from ledger.online_retail import read_online_retail
from ledger.online_retail_rows import ReturnLine
from ledger.order_facts import OrderFacts
from ledger.order_import import store_orders
from ledger.return_match import Matched, Purchase, match_return

# Orders to a transaction: large enough that the commit is not what is slow, small enough to be a moment.
BATCH: Final = 200


def import_month(stack: LocalStack, merchant: Merchant, file: Path, say: Callable[[str], None]) -> Month:
    """Streams the file into the ledger, batch by batch; then matches the returns, in the file's order."""
    say(f"Importing {file.name}, and taking its payments at the local provider")
    month = Month()
    sold: dict[tuple[str | None, str], list[Purchase]] = defaultdict(list)
    returns: list[ReturnLine] = []
    engine = connect(stack.role_urls[CONSOLE], pool_size=1, statement_seconds=60, name="replay")
    payments = LocalPayments(stack.provider(merchant.slug), engine, merchant.merchant_id)
    with file.open("rb") as opened:
        for batch in _batches(read_online_retail(opened), returns):
            paid = payments(batch)
            with transaction(engine, merchant.merchant_id) as db:
                store_orders(db, merchant.merchant_id, paid)
            for facts in batch:
                month.orders += 1
                for purchase in _purchases(facts):
                    sold[purchase.customer_ref, purchase.stock_code.upper()].append(purchase)
    engine.dispose()
    say(f"Matching {len(returns)} return lines to earlier purchases")
    for line in returns:
        _match(month, line, sold)
    return month


def _batches(records: Iterator[Any], returns: list[ReturnLine]) -> Iterator[list[OrderFacts]]:
    batch: list[OrderFacts] = []
    for record in records:
        if isinstance(record, OrderFacts):
            batch.append(record)
            if len(batch) == BATCH:
                yield batch
                batch = []
        elif isinstance(record, ReturnLine):
            returns.append(record)
    if batch:
        yield batch


def _purchases(facts: OrderFacts) -> Iterator[Purchase]:
    customer = facts.customer.external_ref if facts.customer else None
    for line in facts.lines:
        if line.kind == "goods":
            yield Purchase(facts.external_ref, line.line_ref, line.position, customer, line.sku, facts.placed_at, line.quantity,
                           line.quantity)  # fmt: skip


def _match(month: Month, line: ReturnLine, sold: dict[tuple[str | None, str], list[Purchase]]) -> None:
    month.return_lines += 1
    key = (line.customer_ref, line.stock_code.upper())
    found = match_return(line, sold.get(key, []))
    if not isinstance(found, Matched):
        month.refused[found.reason] += 1
        return
    taken = {(part.order_ref, part.line_ref): part.units for part in found.parts}
    for number, part in enumerate(found.parts, 1):
        month.parts.append(Part(line.line_no, number, part.order_ref, part.line_ref, part.units))
    sold[key] = [_less(purchase, taken.get((purchase.order_ref, purchase.line_ref), 0)) for purchase in sold[key]]


def _less(purchase: Purchase, units: int) -> Purchase:
    return replace(purchase, free=purchase.free - units)
