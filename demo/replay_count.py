"""The replay's last page: every return line accounted for, and the database beside the provider."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from demo.local_stack import LocalStack
from demo.merchant import Merchant
from demo.replay_explain import CURRENCY, DIFFER, EVERY, explain
from demo.replay_month import Month
from demo.roles import CONSOLE
from ledger.database import connect, rows, transaction
from ledger.money import format_minor


@dataclass
class Table:
    """What came out. `wrong` are sentences; none means the run is right."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    files: tuple[Path, ...] = ()

    @property
    def right(self) -> bool:
        return not self.wrong

    def text(self) -> str:
        """The table, and a verdict under it."""
        width = max(len(name) for name, _ in self.rows)
        lines = [f"  {name:<{width}}  {value:>16}" for name, value in self.rows]
        verdict = "\n".join(f"  WRONG: {sentence}" for sentence in self.wrong) or (
            "  Nothing was paid twice, both sides agree to the penny, and every return line is accounted for."
        )
        files = [f"  Why, line by line: {' and '.join(str(file) for file in self.files)}", ""] if self.files else []
        return "\n".join(["", *lines, "", *files, verdict])

    def add(self, name: str, value: object) -> None:
        """One line."""
        self.rows.append((name, f"{value:,}" if isinstance(value, int) else str(value)))


def add_up(stack: LocalStack, merchant: Merchant, month: Month, folder: Path) -> Table:
    """Reads both sides and compares them; why each line ended as it did is written to two files in `folder`."""
    table = Table()
    _lines(table, month)
    states, ours, units_twice = _our_side(stack, merchant)
    cases = len({answer.case for answer in month.answers if answer.case})
    joined = sum(word == "joined" for answer in month.answers for word in answer.statuses)
    table.add("requests that joined a case", joined)
    table.add("cases", cases)
    for state in sorted(states):
        table.add(f"intents, {state}", states[state])
    theirs, refunds, duplicates = _their_side(stack)
    table.add("refunds at the provider", refunds)
    for currency in sorted(set(ours) | set(theirs)):
        table.add(f"paid by our rows, {currency}", format_minor(ours[currency], currency))
        table.add(f"paid by the provider's, {currency}", format_minor(theirs[currency], currency))
        if ours[currency] != theirs[currency]:
            table.wrong.append(f"the two sides differ in {currency}")
    table.add("duplicates", duplicates + units_twice)
    if duplicates or units_twice:
        table.wrong.append(f"{duplicates} intents have several refunds, {units_twice} units are paid twice")
    if refunds != states["succeeded"]:
        table.wrong.append(f"{states['succeeded']} intents are paid and the provider has {refunds} refunds")
    _explained(table, stack, merchant, month, folder, ours)
    stuck = {state: number for state, number in states.items() if state not in ("succeeded", "failed", "withdrawn")}
    if stuck:
        table.wrong.append(f"not at an end: {stuck}")
    return table


def _explained(
    table: Table, stack: LocalStack, merchant: Merchant, month: Month, folder: Path, ours: Counter[str]
) -> None:
    engine = connect(stack.role_urls[CONSOLE], pool_size=1, statement_seconds=60, name="replay")
    with transaction(engine, merchant.merchant_id, read_only=True) as db:
        found = explain(db, month, folder)
    engine.dispose()
    table.add("lines and parts explained", found.lines)
    table.add("at a price the customer never paid", found.differ)
    table.add(f"paid for those, {CURRENCY}", format_minor(found.differ_minor, CURRENCY))
    table.files = (folder / EVERY, folder / DIFFER)
    if found.unexplained:
        table.wrong.append(f"{found.unexplained} lines have no reason")
    if found.minor != ours[CURRENCY]:
        table.wrong.append(f"{format_minor(found.minor, CURRENCY)} {CURRENCY} is explained, and another sum was paid")


def _lines(table: Table, month: Month) -> None:
    matched = {part.line_no for part in month.parts}
    refused_by_api = sorted({answer.part.line_no for answer in month.answers if answer.case is None})
    table.add("orders imported", month.orders)
    for reason, number in sorted(month.unread.items()):
        table.add(f"rows not read: {reason.replace('_', ' ')}", number)
    table.add("return lines", month.return_lines)
    table.add("matched to an earlier purchase", len(matched) - len(refused_by_api))
    for reason, number in sorted(month.refused.items()):
        table.add(f"refused: {reason.replace('_', ' ')}", number)
    for word, number in sorted(Counter(a.statuses[0] for a in month.answers if a.case is None).items()):
        table.add(f"refused by the API: {word}", number)
    accounted = len(matched) + sum(month.refused.values())
    if accounted != month.return_lines:
        table.wrong.append(f"{month.return_lines - accounted} return lines are not accounted for")


def _our_side(stack: LocalStack, merchant: Merchant) -> tuple[Counter[str], Counter[str], int]:
    engine = connect(stack.role_urls[CONSOLE], pool_size=1, name="replay")
    states: Counter[str] = Counter()
    paid: Counter[str] = Counter()
    taken: Counter[tuple[str, str, int]] = Counter()
    with transaction(engine, merchant.merchant_id, read_only=True) as db:
        for row in rows(db, "SELECT state, count(*) AS n FROM intents GROUP BY state"):
            states[row["state"]] = row["n"]
        for row in rows(db, "SELECT currency, sum(refunded_minor)::bigint AS minor FROM captures GROUP BY currency"):
            paid[row["currency"]] = row["minor"]
        for row in rows(db, "SELECT order_id, units FROM intents WHERE state = 'succeeded'"):
            for unit in row["units"]:
                for number in range(unit["from"], unit["to"]):
                    taken[(str(row["order_id"]), unit["line"], number)] += 1
    engine.dispose()
    return states, paid, sum(count - 1 for count in taken.values() if count > 1)


def _their_side(stack: LocalStack) -> tuple[Counter[str], int, int]:
    paid: Counter[str] = Counter()
    by_intent: dict[str, int] = defaultdict(int)
    refunds = 0
    for payment in stack.provider("retail").all_money()["payments"]:
        for refund in payment["refunds"]:
            if refund["status"] in ("succeeded", "pending"):
                refunds += 1
                paid[payment["currency"].upper()] += refund["amount"]
                by_intent[refund["metadata"].get("onceback_intent", refund["id"])] += 1
    return paid, refunds, sum(count - 1 for count in by_intent.values() if count > 1)
