"""F9, F10, F11, F16 and F17: the pages people work in all day, at the size of a large shop, beside the admin pages of others.

Times are of whole answers over one connection that stays open, p95 of each run. The others read a flat table of the same rows with
an index for all that is asked of it, and count nothing; ours shows presence, tags, signals and counts beside the rows.
"""

import gzip
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final
from urllib.parse import quote

from sqlalchemy.engine import make_url

from bench.measure import RUNS, Result, per_second, side_by_side
from bench.over_http import Browser
from bench.peers.pages import ASKED, Admin, running_admin
from bench.work import REVIEWERS, SLUG, Bench
from demo.bulk import add_cases
from ledger.database import first, scalar, transaction
from ledger.evidence import Arrival, ReceivedLine, report_arrival

SMALL: Final = 10_000
ASKS: Final = 60
EVENTS: Final = 200
LOAD_SECONDS: Final = 8
MOST_WEIGHT: Final = 60 * 1024
QUEUE: Final = f"/{SLUG}/queue/"
# The rows of the queue as one flat table, with an index under each order, filter and search of the others.
FLAT: Final = """
    DROP TABLE IF EXISTS bench.peer_cases;
    CREATE TABLE bench.peer_cases AS SELECT c.case_id::text AS id, c.number, o.external_ref AS order_ref,
        cu.name AS customer, c.summary, c.stage, c.currency, c.amount_minor, c.due_at, c.opened_at
        FROM cases c JOIN orders o USING (merchant_id, order_id)
        LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id;
    ALTER TABLE bench.peer_cases ADD PRIMARY KEY (id);
    CREATE INDEX ON bench.peer_cases (due_at, id);
    CREATE INDEX ON bench.peer_cases (stage, due_at, id);
    CREATE INDEX ON bench.peer_cases (order_ref text_pattern_ops);
    GRANT SELECT ON bench.peer_cases TO PUBLIC
"""


def f10(bench: Bench, cases: int) -> list[Result]:
    """The queue of a small shop and of a large one."""
    small = min(SMALL, cases)
    _fill(bench, small)
    with _signed_in(bench) as browsers:
        few = [_p95(browsers[0], QUEUE) for _ in range(RUNS + 1)][1:]
        _fill(bench, cases)
        many = [_p95(browsers[0], QUEUE) for _ in range(RUNS + 1)][1:]
    return [Result(
        f"F10 queue, p95 at {cases:,} cases", statistics.median(many), "ms", f"at {small:,}", statistics.median(few), 1.2,
        tuple(many), tuple(few), at_most=True,
    )]  # fmt: skip


def f9(bench: Bench, cases: int) -> list[Result]:
    """First page, deep page, state and search beside the better of the others."""
    _fill(bench, cases)
    found = []
    with _signed_in(bench) as browsers, _peers(bench) as peers:
        for page, mark in (("first", 0.3), ("deep", 0.1), ("state", 0.3), ("search", 0.1)):
            ours, theirs = _asked(bench, page, cases)
            best = min(peers, key=lambda peer, at=theirs: _p95_of(peer, at[peer.name]))  # type: ignore[misc]
            found.append(side_by_side(
                f"F9 queue, {page}, p95 at {cases:,} cases", "ms", partial(_p95, browsers[0], ours),
                f"the better, {best.name}", partial(_p95_of, best, theirs[best.name]), mark, at_most=True,
            ))  # fmt: skip
    return found


def f11(bench: Bench, cases: int) -> list[Result]:
    """A case with a long history beside the queue."""
    _fill(bench, cases)
    case_id, events = _long_case(bench)
    with _signed_in(bench) as browsers:
        return [side_by_side(
            f"F11 case page with {events} events, p95", "ms", lambda: _p95(browsers[0], f"/{SLUG}/cases/{case_id}"),
            "queue page, p95", lambda: _p95(browsers[0], QUEUE), 1.5, at_most=True,
        )]  # fmt: skip


