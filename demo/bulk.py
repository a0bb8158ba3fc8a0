"""Cases in numbers: copies of what real commands left, row for row, with ids, references, people and days of their own.

A pattern is one return of the demo with everything around it: order, payment, evidence, entitlement, refund, history. Each copy
gets new ids, is moved by whole days, and its chain of events is hashed anew, so the ledger's self-check holds over all of it.
Documents that are bound by digests (facts of orders, entitlements, sent requests) stay word for word those of the pattern; photos
are left out. Rows go in by COPY, past the triggers, which have checked the pattern: only in a demo's database, by its admin.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ledger.canonical import canonical_bytes
from ledger.events import TAG, event_content

CHUNK: Final = 2_000
# Patterns of each kind; the rows of long ones would fill the disk.
LEANEST: Final = 6
# Of a hundred copies so many are open, as in a shop that keeps up with its work.
OPEN_OF_HUNDRED: Final = 4
DAYS_BACK: Final = 700
OPEN_DAYS: Final = 20
# Older than what is compared with the provider, who knows nothing of copies.
CLOSED_DAYS: Final = 60
FIRST_NAMES: Final = (
    "Ilse",
    "Omar",
    "Jun",
    "Amara",
    "Pilar",
    "Noor",
    "Tomasz",
    "Leila",
    "Sven",
    "Chidi",
    "Mei",
    "Aurelio",
)
LAST_NAMES: Final = (
    "Brandt",
    "Haddad",
    "Sato",
    "Okafor",
    "Vega",
    "Rahimi",
    "Nowak",
    "Lind",
    "Costa",
    "Weiss",
    "Iyer",
    "Moreau",
    "Ferro",
)
# How a table's rows are found from the pattern, parents first.
TABLES: Final = {
    "customers": "customer_id = %(customer)s", "orders": "order_id = %(order)s", "order_lines": "order_id = %(order)s",
    "captures": "order_id = %(order)s", "order_deliveries": "order_id = %(order)s",
    "cases": "case_id = %(case)s", "case_items": "case_id = %(case)s", "conversations": "case_id = %(case)s",
    "evidence": "case_id = %(case)s", "parcels": "case_id = %(case)s", "entitlements": "case_id = %(case)s",
    "intents": "case_id = %(case)s",
    **dict.fromkeys(
        ("approvals", "transfers", "line_claims", "cap_entries", "outbox", "attempts", "attempt_results"),
        "intent_id IN (SELECT intent_id FROM intents WHERE case_id = %(case)s)",
    ),
    "events": "case_id = %(case)s",
}  # fmt: skip
# Bound by a digest beside them, or read by nobody: they stay as they are.
BOUND: Final = {
    ("orders", "facts"), ("orders", "allocation"), ("entitlements", "record"), ("entitlements", "evidence"),
    ("entitlements", "priors"), ("outbox", "request"),
}  # fmt: skip
# Unique in the shop or at the provider: each copy has its number behind it, wherever the text stands.
NAMED: Final = (
    ("orders", "external_ref"), ("customers", "external_ref"), ("captures", "payment_intent_ref"), ("captures", "charge_ref"),
    ("intents", "provider_key"), ("intents", "provider_refund_ref"), ("approvals", "operation_key"),
)  # fmt: skip
_PATTERNS: Final = """
    SELECT c.case_id, c.order_id, c.customer_id, c.closed_at IS NULL AS open, coalesce(c.closed_at, c.opened_at) AS at FROM cases c
    WHERE c.merchant_id = %(m)s AND c.kind = 'return' AND c.stage IN ('paid', 'rejected', 'ready', 'waiting_goods')
        AND c.customer_id IS NOT NULL
        AND (SELECT count(*) FROM cases o WHERE o.order_id = c.order_id) = 1
        AND NOT EXISTS (SELECT FROM intents i WHERE i.case_id = c.case_id
            AND (i.state NOT IN ('succeeded', 'proposed', 'withdrawn') OR i.act <> 'refund'))
        AND NOT EXISTS (SELECT FROM external_refunds e JOIN captures k ON k.charge_ref = e.charge_ref WHERE k.order_id = c.order_id)
        AND NOT EXISTS (SELECT FROM disputes d JOIN captures k ON k.charge_ref = d.charge_ref WHERE k.order_id = c.order_id)
        AND NOT EXISTS (SELECT FROM case_asks a WHERE a.case_id = c.case_id)
        AND NOT EXISTS (SELECT FROM overrides v WHERE v.case_id = c.case_id)
    ORDER BY c.number LIMIT 40
