"""A version of a policy: drafted by one manager, approved by another, in force from then on, and what it decides."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.assessment import work_out_again
from ledger.database import run, scalar, transaction
from ledger.errors import BadInput, NotAllowed, SamePerson, WrongState
from ledger.policy_changes import raised
from ledger.policy_publishing import Held
from ledger.policy_terms import TermsRefused
from tests import lives
from tests.policies import answered, categorised, decided, drafted, in_force, returned, sold_now, undecided, versions
from tests.raises import PAIRS
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World, add_order, build_world, usual_policy

USUAL = "harbour-usual"
STRICTER = {"grade_bps": {"C": 5000, "D": 10000}}


def test_a_version_replaces_the_one_before_at_the_instant_of_its_approval(stack: Stack, world: World) -> None:
    in_force(stack, world, STRICTER)
    assert versions(stack, world) == [(USUAL, 1, False), (USUAL, 2, True)]
    ranges = as_administrator(
        stack, "SELECT upper(a.effective) = lower(b.effective) AS meet, b.author, b.approver FROM policies a"
        " JOIN policies b ON b.version = 2 WHERE a.version = 1",
    )  # fmt: skip
    assert ranges == [{"meet": True, "author": world.mara.actor, "approver": world.jonas.actor}]


def test_a_case_keeps_the_version_it_was_decided_under_and_a_later_sale_has_the_new_one(
    stack: Stack, world: World
) -> None:
    before = returned(stack, world, world.order, "chat-1")
    in_force(stack, world, STRICTER)
    later = add_order(stack, world, "A-2")
    sold_now(stack, later)
    after = returned(stack, world, later, "chat-2")
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, before, world.priya.actor)
    assert [decided(stack, world, one)["policy_version"] for one in (before, after)] == [1, 2]
    # Asked for today, of a sale of before: the terms are those of the sale.
    third = returned(stack, world, add_order(stack, world, "A-3"), "chat-3")
    assert decided(stack, world, third)["policy_version"] == 1


def test_the_drafter_never_approves_and_the_database_says_so_too(stack: Stack, world: World) -> None:
    draft_id = drafted(stack, world, STRICTER)
    with pytest.raises(SamePerson):
        answered(stack, world, draft_id, world.mara)
    statement = (
        "INSERT INTO policy_answers (merchant_id, draft_id, answer, drafted_by, staff_id, raises, note)"
        " VALUES (:m, :d, 'approved', :by, :by, false, '')"
    )
    with (
        pytest.raises(IntegrityError, match="another_person_approves"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        run(db, statement, m=world.merchant_id, d=draft_id, by=world.mara.staff_id)
    assert versions(stack, world) == [(USUAL, 1, True)]
    without(stack, "ALTER TABLE policy_answers DROP CONSTRAINT another_person_approves",
            "ALTER TABLE policy_answers DROP CONSTRAINT the_drafter_withdraws",
            "ALTER TABLE policies DROP CONSTRAINT policies_check")  # fmt: skip
    with transaction(stack.console, world.merchant_id) as db:
        run(db, statement, m=world.merchant_id, d=draft_id, by=world.mara.staff_id)
    assert versions(stack, world) == [(USUAL, 1, False), (USUAL, 2, True)]


@pytest.mark.parametrize("who", ["priya", "farah", "rita", "ada"])
def test_only_managers_draft_and_approve(stack: Stack, world: World, who: str) -> None:
    person = getattr(world, who)
    with pytest.raises(NotAllowed):
        drafted(stack, world, STRICTER, by=person)
    draft_id = drafted(stack, world, STRICTER)
    with pytest.raises(NotAllowed):
        answered(stack, world, draft_id, person)
    assert versions(stack, world) == [(USUAL, 1, True)]


def test_a_draft_is_withdrawn_by_its_drafter_or_turned_down_by_another_and_stays_on_the_record(
    stack: Stack, world: World
) -> None:
    first, second = (drafted(stack, world, STRICTER) for _ in range(2))
    with pytest.raises(NotAllowed):
        answered(stack, world, first, world.jonas, "withdrawn")
    with pytest.raises(NotAllowed):
        answered(stack, world, first, world.mara, "turned_down")
    answered(stack, world, first, world.mara, "withdrawn")
    answered(stack, world, second, world.jonas, "turned_down", "Too strict")
    assert answered(stack, world, second, world.jonas, "turned_down") is None
    with pytest.raises(WrongState):
        answered(stack, world, first, world.jonas)
    kept = as_administrator(stack, "SELECT answer, note FROM policy_answers ORDER BY answer")
    assert kept == [{"answer": "turned_down", "note": "Too strict"}, {"answer": "withdrawn", "note": ""}]
    assert versions(stack, world) == [(USUAL, 1, True)]


def test_of_two_drafts_from_one_version_the_second_has_to_be_made_anew(stack: Stack, world: World) -> None:
    first = drafted(stack, world, STRICTER)
    second = drafted(stack, world, {"window": {"days": 10}}, by=world.jonas)
    answered(stack, world, first, world.jonas)
    with pytest.raises(WrongState, match="drafted anew"):
        answered(stack, world, second, world.mara)
    assert versions(stack, world) == [(USUAL, 1, False), (USUAL, 2, True)]


def test_a_version_begins_on_its_day_and_ends_on_its_day(stack: Stack, world: World) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    in_force(stack, world, STRICTER, begins=soon, ends=soon + timedelta(days=10))
    assert versions(stack, world) == [(USUAL, 1, True), (USUAL, 2, False)]
    with pytest.raises(BadInput, match="harbour-usual@2 begins on"):
        drafted(stack, world, {"window": {"days": 10}})
    with pytest.raises(BadInput, match="ends: has to be after"):
        drafted(stack, world, {"window": {"days": 10}}, begins=soon, ends=soon)
    with pytest.raises(BadInput, match="begins: harbour-usual@1 decides what was sold then"):
        drafted(stack, world, {"window": {"days": 10}}, begins=datetime(2026, 5, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "more",
    [
        {"routes": {"manager_from_minor": {"GBP": 30000, "EUR": 25000}}},
        {"automatic": {"GBP": {"most_minor": 1000, "day_minor": 5000}}},
    ],
    ids=["a desk decides more", "the policy approves by itself"],
)
def test_what_lets_people_approve_more_binds_from_the_next_business_day(
    stack: Stack, world: World, more: dict[str, Any]
) -> None:
    in_force(stack, world, more)
    begins = as_administrator(
        stack, "SELECT lower(effective) = ((now() AT TIME ZONE 'Europe/London')::date + 1)::timestamp AT TIME ZONE 'Europe/London'"
        " AS tomorrow FROM policies WHERE version = 2",
    )  # fmt: skip
    assert begins == [{"tomorrow": True}]


LOOSER: dict[str, dict[str, Any]] = {
    "a desk decides more": {"routes": {"manager_from_minor": {"GBP": 30000, "EUR": 25000}}},
    "splitting pays": {"routes": {"manager_from_minor": {"GBP": 25000, "EUR": 25000}, "sum_over": ["order_lifetime"]}},
    "a sign counts later": {"signals": {"refunds_30d": {"threshold": 9}}},
}


@pytest.mark.parametrize("believed", [False, True])
@pytest.mark.parametrize("more", LOOSER)
def test_a_draft_whose_row_says_that_it_raises_nothing_is_compared_anew_when_it_is_approved(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch, more: str, believed: bool
) -> None:
    """The control believes the row, and what the console says of it: then what lets more be approved is in force at once."""
    in_force(stack, world, {"signals": {}})
    changed: dict[str, Any] = {"signals": {}, **LOOSER[more]}
    draft_id = drafted(stack, world, changed)
    as_administrator(stack, "ALTER TABLE policy_drafts DISABLE TRIGGER append_only")
    as_administrator(stack, "UPDATE policy_drafts SET raises = false WHERE draft_id = %s", draft_id)
    monkeypatch.setattr("ledger.policy_publishing.raises_now", lambda *_: False)
    if believed:
        without(stack, "ALTER TABLE policy_answers DISABLE TRIGGER raises_as_found")
    answered(stack, world, draft_id, world.jonas)
    assert versions(stack, world)[2] == (USUAL, 3, believed)


def test_the_console_compares_the_draft_by_itself_where_the_database_would_not(stack: Stack, world: World) -> None:
    draft_id = drafted(stack, world, LOOSER["a desk decides more"])
    as_administrator(stack, "ALTER TABLE policy_drafts DISABLE TRIGGER append_only")
    as_administrator(stack, "UPDATE policy_drafts SET raises = false WHERE draft_id = %s", draft_id)
    without(stack, "ALTER TABLE policy_answers DISABLE TRIGGER raises_as_found")
    answered(stack, world, draft_id, world.jonas)
    assert versions(stack, world)[1] == (USUAL, 2, False)


def test_the_database_finds_what_lets_more_be_approved_as_the_console_does(shared: Stack) -> None:
    """Each of the known pairs, each the other way round, and two hundred that are put together of them."""
    chosen = random.Random(20261201)  # noqa: S311
    parts = [document for old, new, _ in PAIRS for document in (old, new)]
    mixed = [
        tuple({name: value for one in chosen.sample(parts, 3) for name, value in one.items()} for _ in range(2))
        for _ in range(200)
    ]
    pairs = [(old, new) for old, new, _ in PAIRS] + [(new, old) for old, new, _ in PAIRS] + mixed
    found = as_administrator(
        shared, "SELECT policy_allows_more(was, wanted) AS more FROM unnest(%s::jsonb[], %s::jsonb[]) WITH ORDINALITY"
        " pairs (was, wanted, place) ORDER BY place",
        [json.dumps(old) for old, _ in pairs], [json.dumps(new) for _, new in pairs],
    )  # fmt: skip
    assert [row["more"] for row in found] == [bool(raised(old, new)) for old, new in pairs]


def test_a_draft_that_cannot_be_read_is_not_published(stack: Stack, world: World) -> None:
    draft_id = drafted(stack, world, STRICTER)
    as_administrator(stack, "ALTER TABLE policy_drafts DISABLE TRIGGER append_only")
    as_administrator(stack, 'UPDATE policy_drafts SET document = \'{"refund_trigger": "whenever"}\'')
    with pytest.raises(WrongState, match="cannot be read"):
        answered(stack, world, draft_id, world.jonas)
    assert versions(stack, world) == [(USUAL, 1, True)]


def test_a_raise_that_begins_later_does_not_come_at_once_through_the_version_after_it(
    stack: Stack, world: World
) -> None:
    more = {"routes": {"manager_from_minor": {"GBP": 30000, "EUR": 25000}}}
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    in_force(stack, world, more, begins=later)
    # Says no more than version 2, and more than what is in force when it is to begin.
    in_force(stack, world, {**more, **STRICTER}, ends=later)
    assert versions(stack, world) == [(USUAL, 1, True), (USUAL, 2, False), (USUAL, 3, False)]


def test_a_gap_between_two_versions_is_filled_by_terms_that_raise_nothing(stack: Stack, world: World) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    as_administrator(stack, "ALTER TABLE policies DISABLE TRIGGER append_only")
    as_administrator(stack, "UPDATE policies SET effective = tstzrange(lower(effective), %s)", today)
    more = {"routes": {"manager_from_minor": {"GBP": 30000, "EUR": 25000}}}
    with pytest.raises(BadInput, match="begins: it lets more be approved than the version before"):
        drafted(stack, world, more, begins=today)
    in_force(stack, world, STRICTER, begins=today)
    assert versions(stack, world) == [(USUAL, 1, False), (USUAL, 2, True)]


def test_limits_that_a_second_policy_brings_are_no_raise_beside_those_of_the_first_and_one_beside_none(
    stack: Stack,
) -> None:
    much = {"desk": {"GBP": {"hour": {"count": 9999, "minor": 99_999_999}}}}
    beside = {"policy_id": "second", "priority": 5, "routes": "absent"}
    world = build_world(stack)
    in_force(stack, world, beside | {"limits": much})
    assert versions(stack, world) == [(USUAL, 1, True), ("second", 1, True)]
    # A shop whose people have the defaults.
    world = build_world(stack, policy={**usual_policy("quay-usual"), "limits": {}}, slug="quay")
    in_force(stack, world, beside | {"limits": much})
    assert versions(stack, world) == [("quay-usual", 1, True), ("second", 1, False)]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"window": {"days": -1}}, "window.days"),
        ({"windows": {"days": 9}}, "windows"),
        ({"refund_trigger": "whenever"}, "refund_trigger"),
        ({"routes": {"manager_from": {"GBP": 1}}}, "routes.manager_from"),
        ({"statutes": ["eu_withdrawal@9"]}, "statutes"),
        ({"holiday_calendar": "MARS@2026"}, "holiday_calendar"),
        ({"signals": {"moon_phase": {"threshold": 1}}}, "signals.moon_phase"),
        ({"select": {"regions": ["Germany"]}}, "select.regions"),
        ({"extends": "harbour-usual@9"}, "extends"),
        ({"version": 9}, "version"),
        ({"status": "retired"}, "status"),
        ({"policy_id": "Not A Name"}, "policy_id"),
        ({"policy_id": "absent"}, "policy_id"),
        ({"effective_from": "2026-01-01T00:00:00Z"}, "effective_from"),
        ({"limits": {"desk": {"GBP": {"hour": {"count": -1, "minor": 5}}}}}, "limits.desk.GBP.hour.count"),
        ({"automatic": {"GBP": {"most_minor": 5}}}, "automatic.GBP.day_minor"),
        ({"shipping": "sometimes"}, "shipping"),
        ({}, "document"),
    ],
)
def test_a_document_that_cannot_be_is_refused_by_the_name_of_its_field_and_nothing_is_kept(
    stack: Stack, world: World, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(TermsRefused) as refused:
        drafted(stack, world, change)
    assert [problem.field[: len(field)] for problem in refused.value.problems] == [field]
    assert all(len(problem.say) > 5 for problem in refused.value.problems)
    assert as_administrator(stack, "SELECT count(*) AS n FROM policy_drafts") == [{"n": 0}]


def test_a_document_is_laid_over_the_one_it_extends(stack: Stack, world: World) -> None:
    in_force(stack, world, {
        "policy_id": "lamps", "extends": "harbour-usual@1", "select": {"categories": ["lamps"]}, "window": {"days": 10},
        "refund_trigger": "absent", "grade_bps": "absent", "title": "Lamps",
    })  # fmt: skip
    (row,) = as_administrator(stack, "SELECT document FROM policies WHERE policy_id = 'lamps'")
    flat = row["document"]
    assert (flat["refund_trigger"], flat["grade_bps"]) == ("received", {"C": 3000, "D": 10000})
    assert flat["window"] == {"days": 10, "starts": "placed"}
    assert flat["extends"] == "harbour-usual@1"


def test_the_most_specific_policy_decides(stack: Stack, world: World) -> None:
    in_force(stack, world, {"policy_id": "lamps", "select": {"categories": ["lamps"]}, "refund_trigger": "announced"})
    as_administrator(stack, "UPDATE policies SET effective = tstzrange('2026-01-01', NULL)")
    categorised(stack, world, "A-7", {"TEE": "apparel", "LAMP": "lamps"})
    for line, policy in (("TEE", USUAL), ("LAMP", "lamps")):
        opened = lives.open_case(
            stack, world, ((line, 1),), order_ref="A-7", reference=f"chat-{line}", relation="separate"
        )
        assert decided(stack, world, opened.case_id)["policy_id"] == policy
    both = lives.open_case(stack, world, (("TEE", 1),), order_ref="A-7", reference="chat-more", relation="separate")
    as_administrator(stack, "UPDATE case_items SET live = false WHERE case_id <> %s", both.case_id)
    assert decided(stack, world, both.case_id)["policy_id"] == USUAL


NOTHING_DECIDES = {
    "missing": "DELETE FROM policies",
    "ended": "UPDATE policies SET effective = tstzrange('2026-01-01', '2026-02-01')",
    "begins": "UPDATE policies SET effective = tstzrange('2026-11-30', NULL)",
    "unreadable": 'UPDATE policies SET document = document || \'{"refund_trigger": "whenever"}\'',
    "none_fits": 'UPDATE policies SET document = document || \'{"select": {"regions": ["FR"]}}\'',
    "tie": "INSERT INTO policies SELECT merchant_id, 'another', version, effective, document, digest, author, approver"
    " FROM policies",
}


@pytest.mark.parametrize("reason", NOTHING_DECIDES)
def test_a_policy_that_is_not_there_over_or_unreadable_decides_nothing_and_a_person_looks(
    stack: Stack, world: World, reason: str
) -> None:
    as_administrator(stack, NOTHING_DECIDES[reason])
    case_id = returned(stack, world, world.order, "chat-1")
    assert undecided(stack, case_id) == ("needs_person", reason)
    assert lives.intents(stack, world, case_id) == []
    # Once one is there the person works it out.
    as_administrator(stack, "DELETE FROM policies")
    with transaction(stack.owner, world.merchant_id) as db:
        run(db, "INSERT INTO policies (merchant_id, policy_id, version, effective, document, digest, author, approver)"
            " VALUES (:m, 'later', 1, tstzrange('2026-01-01', NULL), CAST(:doc AS jsonb), sha256('x'), 'Mara', 'Jonas')",
            m=world.merchant_id, doc=json.dumps(usual_policy("later")))  # fmt: skip
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, case_id, world.priya.actor)
    assert [one["policy_id"] for one in lives.intents(stack, world, case_id)] == ["later"]


def test_what_was_proposed_is_called_back_when_its_policy_cannot_be_read_any_more(stack: Stack, world: World) -> None:
    case_id = returned(stack, world, world.order, "chat-1")
    assert [one["state"] for one in lives.intents(stack, world, case_id)] == ["proposed"]
    as_administrator(stack, "UPDATE policies SET document = document || '{\"grade_bps\": 7}'")
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, case_id, world.priya.actor)
    assert [one["state"] for one in lives.intents(stack, world, case_id)] == ["withdrawn"]
    assert undecided(stack, case_id) == ("needs_person", "unreadable")


def test_routes_are_todays_and_terms_those_of_the_sale(stack: Stack, world: World) -> None:
    in_force(stack, world, {"routes": {"manager_from_minor": {"GBP": 2000, "EUR": 25000}}, **STRICTER})
    case_id = returned(stack, world, world.order, "chat-1")
    (intent,) = lives.intents(stack, world, case_id)
    assert (intent["policy_version"], intent["route"]) == (1, "manager")
    route = decided(stack, world, case_id)["record"]["route"]
    assert route == {
        "level": "manager",
        "because": ["routes.manager_from_minor: 2490 of 2000"],
        "of": "harbour-usual@2",
    }


def test_a_limit_that_fell_since_counts_at_the_approval(stack: Stack, world: World) -> None:
    (intent,) = lives.intents(stack, world, returned(stack, world, world.order, "chat-1"))
    assert intent["route"] == "desk"
    in_force(stack, world, {"routes": {"manager_from_minor": {"GBP": 2000, "EUR": 25000}}})
    with pytest.raises(NotAllowed, match="Hand it to a manager"):
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
    assert lives.approve_as(stack, world, world.jonas, intent["intent_id"]).state == "approved"


def test_at_the_request_and_whatever_is_better_are_what_the_terms_of_the_sale_say(stack: Stack) -> None:
    paid = {}
    for basis in ("at_sale", "at_request", "better_of"):
        world = build_world(stack, f"shop-{basis.replace('_', '-')}", policy=usual_policy("p") | {"terms_basis": basis})
        in_force(stack, world, {"policy_id": world.policy_id, "grade_bps": {"B": 1000}, "terms_basis": basis})
        opened = lives.open_case(stack, world, (("TEE", 1),))
        lives.arrive(stack, world, opened.case_id, ("TEE", 1), grade="B")
        found = decided(stack, world, opened.case_id)
        paid[basis] = (found["policy_version"], found["total_minor"])
    assert paid["at_sale"] == paid["better_of"] == (1, 2490)
    assert paid["at_request"][0] == 2


def test_nobody_writes_a_version_or_its_time_in_another_way(stack: Stack, world: World) -> None:
    for statement in (
        "UPDATE policies SET effective = tstzrange(lower(effective), now() + interval '1 day') WHERE merchant_id = :m",
        "UPDATE policies SET document = '{}' WHERE merchant_id = :m",
        "DELETE FROM policies WHERE merchant_id = :m",
    ):
        with pytest.raises(DBAPIError, match="append-only"), transaction(stack.owner, world.merchant_id) as db:
            run(db, statement, m=world.merchant_id)
    insert = (
        "INSERT INTO policies SELECT merchant_id, 'mine', 1, effective, document, digest, author, approver FROM policies"
        " WHERE merchant_id = :m"
    )
    with pytest.raises(DBAPIError, match="permission denied"), transaction(stack.console, world.merchant_id) as db:
        run(db, insert, m=world.merchant_id)
    with (
        pytest.raises(IntegrityError, match="one sale could fall under two"),
        transaction(stack.owner, world.merchant_id) as db,
    ):
        run(db, insert, m=world.merchant_id)
    with transaction(stack.owner, world.merchant_id) as db:
        assert scalar(db, "SELECT count(*) FROM policies") == 1


def test_money_before_receipt_is_by_product_and_up_to_its_maximum(stack: Stack, world: World) -> None:
    lamps = {"policy_id": "lamps", "select": {"categories": ["lamps"]}, "refund_trigger": "announced", "shipping": {}}
    in_force(
        stack, world, lamps | {"advance_max_minor": {"GBP": 6000}, "signals": {"account_age_days": {"threshold": 0}}}
    )
    as_administrator(stack, "UPDATE policies SET effective = tstzrange('2026-01-01', NULL)")
    categorised(stack, world, "A-7", {"TEE": "apparel", "LAMP": "lamps"})
    lamp = lives.open_case(stack, world, (("LAMP", 1),), order_ref="A-7", reference="chat-lamp")
    shirt = lives.open_case(stack, world, (("TEE", 1),), order_ref="A-7", reference="chat-shirt", relation="separate")
    assert [one["amount_minor"] for one in lives.intents(stack, world, lamp.case_id)] == [5800]
    assert lives.intents(stack, world, shirt.case_id) == []
    assert decided(stack, world, lamp.case_id)["record"]["route"]["level"] == "staff"
    # The next version pays less before receipt: what is above is a manager's, and the amount stays.
    in_force(
        stack, world, lamps | {"advance_max_minor": {"GBP": 5000}, "signals": {"account_age_days": {"threshold": 0}}}
    )
    categorised(stack, world, "A-9", {"LAMP": "lamps"})
    above = lives.open_case(stack, world, (("LAMP", 1),), order_ref="A-9", reference="chat-above")
    (intent,) = lives.intents(stack, world, above.case_id)
    assert (intent["amount_minor"], intent["policy_version"], intent["route"]) == (5800, 2, "manager")
    route = decided(stack, world, above.case_id)["record"]["route"]
    assert route["because"] == ["advance.within:more_than_may_be_paid_before_receipt"]


def test_a_version_that_lets_people_approve_less_holds_what_was_approved_beyond_it(stack: Stack, world: World) -> None:
    approved = []
    for number in range(2):
        order = add_order(stack, world, f"H-{number}")
        (intent,) = lives.intents(stack, world, returned(stack, world, order, f"chat-{number}"))
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
        approved.append(intent["intent_id"])
    limits = {role: {"GBP": {"hour": {"count": 1, "minor": 100000}}} for role in ("desk", "manager")}
    draft_id = drafted(stack, world, {"limits": limits})
    held = answered(stack, world, draft_id, world.jonas)
    begins = as_administrator(stack, "SELECT lower(effective) <= now() AS now FROM policies WHERE version = 2")
    assert (held, begins) == (Held(1, 0), [{"now": True}])
    assert [lives.state(stack, world, one) for one in approved] == ["approved", "held"]
