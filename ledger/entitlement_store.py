"""Entitlements as rows, each with the documents it was derived from, and read again page by page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Engine, RowMapping

from ledger.database import first, rows, run, transaction
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.entitlement import Entitlement
from ledger.entitlement_inputs import NO_TERMS, TAGS, Inputs
from ledger.events import LockedCase
from ledger.ids import first_id, uuid7
from ledger.policies import Policy

# One statement: a source that is there already, from another case, is not written again.
_STORE: Final = """
    WITH sources AS (
        INSERT INTO entitlement_sources (merchant_id, digest, tag, document)
        SELECT :m, s.digest, s.tag, s.document FROM (VALUES
            (CAST(:allocated AS bytea), CAST(:allocation_tag AS text), CAST(:allocation AS text)),
            (CAST(:agreed AS bytea), CAST(:terms_tag AS text), CAST(:terms AS text))) s (digest, tag, document)
        WHERE s.digest IS NOT NULL ON CONFLICT DO NOTHING)
    INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version, evidence_digest, outcome,
        currency, total_minor, tax_minor, payable_minor, record, digest, at, allocation_digest, terms_digest, evidence, priors)
    VALUES (:m, :id, :c, :n, :policy, :version, :seen, :outcome, :currency, :total, :tax, :payable, CAST(:record AS jsonb),
        :digest, :at, :allocated, :agreed, :evidence, :priors)
"""


def store_entitlement(
    db: Connection, case: LockedCase, policy: Policy, result: Entitlement, seen: bytes, n: int
) -> UUID:
    """Stores the `n`-th entitlement of a locked case with what it was derived from. `seen` is the evidence digest."""
    entitlement_id, inputs = uuid7(), result.inputs
    run(
        db, _STORE, m=case.merchant_id, id=entitlement_id, c=case.case_id, n=n, policy=policy.policy_id, version=policy.version,
        seen=seen, outcome=result.outcome, currency=case.currency, total=result.total_minor, tax=result.tax_minor,
        payable=result.payable_now_minor, record=result.canonical().decode(), digest=_bytes(result.digest), at=case.at,
        allocated=_bytes(inputs.digest("allocation")), allocation_tag=TAGS["allocation"], allocation=inputs.allocation,
        agreed=_bytes(inputs.digest("terms")), terms_tag=TAGS["terms"], terms=inputs.terms,
        evidence=inputs.evidence, priors=inputs.priors,
    )  # fmt: skip
    return entitlement_id


def _bytes(digest: str) -> bytes | None:
    return None if digest == NO_TERMS else bytes.fromhex(digest.removeprefix("sha256:"))


@dataclass(frozen=True)
class StoredRecord:
    """A record as its row holds it; `row` are the columns that say the same. `inputs` is None where none were stored yet."""

    entitlement_id: UUID
    case_number: int
    n: int
    at: datetime
    record: Mapping[str, Any]
    digest: str
    row: Mapping[str, Any]
    inputs: Inputs | None
    charges: str | None = None
    """Of a case about charges: the canonical text that it was found from."""


_COLUMNS: Final = """
    e.entitlement_id, c.number, e.n, e.at, e.record, e.digest, e.outcome, e.currency, e.total_minor, e.tax_minor,
    e.payable_minor, e.evidence, e.priors, a.document AS allocation, t.document AS terms
"""
_FROM: Final = """
    FROM entitlements e JOIN cases c ON c.merchant_id = e.merchant_id AND c.case_id = e.case_id
    LEFT JOIN entitlement_sources a ON a.merchant_id = e.merchant_id AND a.digest = e.allocation_digest
    LEFT JOIN entitlement_sources t ON t.merchant_id = e.merchant_id AND t.digest = e.terms_digest
"""
_ONE: Final = f"""
    SELECT {_COLUMNS} {_FROM} WHERE e.merchant_id = :m AND e.case_id = :c AND (CAST(:n AS integer) IS NULL OR e.n = :n)
    ORDER BY e.n DESC LIMIT 1
