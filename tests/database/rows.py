"""Rows written by plain statements, as somebody would who goes round every function of the ledger.

Each takes an open connection pinned to the merchant. What the database refuses, it refuses here too: that is the point.
"""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from ledger.canonical import digest
from ledger.database import first, rows, run, scalar
from ledger.ids import uuid7
from tests.orders import TEE, Order, sha256
from tests.world import Person, World

# How an intent gets into each state, each step a listed one.
PATHS: dict[str, tuple[str, ...]] = {
    "proposed": (),
    "approved": ("approved",),
    "held": ("approved", "held"),
    "withdrawn": ("withdrawn",),
    "submitting": ("approved", "submitting"),
    "unknown": ("approved", "submitting", "unknown"),
    "pending": ("approved", "submitting", "pending"),
    "needs_review": ("approved", "submitting", "pending", "needs_review"),
    "succeeded": ("approved", "submitting", "succeeded"),
    "failed": ("approved", "submitting", "failed"),
    "reversed": ("approved", "submitting", "succeeded", "reversed"),
}
BALANCES = {
    "reserve": ("available", "reserved"), "release": ("reserved", "available"), "settle": ("reserved", "refunded"),
    "reverse": ("refunded", "available"), "external": ("available", "refunded"),
    "external_reverse": ("refunded", "available"), "dispute": ("available", "disputed"),
    "dispute_won": ("disputed", "available"),
}  # fmt: skip


@dataclass(frozen=True)
class Intent:
    """An intent with what its other rows need to name. Amounts in minor units."""

    merchant_id: UUID
    intent_id: UUID
    case_id: UUID
    capture_id: UUID
    amount_minor: int
    currency: str
    requester: str
    case_opener: str


def open_case(db: Connection, world: World, order: Order | None = None, opened_by: str | None = None) -> UUID:
    """A case without units."""
    order, case_id = order or world.order, uuid7()
    run(
        db, "INSERT INTO cases (merchant_id, case_id, order_id, customer_id, reason, opened_by, channel, due_at,"
        " currency) VALUES (:m, :c, :o, :customer, 'size', :by, 'chat', now() + interval '14 days', :currency)",
        m=world.merchant_id, c=case_id, o=order.order_id, customer=order.customer_id,
        by=opened_by or world.chat.actor, currency=order.currency,
    )  # fmt: skip
    return case_id


def hold_units(
    db: Connection, world: World, case_id: UUID, units: str, line: str = TEE, order: Order | None = None
) -> UUID:
    """The case takes `units` ("[0,2)") of a line."""
    order, item_id = order or world.order, uuid7()
    run(
        db, "INSERT INTO case_items (merchant_id, item_id, case_id, order_id, line_id, line_quantity, units)"
        " VALUES (:m, :item, :c, :o, :line, :quantity, CAST(:units AS int4range))",
        m=world.merchant_id, item=item_id, c=case_id, o=order.order_id, line=order.lines[line],
        quantity=order.quantities[line], units=units,
    )  # fmt: skip
    return item_id


# What a record is bound to that was derived from empty documents.
BOUND = {
    "allocation": digest({}, "allocation@1"), "evidence": digest({}, "evidence@1"), "priors": digest({}, "priors@1"),
    "terms": "none",
}  # fmt: skip


def source(db: Connection, world: World) -> bytes:
    """An empty allocation to have derived from; its digest."""
    made = bytes.fromhex(BOUND["allocation"].removeprefix("sha256:"))
    run(db, "INSERT INTO entitlement_sources (merchant_id, digest, tag, document) VALUES (:m, :digest, 'allocation@1', '{}')"
        " ON CONFLICT DO NOTHING", m=world.merchant_id, digest=made)  # fmt: skip
    return made