"""
_DAY: Final = re.compile(r"(\d{4}-\d\d-\d\d)")


# Where the values of a copy stand: four of its own, then the numbers of its refunds, its days, ids and hashes.
CASE_NUMBER, NAME, MAIL, SUFFIX, _INTENTS_AT = range(5)
_MOST_INTENTS: Final = 4
_DAYS_AT: Final = _INTENTS_AT + _MOST_INTENTS
_MOST_DAYS: Final = 40
_IDS_AT: Final = _DAYS_AT + _MOST_DAYS
_MOST_IDS: Final = 200
_HASHES_AT: Final = _IDS_AT + _MOST_IDS
_MOST_EVENTS: Final = 40
_VALUES: Final = _HASHES_AT + _MOST_EVENTS


@dataclass
class Pattern:
    """What a copy is made of: texts with places for its values. `rows` by table; `events` are hashed in their order."""

    open: bool
    anchor: date
    days: list[date]
    ids: list[str]
    names: int
    rows: dict[str, list["Text"]] = field(default_factory=lambda: defaultdict(list))
    events: list["Text"] = field(default_factory=list)
    caps: list[tuple[str, int, int]] = field(default_factory=list)
    intents: int = 0


class Text:
    """A text with places: "".join of literals and values, without looking for anything."""

    def __init__(self, pieces: Sequence[str | int]) -> None:
        self._literals = [piece for piece in pieces if isinstance(piece, str)]
        self.size = sum(map(len, self._literals))
        seen = iter(range(len(self._literals)))
        places = [_VALUES + next(seen) if isinstance(piece, str) else piece for piece in pieces]
        # Of one place it would give no tuple.
        self._get: Callable[[list[str]], tuple[str, ...]] = itemgetter(*places, places[0])

    def fill(self, values: list[str]) -> str:
        """The text with the places filled."""
        return "".join(self._get(values + self._literals)[:-1])


def add_cases(url: str, merchant_id: UUID, count: int, say: Callable[[str], None]) -> int:
    """Adds `count` cases to a merchant of the demo and returns how many there are then. `url`: the database, as its administrator.

    Raises ValueError when the demo has no case to copy.
    """
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET session_replication_role = replica; SET TimeZone = 'UTC'; SET synchronous_commit = off")
        first, first_intent = _numbers(db, "case_number", count), _numbers(db, "intent_number", count * 2)
        patterns = [_pattern(db, merchant_id, row) for row in _found(db, merchant_id)]
        closed, open_ = (
            sorted((one for one in patterns if one.open is kind), key=_size)[:LEANEST] for kind in (False, True)
        )
        if not closed or not open_:
            raise ValueError("The demo has no open and no closed return to copy: start `make demo` once, then stop it.")
        columns = {table: _columns(db, table) for table in TABLES}
        caps: Counter[tuple[str, str]] = Counter()
        made = _Copies(first, first_intent, datetime.now(UTC).date())
        for start in range(0, count, CHUNK):
            chunk: dict[str, list[str]] = {table: [] for table in TABLES}
            for number in range(start, min(start + CHUNK, count)):
                of = open_ if number % 100 < OPEN_OF_HUNDRED else closed
                made.copy(of[(number // 7) % len(of)], number, chunk, caps)
            with db.transaction(), db.cursor() as cursor:
                for table, lines in chunk.items():
                    if lines:
                        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(
                            sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns[table]))
                        )) as copy:  # fmt: skip
                            copy.write("\n".join(lines) + "\n")
            if start // CHUNK % 10 == 9:
                say(f"{start + CHUNK:,} of {count:,} cases")
        _count_caps(db, merchant_id, caps)
        say("Counting what there is, for the planner")
        for table in (*TABLES, "cap_days"):
            db.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))
        found = db.execute("SELECT count(*) FROM cases WHERE merchant_id = %s", [merchant_id]).fetchone()
        return int(found[0]) if found else 0


def _size(pattern: Pattern) -> int:
    return sum(text.size for texts in pattern.rows.values() for text in texts)


def _numbers(db: psycopg.Connection, sequence: str, count: int) -> int:
    """The first of `count` numbers of a sequence, which goes on behind them."""
    row = db.execute(
        "SELECT setval(%(name)s, nextval(%(name)s) + %(n)s) - %(n)s", {"name": sequence, "n": count}
    ).fetchone()
    return int(row[0]) if row else 0


def _found(db: psycopg.Connection, merchant_id: UUID) -> list[dict[str, Any]]:
    with db.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_PATTERNS, {"m": merchant_id}).fetchall()


def _columns(db: psycopg.Connection, table: str) -> list[str]:
    found = db.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s"
        " AND is_generated = 'NEVER' ORDER BY ordinal_position", [table],
    ).fetchall()  # fmt: skip
    return [row[0] for row in found]


def _pattern(db: psycopg.Connection, merchant_id: UUID, row: dict[str, Any]) -> Pattern:
    keys = {"case": row["case_id"], "order": row["order_id"], "customer": row["customer_id"]}
    read = {table: _read(db, merchant_id, table, where, keys) for table, where in TABLES.items()}
    read["entitlements"] = _kept(read["entitlements"], read["intents"])
    read["events"].sort(key=itemgetter("number"))
    ids = sorted(_ids(read))
    names = sorted(
        {str(one[column]) for table, column in NAMED for one in read[table] if one[column]}, key=len, reverse=True
    )
    anchor = row["at"].astimezone(UTC).date()
    made = Pattern(row["open"], anchor, [], ids, len(names), intents=len(read["intents"]))
    made.caps = [(one["currency"], (one["business_day"] - anchor).days, one["amount_minor"]) for one in read["cap_entries"]
                 if one["step"] == "reserve"]  # fmt: skip
    made.caps += [(one["currency"], (one["business_day"] - anchor).days, -one["amount_minor"]) for one in read["cap_entries"]
                  if one["step"] != "reserve"]  # fmt: skip
    marks = _Marks(ids, names, made.days)
    hashes = {bytes(event["hash"]).hex(): number for number, event in enumerate(read["events"])}
    for table, found in read.items():
        columns = _columns(db, table)
        for one in found:
            made.rows[table].append(Text(marks.line(table, columns, one, hashes, read["intents"])))
    made.events = [
        Text(marks.text(canonical_bytes(event_content(event)).decode(), dated=True)) for event in read["events"]
    ]
    return made


def _kept(entitlements: list[dict[str, Any]], intents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last one, and those that refunds stand on."""
    used = {one["entitlement_id"] for one in intents}
    last = max((one["n"] for one in entitlements), default=0)
    return [one for one in entitlements if one["n"] == last or one["entitlement_id"] in used]


