"""One case: what was claimed, what was seen, what is owed and why, which refunds there are, and what happened.

Each function is one statement; the case page calls them in one read-only transaction.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows
from ledger.errors import NotFound
from ledger.teamwork import ADVICE

# What an entitlement `e` was decided under: its version, or several by category, the largest part's first.
POLICIES: Final = """coalesce((SELECT string_agg(part->>'policy', ', ' ORDER BY n) FROM jsonb_array_elements(e.record->'policies')
            WITH ORDINALITY parts (part, n)), e.policy_id || '@' || e.policy_version)"""

MOST_EVENTS: Final = 60
MOST_NOTES: Final = 50
MOST_EARLIER: Final = 20


@dataclass(frozen=True)
class CaseHead:
    """The case with its order and customer. `paid_minor`: what the order was charged, in minor units of `currency`.

    `entitlements` is how many there are; `other_open` how many other open cases the customer has. `at` is now.
    """

    case_id: UUID
    number: int
    kind: str
    order_id: UUID
    order_ref: str
    placed_at: datetime
    paid_minor: int
    currency: str
    blocked: bool
    discrepancies: list[str]
    customer_id: UUID | None
    customer: str
    reason: str
    stage: str
    separate: bool
    channel: str
    opened_by: str
    opened_by_name: str
    opened_at: datetime
    due_at: datetime
    closed_at: datetime | None
    announced: int
    received: int
    signals: int
    entitlements: int
    other_open: int
    head_number: int
    at: datetime


_HEAD: Final = """
    SELECT c.case_id, c.number, c.kind, c.order_id, o.external_ref AS order_ref, o.placed_at, o.total_minor AS paid_minor,
        c.currency, o.blocked, o.discrepancies, c.customer_id, coalesce(cu.name, '') AS customer,
        c.reason, c.stage, c.separate, c.channel,
        c.opened_by, coalesce(s.name, t.name, c.opened_by) AS opened_by_name, c.opened_at, c.due_at, c.closed_at, c.announced,
        c.received, c.signals, c.head_number, now() AS at,
        (SELECT count(*) FROM entitlements e WHERE e.merchant_id = c.merchant_id AND e.case_id = c.case_id)::int AS entitlements,
        (SELECT count(*) FROM cases c2 WHERE c2.merchant_id = c.merchant_id AND c2.customer_id = c.customer_id
            AND c2.case_id <> c.case_id AND c2.closed_at IS NULL)::int AS other_open
    FROM cases c
    JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    LEFT JOIN staff s ON c.opened_by = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = c.merchant_id AND c.opened_by = 'token:' || t.token_id
    WHERE c.merchant_id = :m AND c.case_id = :c
"""


def read_head(db: Connection, merchant_id: UUID, case_id: UUID) -> CaseHead:
    """The case itself. Raises NotFound for an absent one and for another merchant's alike."""
    row = first(db, _HEAD, m=merchant_id, c=case_id)
    if row is None:
        raise NotFound
    return CaseHead(**row)


@dataclass(frozen=True)
class ClaimedLine:
    """What the case holds of one order line. `units` are its live half-open ranges; after a rejection there are none."""

    line_id: UUID
    line_ref: str
    position: int
    title: str
    sku: str
    quantity: int
    units: list[list[int]]
    announced: int
    received: int
    inspected: int


_LINES: Final = """
    SELECT l.line_id, l.line_ref, l.position, l.title, l.sku, l.quantity,
        (SELECT coalesce(array_agg(ARRAY[lower(i.units), upper(i.units)] ORDER BY lower(i.units)), '{}') FROM case_items i
            WHERE i.merchant_id = l.merchant_id AND i.case_id = :c AND i.line_id = l.line_id AND i.live) AS units,
        coalesce(sum(e.count) FILTER (WHERE e.kind = 'announced'), 0)::int AS announced,
        coalesce(sum(e.count) FILTER (WHERE e.kind = 'received'), 0)::int AS received,
        coalesce(sum(upper(e.units) - lower(e.units)) FILTER (WHERE e.kind = 'inspected'), 0)::int AS inspected
    FROM (SELECT DISTINCT merchant_id, line_id FROM case_items WHERE merchant_id = :m AND case_id = :c) held
    JOIN order_lines l ON l.merchant_id = held.merchant_id AND l.line_id = held.line_id
    LEFT JOIN evidence e ON e.merchant_id = l.merchant_id AND e.case_id = :c AND e.line_id = l.line_id
    GROUP BY l.merchant_id, l.line_id, l.line_ref, l.position, l.title, l.sku, l.quantity ORDER BY l.position
"""