def derive(db: Connection, world: World, case_id: UUID, payable_minor: int, currency: str = "GBP") -> UUID:
    """The next entitlement of a case, of one line that its one payment covers."""
    entitlement_id = uuid7()
    record = {
        "lines": [{"minor": payable_minor, "tax": {"minor": 0}}], "subtotals": {"goods": payable_minor}, "tax": 0,
        "claimed": {"TEE": payable_minor}, "total": payable_minor, "draws": [{"order_minor": payable_minor}],
        "bound": BOUND,
    }  # fmt: skip
    n = scalar(db, "SELECT count(*) + 1 FROM entitlements WHERE merchant_id = :m AND case_id = :c",
               m=world.merchant_id, c=case_id)  # fmt: skip
    run(
        db, "INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version,"
        " evidence_digest, outcome, currency, total_minor, tax_minor, payable_minor, record, digest, allocation_digest, evidence,"
        " priors) VALUES (:m, :e, :c, :n, :policy, 1, :evidence, 'payable', :currency, :minor, 0, :minor, CAST(:record AS jsonb),"
        " :digest, :allocation, '{}', '{}')",
        m=world.merchant_id, e=entitlement_id, c=case_id, n=n, policy=world.policy_id, evidence=sha256(b"evidence"),
        currency=currency, minor=payable_minor, record=json.dumps(record), digest=sha256(b"entitlement"),
        allocation=source(db, world),
    )  # fmt: skip
    return entitlement_id


def propose(
    db: Connection,
    world: World,
    case_id: UUID,
    amount_minor: int = 2490,
    *,
    requester: str | None = None,
    order: Order | None = None,
    capture_id: UUID | None = None,
    owed_minor: int = 0,
    **other: Any,
) -> Intent:
    """A proposed intent on the order's card, or another capture, with its entitlement of as much or of `owed_minor` in all.

    `other` replaces columns by name.
    """
    order = order or world.order
    opener = scalar(db, "SELECT opened_by FROM cases WHERE merchant_id = :m AND case_id = :c",
                    m=world.merchant_id, c=case_id)  # fmt: skip
    capture = first(db, "SELECT * FROM captures WHERE merchant_id = :m AND capture_id = :c",
                    m=world.merchant_id, c=capture_id or order.captures["card"])  # fmt: skip
    assert capture is not None
    copied = ("destination_kind", "destination_brand", "destination_last4", "provider_account_id", "payment_intent_ref",
              "charge_ref", "capture_id", "currency")  # fmt: skip
    values: dict[str, Any] = {
        "merchant_id": world.merchant_id, "intent_id": uuid7(), "case_id": case_id, "order_id": order.order_id,
        **{name: capture[name] for name in copied}, "amount_minor": amount_minor,
        "order_minor": amount_minor, "exponent": 2, "units": json.dumps([{"line": TEE, "from": 0, "to": 1}]),
        "entitlement_digest": sha256(b"entitlement"), "evidence_digest": sha256(b"evidence"),
        "policy_id": world.policy_id, "policy_version": 1, "requester": requester or world.priya.actor,
        "case_opener": opener, "route": "desk", "provider_key": f"onceback-refund-{uuid7().hex}", **other,
    }  # fmt: skip
    values.setdefault("entitlement_id", None)
    if values["entitlement_id"] is None:
        values["entitlement_id"] = derive(db, world, case_id, owed_minor or amount_minor, capture["currency"])
    names = ", ".join(values)
    places = ", ".join(f"CAST(:{name} AS jsonb)" if name == "units" else f":{name}" for name in values)
    run(db, f"INSERT INTO intents ({names}) VALUES ({places})", **values)  # noqa: S608 - names of this function
    return Intent(
        world.merchant_id, values["intent_id"], case_id, values["capture_id"], amount_minor, values["currency"],
        values["requester"], opener,
    )  # fmt: skip


