"""`make chaos LIVES=N SEED=S [GUARD=name]`: many refund lives at once, and whatever can go wrong goes wrong.

Several workers, a web process that takes the provider's hooks twice and out of order, processes of people who all press at
once, refunds and disputes at the provider's own dashboard, clock jumps, connections cut, processes killed with SIGKILL, and a
second writer that tries what each guard refuses. At the end everything is left to its jobs, and both sides are counted.
"""

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import psycopg
from werkzeug.serving import make_server

from faults.books import Books, audit
from faults.children import be_silent, in_child
from faults.guards import GUARDS, listed
from faults.lives import LARGEST_MINOR, Disturbance, LifeOrder, Plan, plan
from faults.people import People, Progress
from faults.place import HOOK_SECRET, ORIGIN, Place, a_place
from jobs.schedule import PERIODIC, run_job
from ledger.database import transaction
from tests.orders import Line, insert_order
from tests.stack import Server, running_server
from tests.world import insert_customer

SEED = 20261130
# Nothing done for so long is a harness that hangs, not a run.
STALLED_SECONDS = 120
DURATION_OF_A_ROUND = 0.02
# Each round of settling is every job until nothing moves, at the end of each day that is full.
MOST_SETTLING = 60


@dataclass
class Result:
    """What a run ended with. `told`: how often each act came to what; `disturbed`: how often each disturbance came."""

    plan: Plan
    guard: str
    books: Books
    told: Counter[str]
    disturbed: Counter[str]
    ends: Counter[str]
    hooks: int
    calls: int
    seconds: float
    crashes: list[str] = field(default_factory=list)

    @property
    def found(self) -> list[str]:
        return [*self.books.faults, *self.crashes]