def _ids(read: dict[str, list[dict[str, Any]]]) -> set[str]:
    """Every id that is of this pattern alone: the keys of its rows."""
    of = {
        "customers": "customer_id", "orders": "order_id", "order_lines": "line_id", "captures": "capture_id", "cases": "case_id",
        "case_items": "item_id", "conversations": "conversation_id", "evidence": "evidence_id", "parcels": "parcel_id",
        "entitlements": "entitlement_id", "intents": "intent_id", "approvals": "approval_id", "transfers": "transfer_id",
        "line_claims": "claim_id", "events": "event_id",
    }  # fmt: skip
    return {str(one[key]) for table, key in of.items() for one in read[table]}


def _read(
    db: psycopg.Connection, merchant_id: UUID, table: str, where: str, keys: dict[str, UUID]
) -> list[dict[str, Any]]:
    """Rows of a pattern, each with its line of COPY as `line`."""
    which = where
    for name, key in keys.items():
        which = which.replace(f"%({name})s", f"'{key}'")
    columns = sql.SQL(", ").join(map(sql.Identifier, _columns(db, table)))
    ask = sql.SQL("SELECT {columns} FROM {table} WHERE merchant_id = {m} AND {which} ORDER BY ctid").format(
        columns=columns, table=sql.Identifier(table), m=sql.Literal(merchant_id), which=sql.SQL(which)
    )
    with db.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(ask).fetchall()
    with db.cursor() as plain, plain.copy(sql.SQL("COPY ({}) TO STDOUT").format(ask)) as copied:
        lines = b"".join(copied).decode().splitlines()
    return [row | {"line": line} for row, line in zip(found, lines, strict=True)]