def say(
    db: Connection,
    intent: Intent | None,
    from_state: str | None,
    to_state: str | None,
    *,
    case_id: UUID | None = None,
    merchant_id: UUID | None = None,
    actor: str = "system",
    **other: Any,
) -> None:
    """The next event of the intent's case. `other` replaces columns by name, as a liar would."""
    merchant_id = merchant_id or (intent.merchant_id if intent else None)
    case_id = case_id or (intent.case_id if intent else None)
    head = first(db, "SELECT head_number, head_hash FROM cases WHERE merchant_id = :m AND case_id = :c",
                 m=merchant_id, c=case_id)  # fmt: skip
    number, previous = (head["head_number"], head["head_hash"]) if head else (0, None)
    values = {
        "merchant_id": merchant_id, "case_id": case_id, "number": number + 1, "event_id": uuid7(), "kind": "test.said",
        "actor": actor, "at": datetime.now(UTC), "intent_id": intent.intent_id if intent else None,
        "from_state": from_state, "to_state": to_state, "reason": "", "case_stage": None, "body": json.dumps({}),
        "previous_number": number or None, "previous_hash": previous, "hash": sha256(f"{case_id}:{number}".encode()),
        **other,
    }  # fmt: skip
    names = ", ".join(values)
    places = ", ".join(f"CAST(:{name} AS jsonb)" if name == "body" else f":{name}" for name in values)
    run(db, f"INSERT INTO events ({names}) VALUES ({places})", **values)  # noqa: S608 - names of this function


def settle(db: Connection, intent: Intent, outcome: str) -> UUID:
    """A manager proposes, and finance confirms, that an intent under review ended so; on a list that supports it."""
    keys: dict[str, Any] = {
        "m": intent.merchant_id,
        "i": intent.intent_id,
        "l": uuid7(),
        "s": uuid7(),
        "digest": sha256(b"settled"),
    }
    people = {
        row["role"]: row["staff_id"]
        for row in rows(
            db, "SELECT role, staff_id FROM memberships ms WHERE merchant_id = :m AND role IN ('manager', 'finance') AND NOT EXISTS"
            " (SELECT 1 FROM approvals a WHERE a.merchant_id = :m AND a.intent_id = :i AND a.staff_id = ms.staff_id)",
            m=intent.merchant_id, i=intent.intent_id,
        )
    }  # fmt: skip
    run(
        db, "INSERT INTO provider_lists (merchant_id, list_id, intent_id, asked_at, refunds, digest)"
        " VALUES (:m, :l, :i, now(), 1, :digest)", m=keys["m"], l=keys["l"], i=keys["i"], digest=keys["digest"],
    )  # fmt: skip
    run(
        db, "INSERT INTO listed_refunds (merchant_id, list_id, refund_ref, status, amount_minor, currency, charge_ref, marked)"
        " SELECT merchant_id, :l, :ref, :status, amount_minor, currency, charge_ref, intent_id::text FROM intents"
        " WHERE merchant_id = :m AND intent_id = :i", m=keys["m"], i=keys["i"], l=keys["l"], ref=f"re_{intent.intent_id.hex}",
        status=outcome,
    )  # fmt: skip
    run(
        db, "INSERT INTO settlements (merchant_id, settlement_id, intent_id, n, list_id, outcome, refund_ref, note, proposed_by,"
        " proposed_role, digest) VALUES (:m, :s, :i, 1, :l, :outcome, :ref, 'compared', :who, 'manager', :digest)",
        outcome=outcome, ref=f"re_{intent.intent_id.hex}", who=people["manager"], **keys,
    )  # fmt: skip
    run(
        db, "INSERT INTO settlement_decisions (merchant_id, settlement_id, digest, proposed_by, proposed_role, decided_by,"
        " decided_role, confirmed) VALUES (:m, :s, :digest, :by, 'manager', :who, 'finance', true)",
        m=keys["m"], s=keys["s"], digest=keys["digest"], by=people["manager"], who=people["finance"],
    )  # fmt: skip
    settlement_id: UUID = keys["s"]
    return settlement_id


def sign(db: Connection, intent: Intent, person: Person, seat: int = 1, **other: Any) -> None:
    """A person's approval of the intent."""
    now = datetime.now(UTC)
    values = {
        "merchant_id": intent.merchant_id, "approval_id": uuid7(), "intent_id": intent.intent_id, "seat": seat,
        "approver": person.actor, "staff_id": person.staff_id, "requester": intent.requester,
        "case_opener": intent.case_opener, "fingerprint": sha256(b"seen"), "strength": "session",
        "operation_key": uuid7().hex, "approved_at": now, "expires_at": now + timedelta(hours=24),
        "seal_key_id": "test", "seal": bytes(64), **other,
    }  # fmt: skip
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    run(db, f"INSERT INTO approvals ({names}) VALUES ({places})", **values)  # noqa: S608 - names of this function