class Crowd:
    """The processes of a run: workers, people and the web process, killed and started again."""

    def __init__(self, place: Place, given: Plan, workers: int, said: Path) -> None:
        self.place, self.plan = place, given
        self.progress = Progress(len(given.acts))
        self.disturbed: Counter[str] = Counter()
        self.crashes: list[str] = []
        self._said = said
        self._door = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._door.set_inheritable(True)
        self.hook_url = f"http://127.0.0.1:{self._door.getsockname()[1]}/hooks/stripe/{place.world.slug}"
        self._work: dict[tuple[str, int], Callable[[], object]] = {("web", 0): self._be_web}
        self._work |= {("worker", n): self._be_worker for n in range(workers)}
        self._work |= {("people", n): lambda n=n: self._be_people(n) for n in range(len(given.acts))}  # type: ignore[misc]
        self._running: dict[tuple[str, int], int] = {}

    def start(self) -> None:
        """Whoever should run and does not. People who are done stay away."""
        for who, work in self._work.items():
            if who in self._running or (who[0] == "people" and self.progress[who[1]] >= len(self.plan.acts[who[1]])):
                continue
            self._running[who] = self._fork(work)

    def _fork(self, work: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            self._live(work)
        return child

    def _live(self, work: Callable[[], object]) -> NoReturn:
        status = 0
        try:
            be_silent(1, 2)
            self.place.moved_in()
            work()
        except BaseException as error:  # noqa: BLE001 - whatever ends a process is told in the totals
            with self._said.open("ab", buffering=0) as told:
                told.write(
                    json.dumps({"crash": f"{_where(error)}: {type(error).__name__}: {error}"[:500]}).encode() + b"\n"
                )
            status = 1
        finally:
            os._exit(status)

    def reap(self) -> None:
        """Notices who ended."""
        for who, child in list(self._running.items()):
            done, _ = os.waitpid(child, os.WNOHANG)
            if done:
                del self._running[who]

    def kill(self, kind: str, which: int) -> None:
        """SIGKILL to one of a kind."""
        alive = sorted(who for who in self._running if who[0] == kind)
        if alive:
            who = alive[which % len(alive)]
            os.kill(self._running[who], signal.SIGKILL)
            os.waitpid(self._running.pop(who), 0)
            self.disturbed[f"{kind} killed"] += 1

    def end(self, *kinds: str) -> None:
        for kind in kinds:
            while any(who[0] == kind for who in self._running):
                self.kill(kind, 0)

    def disturb(self, one: Disturbance) -> None:
        """What the plan has for this moment."""
        match one.name:
            case "worker" | "people" | "web":
                self.kill(one.name, one.which)
            case "cut":
                cut = self.place.as_administrator(
                    "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                    " AND application_name LIKE 'onceback%%' ORDER BY backend_start DESC LIMIT %s) AS chosen", 1 + one.which // 2,
                )  # fmt: skip
                self.disturbed["connections cut"] += len(cut)
            case "clock":
                try:
                    self.place.time_passes(one.seconds)
                    self.disturbed["clock jumps"] += 1
                except psycopg.OperationalError:
                    self.disturbed["clock jumps given up"] += 1

    def _be_web(self) -> None:
        app = self.place.app

        def at_its_address(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            environ |= {"HTTP_HOST": ORIGIN.partition("://")[2], "wsgi.url_scheme": "https"}
            return app(environ, start)

        host, port = self._door.getsockname()
        make_server(host, port, at_its_address, threaded=True, fd=self._door.fileno()).serve_forever()

    def _be_worker(self) -> None:
        with self.place.worker(in_flight=4) as worker:
            while True:
                for periodic in PERIODIC:
                    run_job(periodic, worker)
                time.sleep(DURATION_OF_A_ROUND)

    def _be_people(self, number: int) -> None:
        with self._said.open("ab", buffering=0) as told:
            People(self.place, told.fileno()).go(self.plan.acts[number], self.progress, number)


def run_chaos(
    server: Server, lives: int, seed: int, guard: str = "", *, workers: int = 2, people: int = 2, quiet: bool = False
) -> Result:
    """One run from the seed's plan to the count of both sides."""
    began = time.monotonic()
    given = plan(lives, seed, people, guard)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, a_place(server, Path(folder)) as place:
        # A third of what may be owed: the day's cap is reached on the way, and the rest waits for the next day. A short run
        # from which the cap is taken passes one that is lower.
        owed_minor = sum(one.captured_minor for one in given.orders)
        place.empty(seed, cap_minor={"GBP": max(LARGEST_MINOR, owed_minor // (10 if guard == "daily_cap" else 3))})
        _open_shop(place, given.orders)
        for statement in GUARDS[guard].off if guard else ():
            server.run(statement.encode(), database=place.stack.name)
        crowd = Crowd(place, given, workers, Path(folder) / "said")
        place.sandbox.settings(webhooks_copies=2, webhooks_reorder=True, webhooks_retry_seconds=0.2, webhooks_tries=50)
        place.sandbox.set_webhook(crowd.hook_url, HOOK_SECRET)
        try:
            _let_it_happen(crowd, quiet=quiet)
            crowd.end("people", "worker")
            crowd.start()
            crowd.end("worker")
            settled = in_child(lambda _say: _settle(place, shows=bool(guard)))
        finally:
            crowd.end("people", "worker", "web")
        books = audit(place)
        told, crashes = _told(Path(folder) / "said")
        crashes += [settled.error] if settled.error else []
        hooks = len(place.as_administrator("SELECT 1 FROM provider_events"))
        calls = len(place.sandbox.requests(method="POST", path="/v1/refunds"))
        return Result(
            given, guard, books, told, crowd.disturbed, _ends(place, given), hooks, calls, time.monotonic() - began, crashes
        )  # fmt: skip


def _open_shop(place: Place, orders: list[LifeOrder]) -> None:
    """Every order, each of a customer of its own (what one gets in a day adds up, S22), paid at the provider."""
    made = place.sandbox.create_payments([{"amount": one.paid_minor, "currency": "gbp"} for one in orders])
    world = place.world
    with transaction(place.stack.console, world.merchant_id) as db:
        for one in orders:
            lines = (Line("THING", 3, one.thing_minor), Line("OTHER", 1, one.other_minor))
            customer = insert_customer(
                db, world.merchant_id, f"C-{one.ref}", "Ilse Brandt", f"{one.ref.lower()}@example.org"
            )
            insert_order(db, world.merchant_id, world.provider_account_id, customer, one.ref, lines=lines,
                         captured={"card": one.captured_minor})  # fmt: skip
    for one, payment in zip(orders, made, strict=True):
        place.as_administrator(
            "UPDATE captures SET payment_intent_ref = %s, charge_ref = %s WHERE order_id = (SELECT order_id FROM orders"
            " WHERE external_ref = %s)", payment["payment_intent"], payment["charge"], one.ref,
        )  # fmt: skip


def _let_it_happen(crowd: Crowd, *, quiet: bool) -> None:
    """Until every act is done: starts who is missing, disturbs as planned, lifts the stop of a merchant now and then."""
    waiting, length = list(crowd.plan.disturbances), crowd.plan.length
    done, moved_at, shown = 0, time.monotonic(), 0.0
    while done < length:
        crowd.reap()
        crowd.start()
        if crowd.progress.total > done:
            done, moved_at = crowd.progress.total, time.monotonic()
        elif time.monotonic() - moved_at > STALLED_SECONDS:
            raise RuntimeError(f"nothing was done for {STALLED_SECONDS} s; {done} of {length} acts are")
        while waiting and waiting[0].after <= done:
            crowd.disturb(waiting.pop(0))
        if time.monotonic() - shown > 0.5:
            shown = time.monotonic()
            _lift_stops(crowd.place)
            if not quiet:
                print(
                    f"\r  {done} of {length} acts, {sum(crowd.disturbed.values())} disturbances ",
                    end="",
                    file=sys.stderr,
                )
        time.sleep(0.02)
    if not quiet:
        print(file=sys.stderr)


def _lift_stops(place: Place) -> None:
    """A person looked at the credential: it works again."""
    place.as_administrator(
        "UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = '' WHERE stopped_at IS NOT NULL"
    )


def _settle(place: Place, *, shows: bool) -> None:
    """Nothing goes wrong any more: what is left goes on by itself, and every hook arrives. With `shows` it ends as soon as what
    a guard keeps out stands: books that do not add up may never come to rest."""
    place.moved_in()
    place.sandbox.drop_faults()
    # However far the clock jumped before: what is left is waited for from now.
    place.moved_seconds = 0.0
    stood: set[str] = set()
    with place.worker(in_flight=8) as worker:
        for _ in range(MOST_SETTLING):
            _lift_stops(place)
            place.work(worker)
            place.sandbox.deliver_now()
            ends = time.monotonic() + 30
            while (owed := place.sandbox.deliveries("waiting")) and time.monotonic() < ends:
                time.sleep(0.05)
            if shows:
                books = audit(place)
                found = {*books.duplicates, *books.wrong}
                # What one round finds may be under way; what the next one finds as well is not.
                if found & stood:
                    return
                stood = found
            hints = place.as_administrator("SELECT 1 FROM provider_events WHERE done_at IS NULL LIMIT 1")
            held = place.as_administrator("SELECT 1 FROM intents WHERE state = 'held' AND state_reason = 'cap' LIMIT 1")
            if held:
                place.next_business_day()
            elif not owed and not hints and place.next_due_seconds() is None:
                return
            place.time_passes(60)
    raise RuntimeError(f"not quiet after {MOST_SETTLING} rounds")


def _where(error: BaseException) -> str:
    """The file and line of ours that an error came from."""
    frames = [(Path(at.filename), at.lineno) for at in traceback.extract_tb(error.__traceback__)]
    return " > ".join([f"{path.name}:{line}" for path, line in frames if "site-packages" not in path.parts][-3:])


def _told(said: Path) -> tuple[Counter[str], list[str]]:
    told: Counter[str] = Counter()
    crashes = []
    for text in said.read_text().splitlines():
        one = json.loads(text)
        if "crash" in one:
            crashes.append(one["crash"])
        elif one["act"] == "rogue":
            told[f"rogue {one['told']}"] += 1
            told[f"rogue {one['guard']} {one['told']}"] += 1
        else:
            told[f"{one['act']} {one['told']}"] += 1
    return told, crashes


_ENDS = """
    SELECT o.external_ref AS ref, count(c.case_id) AS cases,
        coalesce(bool_or(i.state = 'succeeded'), false) AS paid,
        array_remove(array_agg(DISTINCT CASE WHEN c.closed_at IS NULL THEN c.stage END), NULL) AS open
    FROM orders o LEFT JOIN cases c USING (merchant_id, order_id) LEFT JOIN intents i USING (merchant_id, case_id)
    WHERE o.external_ref LIKE 'LIFE-%' GROUP BY o.external_ref
"""


def _ends(place: Place, given: Plan) -> Counter[str]:
    """Where each life ended: paid, or at which desk a person has it."""
    ends: Counter[str] = Counter()
    for row in place.as_administrator(_ENDS, *()):
        if not row["cases"]:
            ends["nothing was asked"] += 1
        elif row["open"]:
            ends[
                f"{'paid in part, ' if row['paid'] else ''}a person has the rest: {' and '.join(sorted(row['open']))}"
            ] += 1
        else:
            ends["paid" if row["paid"] else "closed unpaid"] += 1
    ends["lost"] += len(given.orders) - sum(ends.values())
    return +ends


def lines(result: Result) -> list[str]:
    """The totals in words."""
    books, told = result.books, result.told
    said = [f"  {number:>6} × {end}" for end, number in sorted(result.ends.items(), key=lambda one: (-one[1], one[0]))]
    disturbed = ", ".join(f"{number} {what}" for what, number in sorted(result.disturbed.items()))
    said.append(f"  {len(result.plan.orders)} lives, {result.plan.length} acts; {disturbed}")
    said.append(
        f"  {result.calls} calls for a refund, {result.hooks} events heard; the second writer was refused"
        f" {told['rogue refused']} times and let {told['rogue let']} times"
    )
    said.append(
        f"  at the provider: {books.refunds} refunds of ours, {books.refunded_minor:,} minor units; {books.outside} of the"
        f" dashboard, {books.outside_minor:,}"
    )
    tried = sorted({what.split()[1] for what in told if what.startswith("rogue ") and what.split()[1] in GUARDS})
    said += [
        f"    {name:<16} " + ", ".join(f"{told[f'rogue {name} {what}']} {what}" for what in ("refused", "let"))
        for name in tried
    ]
    found = {"DUPLICATE": books.duplicates, "WRONG": books.wrong, "STUCK": books.stuck, "CRASHED": result.crashes}
    said += [f"  {what} {text}" for what, texts in found.items() for text in texts]
    said.append(
        f"  duplicates {len(books.duplicates)}, ledger against provider {len(books.wrong)}, lost or stuck"
        f" {len(books.stuck) + result.ends['lost']}; seed {result.plan.seed}; guard taken away: {result.guard or 'none'};"
        f" {result.seconds:.0f} s"
    )
    return said


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: with every guard in place nothing was found. 1: something was. 3: a guard was taken and nothing shows."""
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"guards, the promise each keeps, and what is taken away without it:\n{listed()}",
    )  # fmt: skip
    parser.add_argument("--lives", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--guard", default="", choices=["", *GUARDS], help="run without this guard: the duplicate is found"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--people", type=int, default=2)
    given = parser.parse_args(arguments)
    with running_server() as server:
        result = run_chaos(
            server, given.lives, given.seed, given.guard, workers=given.workers, people=given.people
        )  # fmt: skip
    print("\n".join(lines(result)))
    if given.guard:
        found = bool(result.books.duplicates or result.books.wrong)
        print(f"  {'FOUND' if found else 'NOT FOUND'}: what {given.guard} ({GUARDS[given.guard].promise}) keeps out")
        return 1 if found else 3
    return 1 if result.found or result.ends["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
