"""What a policy approves by itself is paid without a person; everything that is not plain waits for one (S38, S64)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString

import pytest

from jobs import submitter
from jobs.worker import Worker
from ledger import brakes
from ledger.approvals import Decision
from ledger.assessment import work_out_again
from ledger.automatic import Left
from ledger.database import transaction
from ledger.evidence import Arrival, ReceivedLine, add_photo, report_arrival
from ledger.intents import cancel_before_send
from ledger.queries.gauges import figures
from ledger.self_check import FIRST_KEY, check_step
from ledger.self_check_sql import CHECKS
from ledger.settlement import Refused
from sandbox.client import Running
from tests import lives
from tests.automatic import approvals_of, by_policy, disputes_are_read, generous, newest, returned
from tests.orders import TEE, Line, sha256
from tests.refunds import Proposed, as_administrator, creates, paid_order, refunds_at, row_of, state_of, worker_at
from tests.stack import Stack
from tests.world import World, add_order, build_world, usual_policy


@pytest.fixture
def world(stack: Stack) -> World:
    return generous(stack)


def test_a_plain_small_return_pays_itself_when_its_goods_are_seen(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = returned(stack, world, sandbox)
    done = by_policy(stack, world, one.case_id)
    assert isinstance(done, Decision)
    assert (done.intent_id, done.state) == (one.intent_id, "approved")
    (approval,) = approvals_of(stack, one)
    assert (approval["approver"], approval["staff_id"], approval["strength"]) == (
        "policy:harbour-usual@1",
        None,
        "policy",
    )
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)
    assert sandbox.money(one.payment_intent)["refunded"] == one.amount_minor == 2490
    # The same request again finds nothing to approve.
    assert by_policy(stack, world, one.case_id) is None
    assert submitter.run_once(worker) == {}
    assert (len(approvals_of(stack, one)), refunds_at(sandbox, one)) == (1, 1)


def test_what_it_approved_can_be_called_back_by_a_person_until_it_leaves(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = returned(stack, world, sandbox)
    by_policy(stack, world, one.case_id, window=300)
    with transaction(stack.console, world.merchant_id) as db:
        cancel_before_send(db, world.merchant_id, one.intent_id, world.tobias.actor, "not_yet")
    assert (submitter.run_once(worker), creates(sandbox)) == ({}, [])
    assert state_of(stack, one) == "withdrawn"


@dataclass
class Scene:
    """A shop, and one return in it that is about to be decided."""

    stack: Stack
    world: World
    sandbox: Running
    one: Proposed

    def sql(self, statement: LiteralString, *values: Any) -> None:
        as_administrator(self.stack, statement, *values)

    def again(self) -> None:
        """Something about the case is recorded anew, so that it is proposed anew."""
        with transaction(self.stack.console, self.world.merchant_id) as db:
            add_photo(db, self.world.merchant_id, self.one.case_id, b"jpeg", "image/jpeg", sha256(b"a"), sha256(b"b"), "",
                      self.world.warehouse.actor)  # fmt: skip


def _asked_anew(scene: Scene) -> None:
    with transaction(scene.stack.console, scene.world.merchant_id) as db:
        work_out_again(db, scene.world.merchant_id, scene.one.case_id, scene.world.tobias.actor)


def _called_back_before(scene: Scene) -> None:
    with transaction(scene.stack.console, scene.world.merchant_id) as db:
        cancel_before_send(db, scene.world.merchant_id, scene.one.intent_id, scene.world.tobias.actor, "suspicion")
    scene.again()


def _refused_before(scene: Scene) -> None:
    lives.approve_as(scene.stack, scene.world, scene.world.priya, scene.one.intent_id)
    (claimed,) = lives.claim(scene.stack, scene.world)
    lives.record(scene.stack, claimed, Refused("charge_already_refunded", "no", 400))
    scene.again()


def _came_back_before(scene: Scene) -> None:
    """Paid; then the bank sent it back (late failure), and the case is proposed anew."""
    _refused_before(scene)
    scene.sql("UPDATE intents SET state = 'reversed' WHERE intent_id = %s", scene.one.intent_id)


def _dispute(scene: Scene, status: str = "needs_response") -> None:
    scene.sql(
        "INSERT INTO disputes (merchant_id, dispute_ref, provider_account_id, charge_ref, payment_intent_ref, amount_minor,"
        " currency, reason, created_at, found_by, status) VALUES (%s, 'dp_1', %s, %s, %s, 100, 'GBP', 'fraudulent', now(), 'hook',"
        " %s)",
        scene.world.merchant_id, scene.world.provider_account_id, scene.one.charge, scene.one.payment_intent, status,
    )  # fmt: skip


def _seen_dispute(scene: Scene) -> None:
    """A comparison of disputes saw it; the books could not take it."""
    scene.sql(
        "INSERT INTO provider_disputes (merchant_id, provider_account_id, dispute_ref, amount_minor, currency, status, charge_ref,"
        " payment_intent_ref, created_at) VALUES (%s, %s, 'dp_1', 100, 'GBP', 'needs_response', %s, %s, now())",
        scene.world.merchant_id, scene.world.provider_account_id, scene.one.charge, scene.one.payment_intent,
    )  # fmt: skip


def _payment_differs(scene: Scene) -> None:
    scene.sql(
        "INSERT INTO discrepancies (merchant_id, discrepancy_id, provider_account_id, kind, refund_ref, occurrence, ours, theirs,"
        " dated_at, about) VALUES (%s, gen_random_uuid(), %s, 'amount', %s, 1, '{}', '{}', now(), 'payment')",
        scene.world.merchant_id, scene.world.provider_account_id, scene.one.charge,
    )  # fmt: skip


def _ruled(scene: Scene) -> None:
    """Finance overruled a question of the bank: people may pay it, a policy may not."""
    _dispute(scene, "warning_needs_response")
    scene.sql(
        "INSERT INTO dispute_rulings (merchant_id, ruling_id, dispute_ref, reason, staff_id)"
        " VALUES (%s, gen_random_uuid(), 'dp_1', 'known customer', %s)", scene.world.merchant_id, scene.world.farah.staff_id,
    )  # fmt: skip


def _outside(scene: Scene) -> None:
    scene.sql(
        "INSERT INTO external_refunds (merchant_id, refund_ref, provider_account_id, charge_ref, payment_intent_ref, amount_minor,"
        " currency, created_at, kind, found_by, status) VALUES (%s, 're_1', %s, %s, %s, 100, 'GBP', now(), 'outside', 'hook',"
        " 'succeeded')", scene.world.merchant_id, scene.world.provider_account_id, scene.one.charge, scene.one.payment_intent,
    )  # fmt: skip


def _discrepancy(scene: Scene) -> None:
    scene.sql(
        "INSERT INTO discrepancies (merchant_id, discrepancy_id, provider_account_id, run_id, kind, refund_ref, intent_id,"
        " occurrence, ours, theirs, dated_at) VALUES (%s, gen_random_uuid(), %s, gen_random_uuid(), 'amount', 're_1', %s, 1, '{}',"
        " '{}', now())",
        scene.world.merchant_id, scene.world.provider_account_id, scene.one.intent_id,
    )  # fmt: skip


def _brake(which: str) -> Callable[[Scene], None]:
    def pull(scene: Scene) -> None:
        with transaction(scene.stack.console, scene.world.merchant_id) as db:
            brakes.pull(db, scene.world.merchant_id, which, "A look at the till", staff_id=scene.world.priya.staff_id)

    return pull


def _do(statement: LiteralString) -> Callable[[Scene], None]:
    return lambda scene: scene.sql(statement)


# What happens between the goods and the decision, and why a person has to decide then.
MEANWHILE: dict[str, tuple[Callable[[Scene], None], str | None]] = {
    "a person asked for it anew": (_asked_anew, "asked_again"),
    "a person called it back before": (_called_back_before, "not_the_first"),
    "the provider refused it before": (_refused_before, "not_the_first"),
    "it came back from the bank": (_came_back_before, "not_the_first"),
    "the order is blocked": (_do("UPDATE orders SET blocked = true"), "blocked"),
    "the order came again with other figures": (_do("UPDATE orders SET discrepancies = '{import_changed}'"), "blocked"),
    "a discrepancy is open": (_discrepancy, "discrepancy"),
    "the payment was not read since a recovery": (_do("UPDATE captures SET verified_generation = 0"), "unread"),
    "part of the payment is only authorised": (_do("UPDATE captures SET held_minor = 100"), "unread"),
    "the charge is disputed": (_dispute, "disputed"),
    "the bank's question was overruled": (_ruled, "disputed"),
    "the provider shows a dispute that is not written down": (_seen_dispute, "disputed"),
    "the payment differs at the provider": (_payment_differs, "discrepancy"),
    "a refund made outside is not matched": (_outside, "outside"),
    "what is owed does not say who decides": (_do("UPDATE entitlements SET record = record - 'route'"), "route"),
    "what is owed names no rules": (_do("UPDATE entitlements SET record = record - 'rules'"), "not_plain"),
    "disputes were never read": (_do("DELETE FROM account_readings"), "disputes_unread"),
    "disputes were read an hour ago": (_do("UPDATE account_readings SET read_at = now() - interval '1 hour'"), "disputes_unread"),
    "disputes cannot be read": (_do("UPDATE account_readings SET failing_since = now()"), "disputes_unread"),
    "the shop is paused": (_brake("pause"), "paused"),
    "every shop is paused": (_brake("all"), "paused"),
    "an alarm stopped the shop": (_do("UPDATE merchant_brakes SET stopped_at = now(), stopped_reason = 'key'"), "paused"),
    "shadow mode": (_brake("shadow"), "shadow"),
    "the policy is a draft": (_do("UPDATE policies SET document = document || '{\"status\": \"draft\"}'"), None),
    "the policy ended": (_do("UPDATE policies SET effective = tstzrange(lower(effective), now() - interval '1 hour')"), None),
    "the policy cannot be read": (
        _do("UPDATE policies SET document = jsonb_set(document, '{automatic,GBP,most_minor}', '\"many\"')"), None),
    "the policy names no amount": (_do("UPDATE policies SET document = document - 'automatic'"), None),
    "the policy names another currency": (_do("UPDATE policies SET document = jsonb_set(document, '{automatic}',"
        " '{\"EUR\": {\"most_minor\": 2500, \"day_minor\": 50000}}')"), None),
    "two policies are in force": (
        _do("INSERT INTO policies SELECT merchant_id, 'another', version, effective, document - 'automatic', digest, author,"
            " approver FROM policies"), None),
    "the system that reported the goods opens returns too": (
        _do("UPDATE api_tokens SET scopes = '{receipts:write,cases:open}' WHERE channel = 'warehouse'"), "channel_only"),
    "the system that reported the goods was revoked": (
        _do("UPDATE api_tokens SET revoked_at = now() WHERE channel = 'warehouse'"), "channel_only"),
    "the reporting system joined the conversation": (
        _do("INSERT INTO conversations (merchant_id, conversation_id, case_id, channel, reference, actor, customer_verified,"
            " joined) SELECT e.merchant_id, gen_random_uuid(), e.case_id, 'warehouse', 'w-1', e.actor, 'signed in', true"
            " FROM evidence e WHERE kind = 'received'"), "channel_only"),
    "the charge is a separate one of a platform": (_do("UPDATE provider_accounts SET charge_type = 'separate'"), "act"),
    "the daily cap is reached": (_do("UPDATE caps SET limit_minor = 2000"), "cap"),
    "the payment has less left": (
        _do("UPDATE captures SET available_minor = 100, refunded_minor = captured_minor - 100"), "no_money"),
}  # fmt: skip


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_person_is_needed_and_nothing_is_sent_when(
    stack: Stack, world: World, sandbox: Running, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    happens, reason = MEANWHILE[what]
    one = returned(stack, world, sandbox)
    happens(Scene(stack, world, sandbox, one))
    one = newest(stack, world, one.case_id, one.order)
    assert by_policy(stack, world, one.case_id) == (None if reason is None else Left(one.intent_id, reason))
    if reason not in (None, "cap", "no_money"):
        # A web process that asked nothing meets the same answer in the database.
        monkeypatch.setattr("ledger.automatic.obstacle", lambda *_, **__: "")
        assert by_policy(stack, world, one.case_id) == Left(one.intent_id, reason)
    _waits_for_a_person(stack, world, sandbox, one)


def _waits_for_a_person(stack: Stack, world: World, sandbox: Running, one: Proposed) -> None:
    before = len(creates(sandbox))
    lives.claim(stack, world)
    assert state_of(stack, one) == "proposed"
    assert as_administrator(stack, "SELECT 1 FROM approvals WHERE intent_id = %s", one.intent_id) == []
    assert as_administrator(stack, "SELECT 1 FROM automatic_days WHERE used_minor > 0") == []
    assert (len(creates(sandbox)), refunds_at(sandbox, one)) == (before, 0)


# A channel's own words for not knowing who asks; there are more of them than `none`.
DENIALS = ("none", "No", "not_verified", "unverified", "failed_otp", "guest")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"customer_verified": ""}, "not_verified"),
        *(({"customer_verified": said}, "not_verified") for said in DENIALS),
        ({"grade": "C"}, "not_plain"),  # its deduction has no photo
        ({"grade": "M"}, "grade"),
    ],
)  # fmt: skip
def test_a_person_is_needed_when_who_asked_or_what_came_is_in_doubt(
    stack: Stack, world: World, sandbox: Running, asked: dict[str, Any], reason: str
) -> None:
    one = returned(stack, world, sandbox, **asked)
    assert by_policy(stack, world, one.case_id) == Left(one.intent_id, reason)
    _waits_for_a_person(stack, world, sandbox, one)


def _reported(stack: Stack, world: World, sandbox: Running, reporter: str, **asked: Any) -> Proposed:
    """Opened as `asked`, its goods reported by `reporter`."""
    order = paid_order(stack, world, sandbox)
    opened = lives.open_case(
        stack, world, ((TEE, 1),), order_ref=order.external_ref, customer_verified="signed in", **asked
    )
    with transaction(stack.console, world.merchant_id) as db:
        report_arrival(db, world.merchant_id, opened.case_id, Arrival((ReceivedLine(TEE, 1),), "chat", reporter))
    return newest(stack, world, opened.case_id, order)


def test_goods_that_only_the_channel_speaks_of_are_a_persons(stack: Stack, world: World, sandbox: Running) -> None:
    """The chat says they are here; or the one clerk who opened the return says so too."""
    of_the_chat = _reported(stack, world, sandbox, world.chat.actor)
    of_one_clerk = _reported(
        stack, world, sandbox, world.priya.actor, actor=world.priya.actor, channel="counter", reference="till-1"
    )
    for one in (of_the_chat, of_one_clerk):
        assert by_policy(stack, world, one.case_id) == Left(one.intent_id, "channel_only")
        _waits_for_a_person(stack, world, sandbox, one)
    of_two = _reported(
        stack, world, sandbox, world.tobias.actor, actor=world.priya.actor, channel="counter", reference="till-2"
    )
    assert isinstance(by_policy(stack, world, of_two.case_id), Decision)


def test_a_policy_that_pays_on_announcement_pays_nothing_by_itself_on_a_channels_word(
    stack: Stack, sandbox: Running
) -> None:
    world = generous(stack, "quay", policy={"refund_trigger": "announced"})
    order = paid_order(stack, world, sandbox)
    opened = lives.open_case(stack, world, ((TEE, 1),), order_ref=order.external_ref, customer_verified="signed in")
    one = newest(stack, world, opened.case_id, order)
    assert by_policy(stack, world, one.case_id) == Left(one.intent_id, "channel_only")
    _waits_for_a_person(stack, world, sandbox, one)


def test_a_part_of_a_return_is_a_persons(stack: Stack, world: World, sandbox: Running) -> None:
    order = paid_order(stack, world, sandbox, (Line("SOCK", 2, 2000),))
    opened = lives.open_case(stack, world, (("SOCK", 2),), order_ref=order.external_ref, customer_verified="signed in")
    lives.arrive(stack, world, opened.case_id, ("SOCK", 1))
    one = newest(stack, world, opened.case_id, order)
    assert by_policy(stack, world, one.case_id) == Left(one.intent_id, "not_plain")
    _waits_for_a_person(stack, world, sandbox, one)
    # The other one comes later, and then the whole return is plain.
    lives.arrive(stack, world, opened.case_id, ("SOCK", 1))
    done = by_policy(stack, world, opened.case_id)
    assert isinstance(done, Decision)
    assert done.intent_id != one.intent_id


def test_a_payment_that_does_not_cover_it_is_a_persons(stack: Stack, world: World, sandbox: Running) -> None:
    one = returned(stack, world, sandbox)
    as_administrator(
        stack,
        "UPDATE captures SET available_minor = 1000, disputed_minor = captured_minor - 1000 WHERE charge_ref = %s",
        one.charge,
    )
    Scene(stack, world, sandbox, one).again()
    one = newest(stack, world, one.case_id, one.order)
    assert (one.amount_minor, by_policy(stack, world, one.case_id)) == (1000, Left(one.intent_id, "route"))
    _waits_for_a_person(stack, world, sandbox, one)


def test_an_amount_above_the_rule_or_a_managers_is_a_persons(stack: Stack, world: World, sandbox: Running) -> None:
    lamp = returned(
        stack, world, sandbox, (("LAMP", 1),), order=paid_order(stack, world, sandbox, (Line("LAMP", 1, 5800),))
    )
    assert by_policy(stack, world, lamp.case_id) == Left(lamp.intent_id, "above")
    _waits_for_a_person(stack, world, sandbox, lamp)
    strict = generous(stack, "quay", policy={"routes": {"manager_from_minor": {"GBP": 2000}}})
    tee = returned(stack, strict, sandbox)
    assert by_policy(stack, strict, tee.case_id) == Left(tee.intent_id, "route")
    _waits_for_a_person(stack, strict, sandbox, tee)


@pytest.mark.parametrize(("younger_than", "raised"), [(1_000_000, True), (0, False)])
def test_a_sign_of_risk_raises_what_the_policy_would_approve_to_the_desk(
    stack: Stack, sandbox: Running, younger_than: int, *, raised: bool
) -> None:
    routes = {"auto_enabled": True, "auto_below_minor": {"GBP": 5000}, "manager_from_minor": {"GBP": 25000}}
    signals = {"account_age_days": {"threshold": younger_than}}
    shop = generous(stack, "quay", policy={"routes": routes, "signals": signals})
    one = returned(stack, shop, sandbox)
    done = by_policy(stack, shop, one.case_id)
    assert (isinstance(done, Decision), done == Left(one.intent_id, "route")) == (not raised, raised)
    (intent,) = lives.intents(stack, shop, one.case_id)
    assert intent["route"] == "desk"


def test_a_return_whose_line_was_paid_before_its_turn_came_is_a_persons(
    stack: Stack, world: World, sandbox: Running
) -> None:
    """The policy left it at first; meanwhile a later return of the line was approved and paid, days ago."""
    order = paid_order(stack, world, sandbox, (Line("SOCK", 3, 1500),))
    one = returned(stack, world, sandbox, (("SOCK", 1),), order=order)
    later = returned(stack, world, sandbox, (("SOCK", 1),), order=order, relation="separate")
    lives.approve_as(stack, world, world.priya, later.intent_id)
    with worker_at(stack, sandbox, world) as worker:
        submitter.run_once(worker)
    as_administrator(stack, "UPDATE approval_entries SET at = at - interval '25 hours'")
    assert by_policy(stack, world, one.case_id) == Left(one.intent_id, "line_before")
    assert (state_of(stack, one), state_of(stack, later), refunds_at(sandbox, one)) == ("proposed", "succeeded", 1)


def test_a_separate_return_of_the_same_line_is_a_persons(stack: Stack, world: World, sandbox: Running) -> None:
    order = paid_order(stack, world, sandbox)
    lives.open_case(stack, world, ((TEE, 1),), order_ref=order.external_ref, customer_verified="signed in")
    one = returned(stack, world, sandbox, order=order, relation="separate")
    assert by_policy(stack, world, one.case_id) == Left(one.intent_id, "separate")
    _waits_for_a_person(stack, world, sandbox, one)


def test_a_line_that_money_went_back_for_before_is_a_persons(stack: Stack, world: World, sandbox: Running) -> None:
    order = paid_order(stack, world, sandbox)
    first = returned(stack, world, sandbox, order=order)
    lives.approve_as(stack, world, world.priya, first.intent_id)
    second = returned(stack, world, sandbox, order=order, relation="separate")
    as_administrator(stack, "UPDATE cases SET separate = false")
    assert by_policy(stack, world, second.case_id) == Left(second.intent_id, "line_before")
    assert approvals_of(stack, second) == []


def test_small_returns_of_one_customer_are_not_small_together(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """S22: two of 24.90 within a day are 49.80, which is more than the policy approves by itself."""
    orders = [paid_order(stack, world, sandbox) for _ in range(2)]
    for table in ("orders", "cases"):
        as_administrator(stack, f"UPDATE {table} SET customer_id = %s", world.ilse)  # noqa: S608
    first, second = (returned(stack, world, sandbox, order=order) for order in orders)
    assert isinstance(by_policy(stack, world, first.case_id), Decision)
    assert by_policy(stack, world, second.case_id) == Left(second.intent_id, "sum")
    submitter.run_once(worker)
    assert (refunds_at(sandbox, first), refunds_at(sandbox, second)) == (1, 0)


@pytest.mark.parametrize("tenders", [{"gift_card": 7470}, {"card": 1000, "gift_card": 6470}])
def test_what_is_paid_by_hand_or_in_several_parts_is_a_persons(
    stack: Stack, world: World, sandbox: Running, tenders: dict[str, int]
) -> None:
    order = add_order(
        stack, world, "G-1", lines=(Line(TEE, 3, 7470),), captured=tenders, by_hand=frozenset({"gift_card"})
    )
    opened = lives.open_case(stack, world, ((TEE, 1),), order_ref=order.external_ref, customer_verified="signed in")
    lives.arrive(stack, world, opened.case_id, (TEE, 1))
    done = by_policy(stack, world, opened.case_id)
    assert isinstance(done, Left)
    assert done.reason == ("not_plain" if len(tenders) > 1 else "act")
    assert {row["state"] for row in lives.intents(stack, world, opened.case_id)} == {"proposed"}
    assert creates(sandbox) == []


def test_above_the_days_limit_the_case_waits_for_a_person_until_the_next_business_day(
    stack: Stack, sandbox: Running
) -> None:
    world = generous(stack, "quay", policy={"automatic": {"GBP": {"most_minor": 2500, "day_minor": 5000}}})
    ones = [returned(stack, world, sandbox) for _ in range(4)]
    done = [by_policy(stack, world, one.case_id) for one in ones[:3]]
    assert [type(one) for one in done] == [Decision, Decision, Left]
    assert done[2] == Left(ones[2].intent_id, "day_limit")
    (day,) = as_administrator(stack, "SELECT used_count, used_minor, limit_minor FROM automatic_days")
    assert (day["used_count"], day["used_minor"], day["limit_minor"]) == (2, 4980, 5000)
    with transaction(stack.worker, world.merchant_id, read_only=True) as db:
        shown = {one.name: one.value for one in figures(db, world.merchant_id) if one.name.startswith("automatic_")}
    assert shown == {"automatic_count": 2, "automatic_used": 4980, "automatic_limit": 5000}
    with transaction(stack.owner, world.merchant_id, read_only=True) as db:
        checks = [check for check in CHECKS if check.kind == "person_limit"]
        assert [fault for check in checks for fault in check_step(db, world.merchant_id, check, FIRST_KEY).faults] == []
    said = as_administrator(stack, "SELECT actor, reason FROM events WHERE kind = 'automatic.left'")
    assert said == [{"actor": "policy:quay-usual@1", "reason": "day_limit"}]
    as_administrator(stack, "UPDATE automatic_days SET business_day = business_day - 1")
    with transaction(stack.owner, world.merchant_id, read_only=True) as db:
        (fault,) = [fault for check in checks for fault in check_step(db, world.merchant_id, check, FIRST_KEY).faults]
    assert "it counts 2 approvals over 4980 minor units, its entries are 0 over 0" in fault.text
    assert isinstance(by_policy(stack, world, ones[3].case_id), Decision)


def test_a_policy_without_the_field_approves_nothing_by_itself(stack: Stack, sandbox: Running) -> None:
    world = build_world(stack, "quay", policy=usual_policy("quay-usual"))
    disputes_are_read(stack, world)
    one = returned(stack, world, sandbox)
    assert by_policy(stack, world, one.case_id) is None
    _waits_for_a_person(stack, world, sandbox, one)
    assert as_administrator(stack, "SELECT 1 FROM events WHERE kind = 'automatic.left'") == []


def test_a_person_approves_what_the_policy_left_to_them(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = returned(stack, world, sandbox, grade="C")
    assert by_policy(stack, world, one.case_id) == Left(one.intent_id, "not_plain")
    lives.approve_as(stack, world, world.priya, one.intent_id)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert (row_of(stack, one)["state"], refunds_at(sandbox, one)) == ("succeeded", 1)


def test_the_newest_version_in_force_counts_too(stack: Stack, world: World, sandbox: Running) -> None:
    """An order of the old terms, which name 25.00; those in force now name 20.00."""
    one = returned(stack, world, sandbox)
    superseded(stack, world, "2000")
    assert by_policy(stack, world, one.case_id) == Left(one.intent_id, "above")
    _waits_for_a_person(stack, world, sandbox, one)


def superseded(stack: Stack, world: World, most: str | None) -> None:
    """A second version came into force an hour ago; `most` is what it approves at once, None: nothing."""
    at = datetime.now(UTC).replace(microsecond=0)
    as_administrator(stack, "UPDATE policies SET effective = tstzrange(lower(effective), %s - interval '1 hour')", at)
    as_administrator(
        stack, "INSERT INTO policies SELECT merchant_id, policy_id, 2, tstzrange(upper(effective), NULL),"
        " CASE WHEN %s::text IS NULL THEN document - 'automatic' ELSE jsonb_set(document, '{automatic,GBP,most_minor}', %s::jsonb)"
        " END, digest, author, approver FROM policies WHERE merchant_id = %s", most, most, world.merchant_id,
    )  # fmt: skip