def move(db: Connection, intent: Intent, step: str, amount_minor: int | None = None, **other: Any) -> None:
    """A transfer of the intent's capture: one step, the whole amount unless another is given."""
    from_balance, to_balance = BALANCES[step]
    values = {
        "merchant_id": intent.merchant_id, "transfer_id": uuid7(), "capture_id": intent.capture_id,
        "currency": intent.currency, "intent_id": intent.intent_id, "source_ref": None, "step": step,
        "from_balance": from_balance, "to_balance": to_balance, "amount_minor": amount_minor or intent.amount_minor,
        **other,
    }  # fmt: skip
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    run(db, f"INSERT INTO transfers ({names}) VALUES ({places})", **values)  # noqa: S608 - names of this function


# What is found at the provider, by the step that moves its money: table, name of its id, its states, and the last one.
FOUND = {
    "external": ("external_refunds", "refund_ref", "external_refund_states", "kind", "outside", "succeeded", "failed"),
    "dispute": ("disputes", "dispute_ref", "dispute_states", "reason", "fraudulent", "needs_response", "won"),
}


def found(db: Connection, intent: Intent, ref: str, amount_minor: int, step: str = "external", **other: Any) -> None:
    """A refund made outside, or a dispute, of the intent's charge as it stands at the provider."""
    table, name, _, own, word, status, _ = FOUND[step]
    run(
        db, f"INSERT INTO {table} (merchant_id, {name}, provider_account_id, charge_ref, payment_intent_ref, amount_minor,"  # noqa: S608
        f" currency, created_at, {own}, found_by) SELECT merchant_id, :ref, provider_account_id, charge_ref,"
        " payment_intent_ref, :minor, currency, now(), :word, 'poll' FROM captures WHERE merchant_id = :m AND capture_id = :c",
        m=intent.merchant_id, c=intent.capture_id, ref=ref, minor=amount_minor, word=other.get(own, word),
    )  # fmt: skip
    stands(db, intent, ref, other.get("status", status), step)


def stands(db: Connection, intent: Intent, ref: str, status: str, step: str = "external") -> None:
    """The next state of what was found."""
    _, name, states, *_ = FOUND[step]
    run(
        db, f"INSERT INTO {states} (merchant_id, {name}, n, status, seen_by) SELECT :m, :ref, count(*) + 1, :status, 'poll'"  # noqa: S608
        f" FROM {states} WHERE merchant_id = :m AND {name} = :ref", m=intent.merchant_id, ref=ref, status=status,
    )  # fmt: skip


def today(db: Connection, merchant_id: UUID) -> date:
    """The merchant's business day by the clock of the database."""
    day = scalar(db, "SELECT (now() AT TIME ZONE zone)::date FROM merchants WHERE id = :m", m=merchant_id)
    assert isinstance(day, date)
    return day


def count(db: Connection, intent: Intent, step: str = "reserve", minor: int | None = None, later_days: int = 0) -> int:
    """A cap entry of the intent; the number of rows inserted, which is 0 when the cap has no room."""
    day = today(db, intent.merchant_id) + timedelta(days=later_days)
    amount = minor if minor is not None else intent.amount_minor * (1 if step == "reserve" else -1)
    return run(
        db, "INSERT INTO cap_entries (merchant_id, intent_id, step, currency, business_day, amount_minor)"
        " VALUES (:m, :i, :step, :currency, :day, :minor)",
        m=intent.merchant_id, i=intent.intent_id, step=step, currency=intent.currency, day=day, minor=amount,
    )  # fmt: skip


def claim(db: Connection, intent: Intent, line_id: UUID, minor: int) -> None:
    """Takes `minor` of an order line for the intent; a negative amount gives it back."""
    run(
        db, "INSERT INTO line_claims (merchant_id, claim_id, intent_id, line_id, step, amount_minor)"
        " VALUES (:m, :claim, :i, :line, :step, :minor)",
        m=intent.merchant_id, claim=uuid7(), i=intent.intent_id, line=line_id,
        step="claim" if minor > 0 else "release", minor=minor,
    )  # fmt: skip


