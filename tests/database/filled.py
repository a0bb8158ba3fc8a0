"""A merchant with at least one row in every table that has merchants' rows."""

from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, run, transaction
from ledger.ids import uuid7
from tests.database import rows as put
from tests.in_question import settle_one
from tests.orders import TEE, sha256
from tests.stack import Stack
from tests.world import World

TENANT_TABLES = """
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'merchant_id'
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname
"""


def fill(stack: Stack, world: World) -> None:
    """Writes the rows as the owner, pinned to the merchant; an intent in every state is among them."""
    with transaction(stack.owner, world.merchant_id) as db:
        intents = {state: put.bring(db, world, state, 100) for state in put.PATHS}
        _beside_a_case(db, world, intents["proposed"].case_id)
        _of_the_workers(db, world, intents["succeeded"])
        _forms_of_payment(db, world)
        _of_a_run(db, world)
        _of_outside(db, world, intents["succeeded"])
        _of_the_brakes(db, world)
        _of_the_kinds(db, world)
        _of_a_policy(db, world)
        settle_one(db, world)
        _of_the_desks(db, world)
        run(
            db, "INSERT INTO shadow_sends (merchant_id, intent_id, request_digest, currency, amount_minor)"
            " VALUES (:m, :i, :digest, 'GBP', 100)", m=world.merchant_id, i=intents["held"].intent_id,
            digest=sha256(b"request"),
        )  # fmt: skip
        settled = put.settle(db, intents["needs_review"], "succeeded")
        run(db, "INSERT INTO settlement_results (merchant_id, settlement_id, result) VALUES (:m, :s, 'void')",
            m=world.merchant_id, s=settled)  # fmt: skip
        run(
            db, "INSERT INTO cap_raises (merchant_id, raise_id, currency, business_day, from_minor, to_minor, reason,"
            " asked_by) VALUES (:m, :id, 'GBP', :day, 1, 2, 'the sale', :who)",
            m=world.merchant_id, id=uuid7(), day=put.today(db, world.merchant_id), who=world.mara.staff_id,
        )  # fmt: skip
        run(
            db, "INSERT INTO idempotency_keys (merchant_id, scope, key, body_digest, status, answer)"
            " VALUES (:m, 'token:chat', 'k', :digest, 201, '{}')", m=world.merchant_id, digest=sha256(b"body"),
        )  # fmt: skip
        run(
            db, "INSERT INTO order_conflicts (merchant_id, conflict_id, order_id, facts, facts_digest)"
            " VALUES (:m, :id, :o, '{}', :digest)",
            m=world.merchant_id, id=uuid7(), o=world.order.order_id, digest=sha256(b"other facts"),
        )  # fmt: skip
        run(
            db, "INSERT INTO order_invoices (merchant_id, order_id, n, invoice_ref) VALUES (:m, :o, 1, 'INV-1')",
            m=world.merchant_id, o=world.order.order_id,
        )  # fmt: skip
        run(
            db, "INSERT INTO order_deliveries (merchant_id, order_id, line_ref, n, delivered_at) VALUES (:m, :o, :line, 1, now())",
            m=world.merchant_id, o=world.order.order_id, line=TEE,
        )  # fmt: skip
        run(
            db, "INSERT INTO automatic_days (merchant_id, currency, business_day, limit_minor)"
            " VALUES (:m, 'GBP', '2026-01-01', 100)", m=world.merchant_id,
        )  # fmt: skip
        _of_charges(db, world)
        _of_the_factors(db, world, intents["succeeded"])
        _of_a_recovery(db, world, intents["succeeded"])


