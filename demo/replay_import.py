"""The month's file, read once: orders imported with their payments taken at the provider, return lines matched."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from demo.local_stack import LocalStack
from demo.merchant import Merchant
from demo.provider_payments import LocalPayments
from demo.replay_month import Came, Month, Part
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
    prices: dict[tuple[str, str], int] = {}
    returns: list[ReturnLine] = []
    engine = connect(stack.role_urls[CONSOLE], pool_size=1, statement_seconds=60, name="replay")
    payments = LocalPayments(stack.provider(merchant.slug), engine, merchant.merchant_id)
    with file.open("rb") as opened:
        for batch in _batches(read_online_retail(opened), returns, month):
            paid = payments(batch)
            with transaction(engine, merchant.merchant_id) as db:
                store_orders(db, merchant.merchant_id, paid)
            for facts in batch:
                month.orders += 1
                for purchase, price in _purchases(facts):
                    sold[purchase.customer_ref, purchase.stock_code.upper()].append(purchase)
                    prices[purchase.order_ref, purchase.line_ref] = price
    engine.dispose()
    say(f"Matching {len(returns)} return lines to earlier purchases")
    for line in returns:
        _match(month, line, sold, prices)
    return month


def _batches(records: Iterator[Any], returns: list[ReturnLine], month: Month) -> Iterator[list[OrderFacts]]:
    batch: list[OrderFacts] = []
    for record in records:
        if isinstance(record, OrderFacts):
            batch.append(record)
            if len(batch) == BATCH:
                yield batch
                batch = []
        elif isinstance(record, ReturnLine):
            returns.append(record)
        else:
            month.unread[record.reason] += 1
    if batch:
        yield batch


def _purchases(facts: OrderFacts) -> Iterator[tuple[Purchase, int]]:
    """The goods lines of an order, each with the price of one unit."""
    customer = facts.customer.external_ref if facts.customer else None
    for line in facts.lines:
        if line.kind == "goods":
            sold = Purchase(facts.external_ref, line.line_ref, line.position, customer, line.sku, facts.placed_at, line.quantity,
                            line.quantity)  # fmt: skip
            yield sold, line.unit_price_minor


def _match(
    month: Month,
    line: ReturnLine,
    sold: dict[tuple[str | None, str], list[Purchase]],
    prices: dict[tuple[str, str], int],
) -> None:
    month.return_lines += 1
    key = (line.customer_ref, line.stock_code.upper())
    before = [one for one in sold.get(key, []) if line.customer_ref is not None and one.placed_at <= line.at]
    paid = frozenset(prices[one.order_ref, one.line_ref] for one in before)
    found = match_return(line, before)
    if not isinstance(found, Matched):
        month.refused[found.reason] += 1
        month.came.append(Came(line, paid, frozenset(), found.say))
        return
    taken = {(part.order_ref, part.line_ref): part.units for part in found.parts}
    month.came.append(Came(line, paid, frozenset(prices[sale] for sale in taken)))
    for number, part in enumerate(found.parts, 1):
        month.parts.append(Part(line.line_no, number, part.order_ref, part.line_ref, part.units))
    sold[key] = [_less(purchase, taken.get((purchase.order_ref, purchase.line_ref), 0)) for purchase in sold[key]]


def _less(purchase: Purchase, units: int) -> Purchase:
    return replace(purchase, free=purchase.free - units)