def carry(db: Connection, intent: Intent) -> None:
    """Claims the intent's amount of the lines of its order, the first that have room first."""
    need = intent.amount_minor
    lines = rows(
        db, "SELECT line_id, gross_minor - claimed_minor AS room FROM order_lines l JOIN intents i USING (merchant_id, order_id)"
        " WHERE i.merchant_id = :m AND i.intent_id = :i ORDER BY position", m=intent.merchant_id, i=intent.intent_id,
    )  # fmt: skip
    for line in lines:
        if part := min(need, line["room"]):
            claim(db, intent, line["line_id"], part)
            need -= part
    if need:
        claim(db, intent, lines[0]["line_id"], need)


def give_back(db: Connection, intent: Intent) -> None:
    """Releases what the intent claimed of the lines."""
    for row in rows(db, "SELECT line_id, amount_minor FROM line_claims WHERE merchant_id = :m AND intent_id = :i",
                    m=intent.merchant_id, i=intent.intent_id):  # fmt: skip
        claim(db, intent, row["line_id"], -row["amount_minor"])


def freeze(db: Connection, intent: Intent) -> None:
    """The outbox row of an approved intent."""
    run(
        db, "INSERT INTO outbox (merchant_id, intent_id, request, request_digest, approved_at, due_at)"
        " VALUES (:m, :i, '{}', :digest, now(), now())",
        m=intent.merchant_id, i=intent.intent_id, digest=sha256(b"{}"),
    )  # fmt: skip


def bring(
    db: Connection, world: World, state: str, amount_minor: int = 2490, order: Order | None = None, **other: Any
) -> Intent:
    """An intent of a new case walked to `state`, with everything an honest path leaves behind."""
    case_id = open_case(db, world, order)
    intent = propose(db, world, case_id, amount_minor, order=order, **other)
    carry(db, intent)
    say(db, intent, "new", "proposed", actor=world.priya.actor)
    at = "proposed"
    for step in PATHS[state]:
        if (at, step) == ("proposed", "approved"):
            sign(db, intent, world.jonas)
            say(db, intent, at, step, actor=world.jonas.actor)
            move(db, intent, "reserve")
            freeze(db, intent)
            assert count(db, intent) == 1
        else:
            say(db, intent, at, step)
        if step in ("succeeded", "reversed"):
            move(db, intent, "settle" if step == "succeeded" else "reverse")
        if step == "failed":
            move(db, intent, "release")
            count(db, intent, "return")
        if step in ("failed", "reversed", "withdrawn"):
            give_back(db, intent)
        at = step
    return intent


def gift_card(db: Connection, world: World, minor: int = 1000) -> UUID:
    """Another payment of the order: a gift card, which no provider holds."""
    capture_id = uuid7()
    run(
        db, "INSERT INTO captures (merchant_id, capture_id, order_id, position, capture_ref, tender, destination_kind,"
        " destination_last4, currency, captured_minor, order_minor, captured_at, available_minor)"
        " VALUES (:m, :c, :o, 9, :ref, 'gift_card', 'gift_card', '77', 'GBP', :minor, :minor, now(), :minor)",
        m=world.merchant_id, c=capture_id, o=world.order.order_id, ref=f"gift-{capture_id}", minor=minor,
    )  # fmt: skip
    return capture_id


def state_of(db: Connection, intent: Intent) -> str:
    """The state the database says the intent is in."""
    return str(scalar(db, "SELECT state FROM intents WHERE merchant_id = :m AND intent_id = :i",
                      m=intent.merchant_id, i=intent.intent_id))  # fmt: skip


def balances(db: Connection, intent: Intent) -> dict[str, int]:
    """The four balances of the intent's capture, in minor units."""
    row = first(
        db, "SELECT available_minor AS available, reserved_minor AS reserved, refunded_minor AS refunded,"
        " disputed_minor AS disputed FROM captures WHERE merchant_id = :m AND capture_id = :c",
        m=intent.merchant_id, c=intent.capture_id,
    )  # fmt: skip
    assert row is not None
    return dict(row)