def _of_charges(db: Connection, world: World) -> None:
    """A case about charges that was read and found to be none."""
    names = {
        "m": world.merchant_id,
        "c": uuid7(),
        "o": world.order.order_id,
        "who": world.chat.actor,
        "r": uuid7(),
        "id": uuid7(),
    }
    run(
        db, "INSERT INTO cases (merchant_id, case_id, order_id, kind, reason, opened_by, channel, due_at, stage, currency)"
        " VALUES (:m, :c, :o, 'duplicate_charge', 'other', :who, 'chat', now(), 'nothing_due', 'GBP')", **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO charge_claims (merchant_id, claim_id, case_id, order_id, capture_id) VALUES (:m, :id, :c, :o, :capture)",
        capture=world.order.captures["card"], **names,
    )  # fmt: skip
    run(
        db,
        "INSERT INTO charge_readings (merchant_id, reading_id, case_id, asked_by) VALUES (:m, :r, :c, :who)",
        **names,
    )
    run(
        db, "INSERT INTO charge_findings (merchant_id, finding_id, case_id, n, reading_id, finding, reason, inputs, record, digest)"
        " VALUES (:m, :id, :c, 1, :r, 'none', 'one_charge', '{}', '{}', :digest)", digest=sha256(b"inputs"), **names,
    )  # fmt: skip