def f16(bench: Bench, cases: int) -> list[Result]:
    """What a browser fetches for its first queue page, packed as a proxy packs it."""
    _fill(bench, min(cases, SMALL))
    with _signed_in(bench) as browsers:
        parts = weigh(browsers[0], QUEUE)
    weight = float(sum(parts.values()))
    return [
        Result(
            "F16 first page with all assets, gzip", weight, "bytes", "60 KB", MOST_WEIGHT, 1.0, (weight,), at_most=True
        )
    ]


def f17(bench: Bench, cases: int) -> list[Result]:
    """The first page of the queue by eight at once."""
    _fill(bench, cases)
    with _signed_in(bench, workers=1) as browsers, _peers(bench) as peers:
        rates: dict[str, list[float]] = {name: [] for name in ("ours", *(peer.name for peer in peers))}
        slow: dict[str, list[float]] = {name: [] for name in rates}
        asks: dict[str, list[Callable[[], int]]] = {peer.name: [_asks(peer) for _ in browsers] for peer in peers}
        asks["ours"] = [partial(_status, one, QUEUE) for one in browsers]
        for run in range(RUNS + 1):
            for name, each in asks.items():
                for browser in browsers:
                    browser.rest()
                rate, p99 = _load(each)
                if run:
                    rates[name].append(rate)
                    slow[name].append(p99)
    best = max((peer.name for peer in peers), key=lambda name: statistics.median(rates[name]))
    return [
        _beside("F17 queue by eight at once", "/s", rates, best, 3.5, at_most=False),
        _beside("F17 queue by eight at once, p99", "ms", slow, best, 0.3, at_most=True),
    ]


def weigh(browser: Browser, page: str) -> dict[str, int]:
    """Bytes of a page and of everything it fetches at once, each packed with gzip, by address."""
    browser.rest()
    status, text = browser.ask("GET", page)
    if status != 200:
        raise RuntimeError(f"{page} was answered with {status}")
    found = {page: len(gzip.compress(text.encode(), 6))}
    for address in set(re.findall(r'(?:src|href)="(/static/[^"#]+)"', text)):
        found[address] = len(gzip.compress(browser.fetch(address), 6))
    return found


def _beside(name: str, unit: str, runs: dict[str, list[float]], best: str, mark: float, *, at_most: bool) -> Result:
    ours, theirs = tuple(runs["ours"]), tuple(runs[best])
    return Result(name, statistics.median(ours), unit, f"the better, {best}", statistics.median(theirs), mark, ours, theirs,
                  at_most)  # fmt: skip


def _fill(bench: Bench, cases: int) -> None:
    """At least so many cases, copies of one that waits and one that was paid."""
    with bench.as_administrator() as db:
        there = db.execute("SELECT count(*) FROM cases WHERE merchant_id = %s", [bench.m]).fetchone()
    missing = cases - (there[0] if there else 0)
    if missing <= 0:
        return
    if not there or there[0] < 3:
        bench.ready(2)
        bench.drain(1, 0)
    url = make_url(bench.stack.postgres.admin_url).set(drivername="postgresql", database=make_url(bench.url).database)
    add_cases(
        url.render_as_string(hide_password=False), bench.m, missing, lambda line: print(f"  {line} …", flush=True)
    )


@contextmanager
def _signed_in(bench: Bench, workers: int = 2) -> Iterator[list[Browser]]:
    bench.stack.web_workers, before = workers, bench.stack.web_workers
    bench.stack.start_web()
    try:
        browsers = [Browser(bench.stack.origin) for _ in range(8)]
        for browser, reviewer in zip(browsers, REVIEWERS, strict=False):
            browser.sign_in(reviewer.email, f"/{SLUG}/sessions")
        yield browsers
    finally:
        bench.stack.kill("web")
        bench.stack.web_workers = before


@contextmanager
def _peers(bench: Bench) -> Iterator[list[Admin]]:
    with bench.as_administrator() as db:
        for statement in FLAT.split(";"):
            db.execute(statement.encode())
        db.execute("VACUUM (ANALYZE) bench.peer_cases")
    with ExitStack() as running:
        yield [running.enter_context(running_admin(name, bench.url)) for name in ASKED]


