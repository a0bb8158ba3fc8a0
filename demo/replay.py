"""`make replay FILE=…`: a month of a real ledger, every return asked for twice, and both sides added up.

    orders imported, their payments taken at the local provider
    each return line matched to what the customer bought before, newest first
    asked for through chat and voice at once, by the API; the warehouse books it in
    two reviewers press the button on each refund together; workers run until nothing is due
    then: our rows and the provider's, side by side, and two files in build/replay that say why each line ended as it did

`--kill worker|web|database` interrupts the run once, in the middle of paying; the table is the same.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demo.local_stack import LocalStack, StackError, forget
from demo.merchant import Merchant, set_up
from demo.people import PASSWORD, PEOPLE
from demo.replay_count import Table, add_up
from demo.replay_import import import_month
from demo.replay_month import Month
from demo.replay_work import Channels, Interruption, approve_all, book_in, pay_out
from demo.roles import OWNER
from demo.server_account import PostgresError
from ledger.database import connect
from ledger.order_formats import FormatError

SLUG = "retail"
POLICY = {
    "policy_id": f"{SLUG}-returns", "version": 1, "title": "Returns of the retailer", "refund_trigger": "received",
    "pay_within_days": 14, "shipping": "none", "routes": {"manager_from_minor": {"GBP": 25_000}},
    "limits": {role: {"GBP": {"hour": {"count": 10**9, "minor": 10**15}}} for role in ("desk", "manager")},
}  # fmt: skip
CAP_MINOR = {"GBP": 100_000_000}
KILLS = ("none", "worker", "web", "database")
FOLDER = Path("build/replay")


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 0 when nothing was paid twice, both sides agree and every line is accounted for."""
    parser = argparse.ArgumentParser(prog="python -m demo.replay", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--kill", choices=KILLS, default="none")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    try:
        table = replay(options.file, options.folder, options.kill)
    except FileNotFoundError:
        print(f"replay: there is no file {options.file}", file=sys.stderr)
        return 2
    except (FormatError, StackError, PostgresError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    print(table.text())
    return 0 if table.right else 1


def replay(file: Path, folder: Path, kill: str = "none") -> Table:
    """The whole run in a fresh stack in `folder`. Raises FormatError for a file that is none."""
    with file.open("rb"):
        forget(folder)
    stack = LocalStack(folder, merchants=(SLUG,), cancel_window_seconds=0, consistency_seconds=2, say=say)
    with stack:
        stack.start_database()
        stack.start_provider()
        owner = connect(stack.role_urls[OWNER], pool_size=2, statement_seconds=60, name="replay")
        merchant = set_up(
            owner, folder, SLUG, "Retailer", "Europe/London", "GB", policy=POLICY, caps_minor=CAP_MINOR, people=PEOPLE,
            password=PASSWORD,
        )  # fmt: skip
        owner.dispose()
        month = import_month(stack, merchant, file, say)
        stack.start_web()
        stack.start_worker()
        play(stack, merchant, month, Interruption(stack, kill, say))
        return add_up(stack, merchant, month, folder)


def play(stack: LocalStack, merchant: Merchant, month: Month, interruption: Interruption) -> None:
    """Asks, books in, approves and pays, with the interruption in the middle."""
    channels = Channels.of(stack, merchant)
    say(f"Asking for {len(month.parts)} returns through chat and voice at once")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(channels.ask_twice, month.parts))
    month.answers.extend(answers)
    say("Booking in what arrived")
    cases = sorted({answer.case for answer in answers if answer.case})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda case: book_in(channels, case, month), cases))
    say("Two reviewers approve, and a worker pays")
    approve_all(stack, merchant, SLUG, interruption)
    pay_out(stack, merchant, interruption)


def say(line: str) -> None:
    """Progress, a line at a time."""
    print(f"  {line} …", flush=True)


if __name__ == "__main__":
    sys.exit(main())
