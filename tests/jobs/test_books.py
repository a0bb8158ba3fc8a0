"""The books against the provider: what is planted on either side is named once, with both sides' figures, and adds up."""

from datetime import timedelta

import requests

from jobs.worker import Worker
from sandbox.client import Running
from tests.books import Month, month
from tests.refunds import as_administrator, balances, state_of
from tests.stack import Stack
from tests.world import World


def plant_each(made: Month) -> dict[str, str]:
    """One of each difference among the refunds of a month; kind to the provider's reference."""
    absent, amount, currency, waiting, failed, late, twice, dashboard = made.paid[:8]
    planted = {
        "missing_there": made.ref(absent), "amount": made.ref(amount), "currency": made.ref(currency),
        "state": made.ref(waiting), "healed": made.ref(failed), "late": made.ref(late),
    }  # fmt: skip
    made.at_provider("delete from refunds where id = ?", made.ref(absent))
    made.at_provider("delete from balance_transactions where source = ?", made.ref(absent))
    made.at_provider("update refunds set amount = amount + 7 where id = ?", made.ref(amount))
    made.at_provider("update balance_transactions set amount = amount - 7 where source = ?", made.ref(amount))
    made.at_provider("update refunds set currency = 'eur' where id = ?", made.ref(currency))
    made.at_provider("update balance_transactions set currency = 'eur' where source = ?", made.ref(currency))
    made.at_provider("update refunds set status = 'pending' where id = ?", made.ref(waiting))
    # A bank returns the money, and nobody tells us.
    made.sandbox.change_refund(made.ref(failed), "failed", "expired_or_canceled_card")
    as_administrator(
        made.stack, "UPDATE transfers SET at = at - interval '5 days' WHERE intent_id = %s", late.intent_id
    )
    again = requests.post(
        f"{made.sandbox.base_url}/v1/refunds",
        {"charge": twice.charge, "amount": "100", "metadata[onceback_intent]": str(twice.intent_id)},
        auth=(made.sandbox.secret_key, ""), timeout=10,
    )  # fmt: skip
    planted["duplicate"] = again.json()["id"]
    planted["missing_here"] = made.sandbox.dashboard_refund(dashboard.payment_intent, 250)["id"]
    # What was just made at the provider lies in the period too.
    made.at_provider("update refunds set created = created - 86400 where id in (?, ?)", *_two(planted))
    made.at_provider("update balance_transactions set created = created - 86400 where source in (?, ?)", *_two(planted))
    made.at_provider("update balance_transactions set created = created - 86400 where type = 'refund_failure'")
    return planted


def _two(planted: dict[str, str]) -> tuple[str, str]:
    return planted["duplicate"], planted["missing_here"]


def test_a_healthy_month_agrees_to_the_last_minor_unit(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=3)

    run_id = made.run()

    assert made.discrepancies() == []
    paid = sum(one.amount_minor for one in made.paid)
    assert made.totals(run_id) == {"refunds": (paid, paid), "movements": (paid, paid)}
    assert sandbox.totals()["gbp"]["refunds"] == 3


def test_one_of_each_difference_is_named_exactly_once_and_the_sums_are_explained(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=9)
    planted = plant_each(made)
    before = sandbox.totals()

    run_id = made.run()

    healed = planted.pop("healed")
    expected = {kind: [ref] for kind, ref in planted.items()}
    expected["state"] = sorted([planted["state"], healed])
    assert {kind: sorted(refs) for kind, refs in made.kinds().items()} == expected
    assert set(made.unexplained(run_id).values()) == {0}
    found = {row["refund_ref"]: row for row in made.discrepancies()}
    outside = planted["missing_here"]
    assert {ref: row["code"] for ref, row in found.items() if row["code"]} == {healed: "healed", outside: "healed"}
    assert as_administrator(
        stack, "SELECT count(*)::int AS n FROM external_refunds WHERE refund_ref = %s", outside
    ) == [{"n": 1}]
    assert found[healed]["actor"] == "system"
    assert "succeeded to reversed" in found[healed]["note"]
    assert found[planted["amount"]]["ours"]["amount_minor"] == "2490"
    assert found[planted["amount"]]["theirs"]["amount_minor"] == "2497"
    # The books follow where the usual way goes, and nowhere else; nothing was made at the provider.
    failed, deleted = made.paid[4], made.paid[0]
    assert state_of(stack, failed) == "reversed"
    assert balances(stack, failed)[1:] == (0, 0)
    assert state_of(stack, deleted) == "succeeded"
    assert sandbox.totals() == before