def read_lines(db: Connection, merchant_id: UUID, case_id: UUID) -> list[ClaimedLine]:
    """The order lines the case is about, by position."""
    return [ClaimedLine(**row) for row in rows(db, _LINES, m=merchant_id, c=case_id)]


@dataclass(frozen=True)
class Conversation:
    """One thread that belongs to the case; `joined` when it came after the case was opened."""

    channel: str
    reference: str
    customer_text: str
    joined: bool
    at: datetime


_CONVERSATIONS: Final = """
    SELECT channel, reference, customer_text, joined, at FROM conversations WHERE merchant_id = :m AND case_id = :c
    ORDER BY at, conversation_id
"""


def read_conversations(db: Connection, merchant_id: UUID, case_id: UUID) -> list[Conversation]:
    """The conversations of the case, oldest first."""
    return [Conversation(**row) for row in rows(db, _CONVERSATIONS, m=merchant_id, c=case_id)]


@dataclass(frozen=True)
class Finding:
    """What a person found about units [a,b) of a line. `by` is who or what reported it."""

    number: int
    line_ref: str
    position: int
    a: int
    b: int
    grade: str
    note: str
    serial: str | None
    assessed_bps: int | None
    reason_found: str | None
    parcel: str
    channel: str
    by: str
    at: datetime


_FINDINGS: Final = """
    SELECT e.number, l.line_ref, l.position, lower(e.units) AS a, upper(e.units) AS b, e.grade, e.note, e.serial, e.assessed_bps,
        e.reason_found, e.parcel, e.channel,
        coalesce(s.name, t.name, e.actor) AS by, e.at
    FROM evidence e
    JOIN order_lines l ON l.merchant_id = e.merchant_id AND l.line_id = e.line_id
    LEFT JOIN staff s ON e.actor = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = e.merchant_id AND e.actor = 'token:' || t.token_id
    WHERE e.merchant_id = :m AND e.case_id = :c AND e.kind = 'inspected' ORDER BY l.position, lower(e.units), e.number
"""


def read_findings(db: Connection, merchant_id: UUID, case_id: UUID) -> list[Finding]:
    """Inspections by line and unit."""
    return [Finding(**row) for row in rows(db, _FINDINGS, m=merchant_id, c=case_id)]


@dataclass(frozen=True)
class SentParcel:
    """That a parcel is on its way back, and whether the carrier says so itself."""

    tracking: str
    sent_at: datetime
    proof: str
    our_label: bool


_PARCELS: Final = """
    SELECT tracking, sent_at, proof, our_label FROM parcels WHERE merchant_id = :m AND case_id = :c ORDER BY sent_at, parcel_id
"""


def read_parcels(db: Connection, merchant_id: UUID, case_id: UUID) -> list[SentParcel]:
    """The parcels of the case that are known to be on their way, oldest first."""
    return [SentParcel(**row) for row in rows(db, _PARCELS, m=merchant_id, c=case_id)]


@dataclass(frozen=True)
class PhotoCard:
    """A photo without its bytes. `unit` counts from 0."""

    photo_id: UUID
    caption: str
    unit: int | None
    at: datetime
    erased: bool


_PHOTOS: Final = """
    SELECT photo_id, caption, unit, at, erased FROM photos WHERE merchant_id = :m AND case_id = :c ORDER BY at, photo_id
"""


def read_photos(db: Connection, merchant_id: UUID, case_id: UUID) -> list[PhotoCard]:
    """The photos of the case, oldest first."""
    return [PhotoCard(**row) for row in rows(db, _PHOTOS, m=merchant_id, c=case_id)]


@dataclass(frozen=True)
class Photo:
    """One photo with its bytes, as re-encoded when it came in, and the SHA-256 that was kept then."""

    content: bytes
    content_type: str
    sha256: bytes