def _of_the_factors(db: Connection, world: World, intent: put.Intent) -> None:
    """An approval by passkey, and a person whose factors two admins are to reset."""
    row = first(
        db, "SELECT approval_id, staff_id, fingerprint FROM approvals WHERE merchant_id = :m AND intent_id = :i AND seat = 1",
        m=world.merchant_id, i=intent.intent_id,
    )  # fmt: skip
    assert row is not None
    names = {"m": world.merchant_id, "n": intent.intent_id.bytes * 2, "s": row["staff_id"], "key": bytes(32)}
    run(
        db, "INSERT INTO approval_challenges (merchant_id, nonce, staff_id, session_hash, intent_id, act, fingerprint, earlier)"
        " VALUES (:m, :n, :s, :key, :i, 'approve:1', :f, '')", i=intent.intent_id, f=row["fingerprint"], **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO approval_assertions (merchant_id, approval_id, nonce, staff_id, credential_id, act, earlier, client_data,"
        " authenticator_data, signature, counter_before, counter_after)"
        " VALUES (:m, :a, :n, :s, :key, 'approve:1', '', :key, :data, :key, 0, 1)",
        a=row["approval_id"], data=bytes(37), **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO role_changes (merchant_id, change_id, staff_id, was, role, reason, asked_by)"
        " VALUES (:m, :c, :s, 'desk', 'reader', 'moves away', :by)",
        m=world.merchant_id, c=uuid7(), s=world.priya.staff_id, by=world.ada.staff_id,
    )  # fmt: skip
    invited = {"m": world.merchant_id, "i": uuid7(), "by": world.ada.staff_id}
    run(
        db, "INSERT INTO invitations (merchant_id, invitation_id, email, name, role, asked_by)"
        " VALUES (:m, :i, 'noor@harbour.example', 'Noor', 'desk', :by)", **invited,
    )  # fmt: skip
    run(
        db, "INSERT INTO invitation_links (merchant_id, link_hash, invitation_id) VALUES (:m, :h, :i)",
        h=sha256(b"link"), **invited,
    )  # fmt: skip
    run(db, "INSERT INTO invitation_ends (merchant_id, invitation_id, called_back_by) VALUES (:m, :i, :by)", **invited)
    run(
        db, "INSERT INTO factor_resets (merchant_id, reset_id, staff_id, reason, lost_since, asked_by)"
        " VALUES (:m, :id, :who, 'lost the phone', now(), :by)",
        m=world.merchant_id, id=uuid7(), who=world.priya.staff_id, by=world.ada.staff_id,
    )  # fmt: skip


def _of_a_recovery(db: Connection, world: World, paid: put.Intent) -> None:
    run(
        db, "INSERT INTO recoveries (generation, first_engineer, second_engineer, backup_at, started_at)"
        " VALUES (2, 'Ute', 'Ravi', '2020-01-01', '2020-01-01') ON CONFLICT DO NOTHING",
    )  # fmt: skip
    run(
        db, "INSERT INTO people_let_in (staff_id, engineer, reason, generation) VALUES (:s, 'Ute', 'still here', 2)",
        s=world.ada.staff_id,
    )  # fmt: skip
    run(db, "UPDATE deployment SET generation = 2 WHERE generation = 1")
    run(db, "UPDATE captures SET verified_generation = 2 WHERE merchant_id = :m", m=world.merchant_id)
    run(
        db, "INSERT INTO recovered_refunds (merchant_id, refund_ref, outcome, generation, amount_minor, currency, refunded_at)"
        " VALUES (:m, 're_lost', 'by_hand', 2, 100, 'GBP', now())", m=world.merchant_id,
    )  # fmt: skip
    run(
        db, "INSERT INTO external_refunds (merchant_id, refund_ref, provider_account_id, charge_ref, payment_intent_ref,"
        " amount_minor, currency, created_at, kind, found_by) VALUES (:m, 're_lost', :a, 'ch_lost', 'pi_lost', 100, 'GBP',"
        " now(), 'recovered', 'poll')", m=world.merchant_id, a=world.provider_account_id,
    )  # fmt: skip
    run(
        db, "INSERT INTO recovered_cap_entries (merchant_id, refund_ref, step, currency, business_day, amount_minor)"
        " SELECT :m, 're_lost', 'reserve', 'GBP', (now() AT TIME ZONE zone)::date, 100 FROM merchants WHERE id = :m",
        m=world.merchant_id,
    )  # fmt: skip
    run(
        db, "INSERT INTO void_approvals (merchant_id, approval_id, generation) SELECT merchant_id, approval_id, 2"
        " FROM approvals WHERE merchant_id = :m AND intent_id = :i", m=world.merchant_id, i=paid.intent_id,
    )  # fmt: skip


def _beside_a_case(db: Connection, world: World, case_id: UUID) -> None:
    put.hold_units(db, world, case_id, "[0,1)")
    names = {
        "m": world.merchant_id,
        "c": case_id,
        "id": uuid7(),
        "who": world.chat.actor,
        "line": world.order.lines[TEE],
    }
    run(
        db, "INSERT INTO conversations (merchant_id, conversation_id, case_id, channel, reference, actor, joined)"
        " VALUES (:m, :id, :c, 'chat', 'thread-1', :who, false)", **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO evidence (merchant_id, evidence_id, case_id, number, kind, line_id, count, channel, actor)"
        " VALUES (:m, :id, :c, 1, 'announced', :line, 1, 'chat', :who)", **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO parcels (merchant_id, parcel_id, case_id, tracking, sent_at, proof, our_label, channel, actor)"
        " VALUES (:m, :id, :c, 'JD014', now(), 'carrier', true, 'chat', :who)", **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO case_facts (merchant_id, fact_id, case_id, number, kind, order_id, said, channel, actor)"
        " SELECT merchant_id, :id, case_id, 1, 'collection', order_id, 'offered', 'counter', :who FROM cases"
        " WHERE merchant_id = :m AND case_id = :c", **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO photos (merchant_id, photo_id, case_id, caption, content_type, sha256, original_sha256, content,"
        " actor) VALUES (:m, :id, :c, 'the seam', 'image/png', :digest, :digest, 'x', :who)",
        digest=sha256(b"x"), **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO notes (merchant_id, note_id, case_id, staff_id, text) VALUES (:m, :id, :c, :staff, 'seen')",
        staff=world.priya.staff_id, **names,
    )  # fmt: skip
    people = {"priya": world.priya, "tobias": world.tobias, "ada": world.ada}
    named = {name: person.staff_id for name, person in people.items()} | {"customer": world.omar}
    for statement in _TEAM.split(";"):
        run(db, statement, **named, **names)


_TEAM = """
    INSERT INTO unmatched_receipts (merchant_id, receipt_id, why, lines, note, channel, actor)
        VALUES (:m, :id, 'at_bench', '[]', 'a shirt', 'warehouse', :who);
    INSERT INTO retention (merchant_id) VALUES (:m);
    INSERT INTO erasures (merchant_id, erasure_id, customer_id, reason, asked_by) VALUES (:m, :id, :customer, 'by letter', :ada);
    INSERT INTO receipt_answers (merchant_id, receipt_id, kind, case_id, staff_id) VALUES (:m, :id, 'matched', :c, :priya);
    INSERT INTO case_leases (merchant_id, case_id, staff_id, until) VALUES (:m, :c, :priya, now() + interval '1 hour');
    INSERT INTO case_presence (merchant_id, case_id, staff_id, doing) VALUES (:m, :c, :tobias, 'looking');
    INSERT INTO case_tags (merchant_id, case_id, tag, staff_id) VALUES (:m, :c, 'fragile', :priya);
    INSERT INTO mentions (merchant_id, note_id, staff_id, case_id) VALUES (:m, :id, :tobias, :c)
"""


def _forms_of_payment(db: Connection, world: World) -> None:
    """A payment that was read as held and then as taken, and a gift card paid back by hand."""
    names = {"m": world.merchant_id, "c": world.order.captures["card"]}
    for kind in ("not_captured", "captured"):
        run(
            db, "INSERT INTO capture_facts (merchant_id, fact_id, capture_id, kind, amount_minor, payment_status)"
            " VALUES (:m, :id, :c, :kind, 10, 'succeeded')", id=uuid7(), kind=kind, **names,
        )  # fmt: skip
    by_hand = put.bring(
        db, world, "approved", 100, capture_id=put.gift_card(db, world), act="manual", provider_account_id=None,
        payment_intent_ref=None, charge_ref=None,
    )  # fmt: skip
    run(
        db, "INSERT INTO manual_settlements (merchant_id, intent_id, outcome, tender, reference, recorded_by)"
        " VALUES (:m, :i, 'done', 'gift_card', 'GC-1', :who)",
        m=world.merchant_id, i=by_hand.intent_id, who=world.priya.staff_id,
    )  # fmt: skip


def _of_a_policy(db: Connection, world: World) -> None:
    """A draft that another manager turned down."""
    names = {"m": world.merchant_id, "id": uuid7(), "mara": world.mara.staff_id}
    run(
        db, "INSERT INTO policy_drafts (merchant_id, draft_id, policy_id, version, document, digest, raises, staff_id, note)"
        " VALUES (:m, :id, 'summer', 1, '{}', :digest, false, :mara, 'the sale')", digest=sha256(b"{}"), **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO policy_answers (merchant_id, draft_id, answer, drafted_by, staff_id, raises, note)"
        " VALUES (:m, :id, 'turned_down', :mara, :jonas, false, 'not now')", jonas=world.jonas.staff_id, **names,
    )  # fmt: skip


def _of_the_desks(db: Connection, world: World) -> None:
    """A file that finance took out, and an act that was refused."""
    names = {"m": world.merchant_id, "id": uuid7()}
    run(
        db, "INSERT INTO exports (merchant_id, export_id, what, filter, reason, staff_id)"
        " VALUES (:m, :id, 'refunds', '{}', 'month end', :farah)", farah=world.farah.staff_id, **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO export_ends (merchant_id, export_id, rows, sha256) VALUES (:m, :id, 0, :digest)",
        digest=sha256(b""), **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO refused_acts (merchant_id, refusal_id, kind, actor) VALUES (:m, :id, 'stale', :actor)",
        actor=world.priya.actor, **names,
    )  # fmt: skip


def _of_the_brakes(db: Connection, world: World) -> None:
    """A brake that one person pulled, another's ask to start again that was refused, and an alarm that was closed."""
    names = {"m": world.merchant_id, "id": uuid7(), "alarm": uuid7(), "who": world.jonas.staff_id}
    run(
        db, "INSERT INTO brake_pulls (merchant_id, pull_id, brake, actor, staff_id, reason)"
        " VALUES (:m, :id, 'shadow', :actor, :who, 'a trial')", actor=world.jonas.actor, **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO brake_asks (merchant_id, ask_id, brake, staff_id, role, reason)"
        " VALUES (:m, :id, 'shadow', :who, 'manager', 'the trial is over')", **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO brake_answers (merchant_id, ask_id, brake, asked_by, asked_role, staff_id, role, granted)"
        " VALUES (:m, :id, 'shadow', :who, 'manager', :other, 'finance', false)", other=world.farah.staff_id, **names,
    )  # fmt: skip
    run(db, "INSERT INTO alarms (merchant_id, alarm_id, kind, text) VALUES (:m, :alarm, 'test', 'look')", **names)
    run(
        db, "INSERT INTO alarms (merchant_id, alarm_id, kind, text) VALUES (:m, :other, 'test', 'read again')",
        other=names["id"], **names,
    )  # fmt: skip
    run(db, "INSERT INTO alarm_endings (merchant_id, alarm_id, because) VALUES (:m, :id, 'it is over')", **names)
    run(
        db, "INSERT INTO alarm_closings (merchant_id, alarm_id, staff_id, did) VALUES (:m, :alarm, :who, 'looked')",
        **names,
    )  # fmt: skip


def _of_the_kinds(db: Connection, world: World) -> None:
    """Goodwill that is asked for, an exchange, and an amount other than computed."""
    kept, back = put.open_case(db, world), put.open_case(db, world)
    asked = put.derive(db, world, back, 100)
    names = {"m": world.merchant_id, "c": kept, "o": world.order.order_id, "who": world.priya.actor, "b": back}
    run(db, "UPDATE cases SET kind = 'goodwill' WHERE merchant_id = :m AND case_id = :c", **names)
    run(
        db, "INSERT INTO case_asks (merchant_id, case_id, kind, order_id, line_id, line_quantity, minor, entry, asked_by)"
        " SELECT :m, :c, 'goodwill', :o, line_id, quantity, 5, 'gross', :who FROM order_lines WHERE merchant_id = :m"
        " AND line_id = :line", line=world.order.lines[TEE], **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO overrides (merchant_id, override_id, case_id, n, entitlement_id, computed_minor, minor, reason, note,"
        " asked_by) VALUES (:m, :id, :b, 1, :e, 100, 90, 'other', 'agreed', :who)", id=uuid7(), e=asked, **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO policies (merchant_id, policy_id, version, effective, document, digest, author, approver)"
        " SELECT :m, policy_id, 99, tstzrange('1990-01-01', '1990-01-02'), '{\"exchange\": {\"allowed\": true}}', digest,"
        " 'Ute', 'Ravi' FROM policies WHERE merchant_id = :m AND policy_id = :p AND version = 1", p=world.policy_id, **names,
    )  # fmt: skip
    put.hold_units(db, world, back, "[2,3)")
    run(
        db, "INSERT INTO exchanges (merchant_id, case_id, wish, in_stock, policy_id, policy_version, recorded_by)"
        " VALUES (:m, :b, 'a medium', true, :p, 99, :who)", p=world.policy_id, **names,
    )  # fmt: skip


def _of_outside(db: Connection, world: World, intent: put.Intent) -> None:
    put.found(db, intent, "re_dashboard", 100)
    put.found(db, intent, "dp_bank", 100, "dispute")
    names = {"m": world.merchant_id, "id": uuid7(), "c": intent.case_id}
    run(
        db, "INSERT INTO external_allocations (merchant_id, allocation_id, refund_ref, step, kind, amount_minor, order_minor,"
        " reason, actor) VALUES (:m, :id, 're_dashboard', 'claim', 'unrelated', 1, 1, 'goodwill', 'system')", **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO dispute_rulings (merchant_id, ruling_id, dispute_ref, reason, staff_id)"
        " VALUES (:m, :id, 'dp_bank', 'pay', :who)", who=world.farah.staff_id, **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO account_readings (merchant_id, provider_account_id, list) VALUES (:m, :a, 'refunds')",
        a=world.provider_account_id, **names,
    )  # fmt: skip
    run(db, "INSERT INTO payment_reads (merchant_id, payment_intent_ref) VALUES (:m, 'pi_1')", **names)


def _of_the_workers(db: Connection, world: World, intent: put.Intent) -> None:
    names = {"m": world.merchant_id, "i": intent.intent_id, "id": uuid7()}
    run(
        db, "INSERT INTO attempts (merchant_id, intent_id, attempt_no, worker_id, lease_until) VALUES (:m, :i, 1, 7, now())",
        **names,
    )  # fmt: skip
    run(
        db, "INSERT INTO attempt_results (merchant_id, intent_id, attempt_no, outcome, recorded_by)"
        " VALUES (:m, :i, 1, 'confirmed', 7)", **names,
    )  # fmt: skip
    run(db, "INSERT INTO looks (merchant_id, look_id, intent_id, found) VALUES (:m, :id, :i, 'ours')", **names)
    run(db, "INSERT INTO alarms (merchant_id, alarm_id, kind, text) VALUES (:m, :id, 'test', 'look')", **names)
    run(
        db, "INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, created_at, body_digest)"
        " VALUES (:m, 'evt_1', 'refund.updated', 're_1', now(), :digest)", digest=sha256(b"body"), **names,
    )  # fmt: skip


def _of_a_run(db: Connection, world: World) -> None:
    names = {"m": world.merchant_id, "a": world.provider_account_id, "r": uuid7(), "d": uuid7(), "id": uuid7()}
    for statement in _RUN.split(";"):
        run(db, statement, **names)


_RUN = """
    INSERT INTO reconciliation_runs (merchant_id, run_id, provider_account_id, from_at, to_at, asked_by)
        VALUES (:m, :r, :a, now() - interval '1 day', now(), 'command');
    INSERT INTO reconciliation_sides (merchant_id, run_id, side, position) VALUES (:m, :r, 'refunds', 0);
    INSERT INTO reconciliation_totals (merchant_id, run_id, part, currency) VALUES (:m, :r, 'refunds', 'GBP');
    INSERT INTO provider_refunds (merchant_id, provider_account_id, refund_ref, amount_minor, currency, status,
        payment_intent_ref, charge_ref, intent_ref, failure_reason, created_at)
        VALUES (:m, :a, 're_run', 1, 'GBP', 'succeeded', '', '', '', '', now());
    INSERT INTO provider_movements (merchant_id, provider_account_id, movement_ref, kind, source_ref, amount_minor,
        currency, converted, created_at) VALUES (:m, :a, 'txn_run', 'refund', 're_run', 1, 'GBP', false, now());
    INSERT INTO provider_disputes (merchant_id, provider_account_id, dispute_ref, amount_minor, currency, status, charge_ref,
        payment_intent_ref, created_at) VALUES (:m, :a, 'dp_run', 1, 'GBP', 'won', '', '', now());
    INSERT INTO discrepancies (merchant_id, discrepancy_id, provider_account_id, run_id, kind, refund_ref, occurrence, ours,
        theirs, dated_at) VALUES (:m, :d, :a, :r, 'missing_here', 're_run', 1, '{}', '{}', now());
    INSERT INTO reconciliation_findings (merchant_id, run_id, discrepancy_id, part, source_ref, currency, difference_minor)
        VALUES (:m, :r, :d, 'refunds', 're_run', 'GBP', 1);
    INSERT INTO discrepancy_acts (merchant_id, act_id, discrepancy_id, kind, code, note, actor)
        VALUES (:m, :id, :d, 'resolved', 'gone', 'equal again', 'system');
    INSERT INTO self_checks (merchant_id, night, faults) VALUES (:m, '2026-01-01', 0)
"""