class _Marks:
    """Finds what differs between copies in a text, and puts a place there."""

    def __init__(self, ids: list[str], names: list[str], days: list[date]) -> None:
        self._ids = {one: number for number, one in enumerate(ids)}
        self._days, self._names = days, names
        either = [re.escape(one) for one in (*ids, *names)]
        self._known = re.compile("|".join(either))

    def day(self, text: str) -> int:
        day = date.fromisoformat(text)
        if day not in self._days:
            self._days.append(day)
        return _DAYS_AT + self._days.index(day)

    def text(self, text: str, *, dated: bool) -> list[str | int]:
        """The pieces of a text."""
        pieces: list[str | int] = []
        at = 0
        for found in self._known.finditer(text):
            pieces += self._dated(text[at : found.start()], dated)
            if found[0] in self._ids:
                pieces.append(_IDS_AT + self._ids[found[0]])
            else:
                pieces += [found[0], SUFFIX]
            at = found.end()
        return pieces + self._dated(text[at:], dated)

    def _dated(self, text: str, dated: bool) -> list[str | int]:
        if not dated:
            return [text]
        return [self.day(piece) if _DAY.fullmatch(piece) else piece for piece in _DAY.split(text) if piece]

    def line(
        self, table: str, columns: list[str], row: dict[str, Any], hashes: dict[str, int], intents: list[dict[str, Any]]
    ) -> list[str | int]:
        """The pieces of one line of COPY."""
        pieces: list[str | int] = []
        texts = dict(zip(columns, row["line"].split("\t"), strict=True))
        for number, column in enumerate(columns):
            pieces.append("\t" if number else "")
            value = row[column]
            if (table, column) in BOUND:
                pieces.append(texts[column])
            elif column in ("hash", "previous_hash", "head_hash") and value is not None:
                pieces += ["\\\\x", _HASHES_AT + hashes[bytes(value).hex()]]
            elif (table, column) == ("cases", "number"):
                pieces.append(CASE_NUMBER)
            elif (table, column) == ("intents", "number"):
                pieces.append(_INTENTS_AT + [one["intent_id"] for one in intents].index(row["intent_id"]))
            elif (table, column) == ("customers", "name"):
                pieces.append(NAME)
            elif (table, column) == ("customers", "email"):
                pieces.append(MAIL)
            else:
                dated = isinstance(value, datetime | date) or (table, column) == ("events", "body")
                pieces += self.text(texts[column], dated=dated)
        return pieces


class _Copies:
    """Makes copies; each is a list of values that the texts of its pattern are filled with."""

    def __init__(self, first: int, first_intent: int, today: date) -> None:
        self._first, self._intent, self._today = first, first_intent, today
        self._dates = {today - timedelta(days=n): (today - timedelta(days=n)).isoformat() for n in range(-800, 4000)}
        self._middles = [f"-7{n:03x}-8000-" for n in range(_MOST_IDS)]

    def copy(self, of: Pattern, number: int, chunk: dict[str, list[str]], caps: Counter[tuple[str, str]]) -> None:
        back = number * 7919 % (OPEN_DAYS if of.open else DAYS_BACK) + (0 if of.open else CLOSED_DAYS)
        delta = (self._today - timedelta(days=back)) - of.anchor
        at = int(datetime.combine(of.anchor + delta, datetime.min.time(), UTC).timestamp() * 1000)
        stamp, tail = f"{at:012x}", f"{number + self._first:012x}"
        start = f"{stamp[:8]}-{stamp[8:]}"
        intents = [str(self._intent + n) for n in range(of.intents)]
        self._intent += of.intents
        days = [self._dates[day + delta] for day in of.days]
        values = [
            str(self._first + number), f"{FIRST_NAMES[number % 12]} {LAST_NAMES[number // 12 % 11]}",
            f"customer-{number}@example.org", f"-{self._first + number}",
            *intents, *[""] * (_MOST_INTENTS - of.intents), *days, *[""] * (_MOST_DAYS - len(days)),
            *[f"{start}{self._middles[n]}{tail}" for n in range(len(of.ids))], *[""] * (_MOST_IDS - len(of.ids)),
            *[""] * _MOST_EVENTS,
        ]  # fmt: skip
        previous = bytes(32)
        for place, event in enumerate(of.events, _HASHES_AT):
            previous = sha256(TAG + previous + event.fill(values).encode()).digest()
            values[place] = previous.hex()
        for table, lines in of.rows.items():
            chunk[table] += [line.fill(values) for line in lines]
        for currency, day, minor in of.caps:
            caps[currency, self._dates[of.anchor + delta + timedelta(days=day)]] += minor


def _count_caps(db: psycopg.Connection, merchant_id: UUID, caps: Counter[tuple[str, str]]) -> None:
    """A day's cap counts what was approved on it, and was as high as it had to be."""
    for (currency, day), minor in caps.items():
        db.execute(
            "INSERT INTO cap_days AS d (merchant_id, currency, business_day, limit_minor, used_minor) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (merchant_id, currency, business_day) DO UPDATE SET used_minor = d.used_minor + excluded.used_minor,"
            " limit_minor = greatest(d.limit_minor, d.used_minor + excluded.used_minor)",
            [merchant_id, currency, day, minor, minor],
        )  # fmt: skip