def read_photo(db: Connection, merchant_id: UUID, photo_id: UUID) -> Photo:
    """Raises NotFound for an absent one, an erased one, and another merchant's alike."""
    row = first(
        db, "SELECT content, content_type, sha256 FROM photos WHERE merchant_id = :m AND photo_id = :p AND NOT erased",
        m=merchant_id, p=photo_id,
    )  # fmt: skip
    if row is None:
        raise NotFound
    return Photo(bytes(row["content"]), row["content_type"], bytes(row["sha256"]))


@dataclass(frozen=True)
class StoredEntitlement:
    """The latest entitlement: `record` is the document of ENTITLEMENT, figures in minor units of `currency`."""

    n: int
    policy: str
    outcome: str
    currency: str
    total_minor: int
    tax_minor: int
    payable_minor: int
    record: dict[str, Any]
    at: datetime


_ENTITLEMENT: Final = f"""
    SELECT n, {POLICIES} AS policy, outcome, currency, total_minor, tax_minor, payable_minor, record, at
    FROM entitlements e WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1
"""  # noqa: S608 - a constant


def read_entitlement(db: Connection, merchant_id: UUID, case_id: UUID) -> StoredEntitlement | None:
    """The newest of the case; the older ones stay stored beside it."""
    row = first(db, _ENTITLEMENT, m=merchant_id, c=case_id)
    return StoredEntitlement(**row) if row else None


@dataclass(frozen=True)
class CaseIntent:
    """A refund of this case, with the balances of the capture it draws on. Amounts in minor units of `currency`.

    `computed_minor`: what was computed, where another amount is asked for. `first_approver`: of two managers, the one who approved.
    """

    intent_id: UUID
    number: int
    act: str
    state: str
    state_reason: str
    state_at: datetime
    amount_minor: int
    currency: str
    destination_kind: str
    destination_brand: str
    destination_last4: str
    route: str
    requester: str
    requester_name: str
    policy: str
    created_at: datetime
    computed_minor: int | None
    first_approver: UUID | None
    first_approver_name: str | None
    sends_at: datetime | None
    captured_minor: int
    available_minor: int
    reserved_minor: int
    refunded_minor: int
    disputed_minor: int


_INTENTS: Final = f"""
    SELECT i.intent_id, i.number, i.act, i.state, i.state_reason, i.state_at, i.amount_minor, i.currency, i.destination_kind,
        i.destination_brand, i.destination_last4, i.route, i.requester, coalesce(s.name, t.name, i.requester) AS requester_name,
        {POLICIES} AS policy, i.created_at, i.computed_minor, f.staff_id AS first_approver, fs.name AS first_approver_name,
        CASE WHEN i.state = 'approved' AND o.due_at < 'infinity' THEN o.due_at END AS sends_at,
        cp.captured_minor, cp.available_minor, cp.reserved_minor, cp.refunded_minor, cp.disputed_minor
    FROM intents i
    JOIN entitlements e ON e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id
    JOIN captures cp ON cp.merchant_id = i.merchant_id AND cp.capture_id = i.capture_id
    LEFT JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    LEFT JOIN approvals f ON f.merchant_id = i.merchant_id AND f.intent_id = i.intent_id AND f.seat = 1
        AND i.route = 'two_managers' AND i.state = 'proposed'
    LEFT JOIN staff fs ON fs.staff_id = f.staff_id
    LEFT JOIN staff s ON i.requester = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = i.merchant_id AND i.requester = 'token:' || t.token_id
    WHERE i.merchant_id = :m AND i.case_id = :c ORDER BY i.number DESC
"""  # noqa: S608 - a constant


def read_intents(db: Connection, merchant_id: UUID, case_id: UUID) -> list[CaseIntent]:
    """Every intent of the case, newest first."""
    return [CaseIntent(**row) for row in rows(db, _INTENTS, m=merchant_id, c=case_id)]


@dataclass(frozen=True)
class EarlierRefund:
    """A refund of another case, of this order or of this customer in the 30 days before this case. `units` by line ref."""

    intent_id: UUID
    number: int
    case_number: int
    amount_minor: int
    currency: str
    state: str
    state_at: datetime
    channel: str
    units: list[dict[str, Any]]
    same_order: bool