"""


def read_record(db: Connection, merchant_id: UUID, case_id: UUID, n: int | None = None) -> StoredRecord | None:
    """The newest entitlement of a case, or its `n`-th; None where there is none."""
    row = first(db, _ONE, m=merchant_id, c=case_id, n=n)
    return _stored(row) if row is not None else None


# A page is as many rows, or fewer when their documents are long: what is in memory does not depend on anybody's orders.
PAGE_ROWS: Final = 200
PAGE_BYTES: Final = 2_000_000
# Identifiers are of the application's clock, instants of the database's.
_ID_SLACK: Final = timedelta(days=1)
_PAGE: Final = f"""
    SELECT * FROM (
        SELECT p.*, sum(p.size) OVER (ORDER BY p.entitlement_id) - p.size AS before FROM (
            SELECT {_COLUMNS}, coalesce(octet_length(a.document), 0) + coalesce(octet_length(e.evidence), 0)
                + coalesce(octet_length(e.priors), 0) + pg_column_size(e.record) AS size {_FROM}
            WHERE e.merchant_id = :m AND e.entitlement_id > :after AND e.entitlement_id < :until
                AND e.at >= :from_at AND e.at < :to_at
            ORDER BY e.entitlement_id LIMIT :most) p) q
    WHERE q.before < :most_bytes ORDER BY q.entitlement_id
"""  # noqa: S608 - two constants


@dataclass(frozen=True)
class Period:
    """Instants [from_at, to_at) at which entitlements were derived."""

    from_at: datetime
    to_at: datetime


ALWAYS: Final = Period(datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))


def read_pages(engine: Engine, merchant_id: UUID, period: Period = ALWAYS) -> Iterator[list[StoredRecord]]:
    """Every entitlement of a merchant that was derived in a period, oldest first; each page in a transaction of its own."""
    after, until = first_id(period.from_at - _ID_SLACK), first_id(period.to_at + _ID_SLACK)
    while True:
        with transaction(engine, merchant_id, read_only=True) as db:
            found = rows(db, _PAGE, m=merchant_id, after=after, until=until, from_at=period.from_at, to_at=period.to_at,
                         most=PAGE_ROWS, most_bytes=PAGE_BYTES)  # fmt: skip
        if not found:
            return
        after = found[-1]["entitlement_id"]
        yield [_stored(row) for row in found]


_SPAN: Final = """
    SELECT (SELECT min(at) FROM (SELECT at FROM entitlements WHERE merchant_id = :m AND entitlement_id > :after
            ORDER BY entitlement_id LIMIT 1) first) AS from_at,
        (SELECT max(at) FROM (SELECT at FROM entitlements WHERE merchant_id = :m AND entitlement_id < :until
            ORDER BY entitlement_id DESC LIMIT 1) last) AS to_at
"""


def read_span(db: Connection, merchant_id: UUID, period: Period = ALWAYS) -> Period | None:
    """When the first and the last entitlement of a period were derived, found without counting them; None where there is none."""
    row = first(db, _SPAN, m=merchant_id, after=first_id(period.from_at), until=first_id(period.to_at))
    if row is None or row["from_at"] is None or row["to_at"] is None:
        return None
    return Period(row["from_at"], row["to_at"])


def _stored(row: RowMapping) -> StoredRecord:
    inputs = None
    about_charges = row["record"].get("kind") == DUPLICATE_CHARGE
    if row["evidence"] is not None and not about_charges:
        cited = str(bound_of(row["record"]).get("terms", ""))
        inputs = Inputs(row["allocation"] or "", row["evidence"], row["priors"], row["terms"], cited)
    figures = {name: row[name] for name in ("outcome", "currency", "total_minor", "tax_minor", "payable_minor")}
    return StoredRecord(
        row["entitlement_id"], row["number"], row["n"], row["at"], row["record"], f"sha256:{bytes(row['digest']).hex()}",
        figures, inputs, row["evidence"] if about_charges else None,
    )  # fmt: skip


def bound_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a stored record is bound to; nothing where somebody took that away."""
    bound = record.get("bound")
    return bound if isinstance(bound, dict) else {}