def test_the_next_run_joins_what_is_open_and_adds_no_row(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=9)
    plant_each(made)
    first = made.run()
    before = made.discrepancies()

    second = made.run()

    assert first != second
    assert made.discrepancies() == before
    assert set(made.unexplained(second).values()) == {0}
    assert made.totals(second)["refunds"] == made.totals(first)["refunds"]


def test_a_difference_that_is_gone_is_resolved_by_a_row_and_not_by_a_change(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker)
    made.at_provider("update refunds set amount = amount + 7 where id = ?", made.ref(made.paid[0]))
    made.run()
    (open_,) = made.discrepancies()
    assert (open_["kind"], open_["code"]) == ("amount", None)
    made.at_provider("update refunds set amount = amount - 7 where id = ?", made.ref(made.paid[0]))

    made.run()

    (row,) = made.discrepancies()
    assert (row["discrepancy_id"], row["code"], row["actor"]) == (open_["discrepancy_id"], "gone", "system")


def test_what_is_resolved_and_still_so_opens_again_as_a_new_row_that_follows_it(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker)
    made.at_provider("update refunds set amount = amount + 7 where id = ?", made.ref(made.paid[0]))
    made.run()
    (open_,) = made.discrepancies()
    as_administrator(
        stack, "INSERT INTO discrepancy_acts (merchant_id, act_id, discrepancy_id, kind, code, actor, staff_id)"
        " VALUES (%s, gen_random_uuid(), %s, 'resolved', 'adopted', %s, %s)", world.merchant_id, open_["discrepancy_id"],
        world.farah.actor, world.farah.staff_id,
    )  # fmt: skip

    made.run()

    first, again = made.discrepancies()
    assert (again["occurrence"], again["follows"], again["code"]) == (2, first["discrepancy_id"], None)
    assert first["code"] == "adopted"


def test_what_was_written_off_stays_explained_while_both_sides_are_as_they_were(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker)
    ref = made.ref(made.paid[0])
    made.at_provider("update refunds set amount = amount + 7 where id = ?", ref)
    made.run()
    (open_,) = made.discrepancies()
    as_administrator(
        stack, "INSERT INTO discrepancy_acts (merchant_id, act_id, discrepancy_id, kind, code, note, actor, staff_id)"
        " VALUES (%s, gen_random_uuid(), %s, 'resolved', 'written_off', 'seven pence', %s, %s)", world.merchant_id,
        open_["discrepancy_id"], world.farah.actor, world.farah.staff_id,
    )  # fmt: skip
    second = made.run()
    assert len(made.discrepancies()) == 1
    assert set(made.unexplained(second).values()) == {0}

    made.at_provider("update refunds set amount = amount + 1 where id = ?", ref)
    made.run()

    assert [row["occurrence"] for row in made.discrepancies()] == [1, 2]


def test_a_period_that_cuts_a_pair_in_two_names_it_timing(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=1)
    (one,) = made.paid
    # Made and moved there an hour before the period, settled here an hour after it began.
    made.at_provider("update refunds set created = ?", int(made.since.timestamp()) - 3600)
    made.at_provider(
        "update balance_transactions set created = ? where type = 'refund'", int(made.since.timestamp()) - 3600
    )
    as_administrator(stack, "UPDATE transfers SET at = %s", made.since + timedelta(hours=1))

    run_id = made.run()

    (row,) = made.discrepancies()
    assert (row["kind"], row["code"], row["actor"]) == ("late", "timing", "system")
    assert made.totals(run_id) == {"movements": (one.amount_minor, 0)}
    assert set(made.unexplained(run_id).values()) == {0}