def _asked(bench: Bench, page: str, cases: int) -> tuple[str, dict[str, str]]:
    """The address of a page here, and of the same by the names of the others."""
    with bench.as_administrator() as db:
        half = db.execute(
            "SELECT due_at, case_id FROM cases WHERE merchant_id = %s ORDER BY due_at, case_id OFFSET %s LIMIT 1",
            [bench.m, cases // 2],
        ).fetchone()
        some = db.execute("SELECT order_ref FROM bench.peer_cases OFFSET %s LIMIT 1", [cases // 3]).fetchone()
    if half is None or some is None:
        raise RuntimeError("there are too few cases")
    ours = {
        "first": QUEUE, "state": f"{QUEUE}?view=every&sort=due&stage=ready", "search": f"{QUEUE}?view=every&q={quote(some[0])}",
        "deep": f"{QUEUE}?view=every&sort=due&after={quote(half[0].isoformat())}_{half[1]}",
    }  # fmt: skip
    places = {"page": cases // 2 // 50, "reference": quote(some[0])}
    return ours[page], {name: ASKED[name][page].format(**places) for name in ASKED}


def _p95(browser: Browser, path: str) -> float:
    browser.rest()
    return _slow([partial(_status, browser, path)] * ASKS, 0.95)


def _status(browser: Browser, path: str) -> int:
    return browser.ask("GET", path)[0]


def _p95_of(peer: Admin, path: str) -> float:
    return _slow([_asks(peer, path)] * ASKS, 0.95)


def _asks(peer: Admin, path: str = "") -> Callable[[], int]:
    connection, asked = peer.connection(), path or peer.path("first")

    def ask() -> int:
        connection.request("GET", asked)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    return ask


def _slow(asks: list[Callable[[], int]], quantile: float) -> float:
    """Milliseconds that all but the slowest take."""
    taken = []
    for ask in asks:
        began = time.perf_counter()
        status = ask()
        taken.append((time.perf_counter() - began) * 1000)
        if status != 200:
            raise RuntimeError(f"a page was answered with {status}")
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * quantile))]


def _load(asks: list[Callable[[], int]]) -> tuple[float, float]:
    """Requests a second of all together for LOAD_SECONDS, and their p99 in milliseconds."""
    until, taken, lock = time.perf_counter() + LOAD_SECONDS, list[float](), threading.Lock()

    def go_on(number: int) -> None:
        mine = []
        while (began := time.perf_counter()) < until:
            if asks[number]() != 200:
                raise RuntimeError("a page was not answered")
            mine.append((time.perf_counter() - began) * 1000)
        with lock:
            taken.extend(mine)

    per_second(len(asks), len(asks), go_on)
    return len(taken) / LOAD_SECONDS, sorted(taken)[min(len(taken) - 1, int(len(taken) * 0.99))]


def _long_case(bench: Bench) -> tuple[str, int]:
    """A return whose goods were reported over and over, so that its history is EVENTS long."""
    made = bench.ready(1)[0]
    actor = f"token:{bench.merchant.tokens['warehouse'].split('_')[2]}"
    with transaction(bench.console, bench.m) as db:
        found = first(
            db, "SELECT case_id FROM intents WHERE merchant_id = :m AND intent_id = :i", m=bench.m, i=made.intent_id
        )
    case_id = found["case_id"] if found else None
    if case_id is None:
        raise RuntimeError("the case is gone")
    events = 0
    while events < EVENTS:
        with transaction(bench.console, bench.m) as db:
            report_arrival(db, bench.m, case_id, Arrival((ReceivedLine("L1", 1),), "warehouse", actor, "parcel"))
            asked = "SELECT head_number FROM cases WHERE merchant_id = :m AND case_id = :c"
            events = int(scalar(db, asked, m=bench.m, c=case_id))
    return str(case_id), events