_EARLIER: Final = """
    SELECT i.intent_id, i.number, c.number AS case_number, i.amount_minor, i.currency, i.state, i.state_at, c.channel, i.units,
        c.order_id = :o AS same_order
    FROM cases c JOIN intents i ON i.merchant_id = c.merchant_id AND i.case_id = c.case_id
    WHERE c.merchant_id = :m AND c.case_id <> :c AND (c.order_id = :o OR c.customer_id = :customer)
        AND i.state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded', 'reversed')
        AND (c.order_id = :o OR i.state_at > CAST(:since AS timestamptz) - interval '30 days')
    ORDER BY i.state_at DESC, i.number DESC LIMIT :most
"""


def read_earlier(db: Connection, merchant_id: UUID, head: CaseHead) -> list[EarlierRefund]:
    """Refunds that left or may have left for the same order, or the same customer lately; newest first."""
    found = rows(
        db, _EARLIER, m=merchant_id, c=head.case_id, o=head.order_id, customer=head.customer_id, since=head.opened_at,
        most=MOST_EARLIER,
    )  # fmt: skip
    return [EarlierRefund(**row) for row in found]


@dataclass(frozen=True)
class Event:
    """One link of the case's chain. `by` is a name, "" for what the system did by itself; `about` whose the case became."""

    number: int
    kind: str
    by: str
    at: datetime
    intent_number: int | None
    to_state: str | None
    reason: str
    body: dict[str, Any]
    about: str = ""


# What an event `e` says, and the joins that it takes.
EVENT_SAYS: Final = """
    e.number, e.kind, CASE WHEN e.actor = 'system' THEN ''
        ELSE coalesce(s.name, t.name, policy_in_words(e.merchant_id, e.actor), e.actor) END AS by,
    e.at, i.number AS intent_number, e.to_state, e.reason, e.body, coalesce(w.name, '') AS about
"""
EVENT_NAMES: Final = """
    LEFT JOIN intents i ON i.merchant_id = e.merchant_id AND i.intent_id = e.intent_id
    LEFT JOIN staff s ON e.actor = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = e.merchant_id AND e.actor = 'token:' || t.token_id
    LEFT JOIN staff w ON e.kind = 'case.assigned' AND e.body->>'to' = w.staff_id::text
"""
_EVENTS: Final = f"""
    SELECT {EVENT_SAYS} FROM events e {EVENT_NAMES}
    WHERE e.merchant_id = :m AND e.case_id = :c AND e.number > :seen AND e.kind <> ALL(CAST(:but AS text[]))
    ORDER BY e.number DESC LIMIT :most
"""  # noqa: S608 - constants


def read_events(db: Connection, merchant_id: UUID, case_id: UUID, most: int = MOST_EVENTS) -> list[Event]:
    """The timeline, newest first."""
    return [Event(**row) for row in rows(db, _EVENTS, m=merchant_id, c=case_id, most=most, seen=0, but=[])]


def read_news(db: Connection, merchant_id: UUID, case_id: UUID, seen: int) -> Event | None:
    """The last event after number `seen` that changes what a person reads to decide; whose it is and when, does not."""
    found = rows(db, _EVENTS, m=merchant_id, c=case_id, most=1, seen=seen, but=list(ADVICE))
    return Event(**found[0]) if found else None


@dataclass(frozen=True)
class Note:
    """A person's own words about the case, and the names of those they speak to."""

    text: str
    by: str
    at: datetime
    to: list[str]


_NOTES: Final = """
    SELECT n.text, s.name AS by, n.at, ARRAY(SELECT w.name FROM mentions t JOIN staff w ON w.staff_id = t.staff_id
        WHERE t.merchant_id = n.merchant_id AND t.note_id = n.note_id ORDER BY w.name) AS to
    FROM notes n JOIN staff s ON s.staff_id = n.staff_id
    WHERE n.merchant_id = :m AND n.case_id = :c ORDER BY n.at DESC, n.note_id DESC LIMIT :most
"""


def read_notes(db: Connection, merchant_id: UUID, case_id: UUID) -> list[Note]:
    """The notes, newest first."""
    return [Note(**row) for row in rows(db, _NOTES, m=merchant_id, c=case_id, most=MOST_NOTES)]
