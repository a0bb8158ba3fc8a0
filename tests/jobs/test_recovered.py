"""What a recovery owes afterwards: the cap of the lost days, what only people can close, who may sign in, and books that agree."""

import threading
from typing import Any

import pytest
from click.testing import CliRunner, Result

from administration import staff
from books_commands import ledger as ledger_commands
from jobs import outside, submitter
from jobs.recovered import recovered
from jobs.schedule import PERIODIC, run_job
from ledger import recovery
from ledger.database import transaction
from ledger.errors import AlreadyRefunded, WrongState
from ledger.recovery_refunds import close_by_people
from sandbox.client import Running
from tests import lives
from tests.jobs.calls import gateway_at
from tests.jobs.test_recover import lets_everybody_in, run_recover, send
from tests.orders import TEE, Line, Order
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    balances,
    creates,
    make_due,
    make_readings_due,
    paid_order,
    refunds_at,
    row_of,
    state_of,
    worker_at,
)
from tests.restores import back_up, forget, restore
from tests.stack import Stack
from tests.world import World, add_order


def run_command(stack: Stack, command: Any, *words: str, **environment: str) -> Result:
    given = {"ENVIRONMENT": "test", "DATABASE_URL": stack.owner_url, "SEAL_KEY": None, **environment}
    return CliRunner().invoke(command, list(words), env=given)


def close(stack: Stack, sandbox: Running, world: World, ref: str, *more: str, second: str = "Ravi") -> Result:
    keys = f'{{"{world.slug}": "{sandbox.secret_key}"}}'
    return run_command(
        stack, recovered, "close", world.slug, ref, "--engineers", "Ute", second, *more,
        PROVIDER_KEYS=keys, PROVIDER_BASE_URL=sandbox.base_url,
    )  # fmt: skip


def books_agree(stack: Stack) -> bool:
    """`flask ledger verify`, as an engineer runs it after a recovery."""
    return run_command(stack, ledger_commands, "verify").exit_code == 0


def cap_used(stack: Stack) -> list[int]:
    """What the days count, one after the other."""
    return [
        row["used_minor"] for row in as_administrator(stack, "SELECT used_minor FROM cap_days ORDER BY business_day")
    ]


def test_a_refund_that_was_rebuilt_counts_in_the_cap_of_its_day_until_it_comes_back(
    stack: Stack, world: World, sandbox: Running
) -> None:
    order = paid_order(stack, world, sandbox)
    backup = back_up(stack)
    lost = approved(stack, world, sandbox, 2, order=order)
    send(stack, sandbox, world)
    ref = row_of(stack, lost)["provider_refund_ref"]
    restore(stack, backup)
    assert cap_used(stack) == []

    assert run_recover(stack, sandbox, world).exit_code == 0

    assert cap_used(stack) == [lost.amount_minor]
    assert balances(stack, lost)[2] == lost.amount_minor
    assert books_agree(stack)
    assert run_recover(stack, sandbox, world).exit_code == 0
    assert cap_used(stack) == [lost.amount_minor]

    lets_everybody_in(stack)
    sandbox.change_refund(ref, "failed", "expired_or_canceled_card")
    with worker_at(stack, sandbox, world) as worker:
        make_readings_due(stack)
        outside.run_once(worker)
    assert (cap_used(stack), balances(stack, lost)[2]) == ([0], 0)
    assert books_agree(stack)
    assert refunds_at(sandbox, lost) == 1
    forget(backup)


def test_a_day_whose_raise_was_lost_is_full_and_never_past_its_limit(
    stack: Stack, world: World, sandbox: Running
) -> None:
    order, next_order = paid_order(stack, world, sandbox), paid_order(stack, world, sandbox)
    as_administrator(stack, "UPDATE caps SET limit_minor = 3000")
    backup = back_up(stack)
    as_administrator(stack, "UPDATE caps SET limit_minor = 9000")
    lost = approved(stack, world, sandbox, 2, order=order)
    send(stack, sandbox, world)
    restore(stack, backup)
    assert run_recover(stack, sandbox, world).exit_code == 0
    assert cap_used(stack) == [3000]
    (entry,) = as_administrator(stack, "SELECT amount_minor, counted_minor FROM recovered_cap_entries")
    assert entry == {"amount_minor": lost.amount_minor, "counted_minor": 3000}
    assert books_agree(stack)

    lets_everybody_in(stack)
    as_administrator(stack, "UPDATE captures SET verified_generation = 2")
    assert state_of(stack, approved(stack, world, sandbox, 1, order=next_order)) == "held"
    forget(backup)


def long_order(stack: Stack, world: World, sandbox: Running) -> tuple[Order, tuple[Line, ...]]:
    """An order whose units are too many for the provider's metadata."""
    many = tuple(Line(f"LINE-{number:03d}-{'x' * 20}", 1, 100) for number in range(30))
    return paid_order(stack, world, sandbox, lines=many), many


def approved_whole(stack: Stack, world: World, order: Order, lines: tuple[Line, ...]) -> Proposed:
    row = lives.propose(stack, world, tuple((line.ref, 1) for line in lines), order=order, reference="chat-long")
    lives.approve_as(stack, world, world.mara, row["intent_id"])
    return Proposed(
        row["case_id"], row["intent_id"], row["payment_intent_ref"], row["charge_ref"], row["amount_minor"], row["currency"],
        row["provider_key"], order,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["named", "whole"])
def test_two_engineers_close_a_refund_of_which_the_provider_keeps_a_digest(
    stack: Stack, world: World, sandbox: Running, how: str
) -> None:
    order, lines = long_order(stack, world, sandbox)
    backup = back_up(stack)
    lost = approved_whole(stack, world, order, lines)
    send(stack, sandbox, world)
    ref = str(row_of(stack, lost)["provider_refund_ref"])
    restore(stack, backup)
    assert "1 by hand" in run_recover(stack, sandbox, world).output
    # Its money is gone and counted already; its units are not held yet.
    assert (balances(stack, lost)[2], cap_used(stack)) == (lost.amount_minor, [lost.amount_minor])
    listed = run_command(stack, recovered, "list", world.slug)
    assert (listed.exit_code, ref in listed.output, "1 wait for people." in listed.output) == (0, True, True)

    named = [word for line in lines for word in ("--units", f"{line.ref}[0,1)")]
    assert "name two people" in close(stack, sandbox, world, ref, "--whole", second="ute ").output
    assert "name them, or say" in close(stack, sandbox, world, ref).output
    assert "another digest than of these" in close(stack, sandbox, world, ref, *named[:-2]).output
    assert as_administrator(stack, "SELECT 1 FROM case_items WHERE live") == []
    done = close(stack, sandbox, world, ref, *(named if how == "named" else ["--whole"]))

    assert (done.exit_code, f"{ref} is rebuilt." in done.output) == (0, True), done.output
    assert len(as_administrator(stack, "SELECT 1 FROM case_items WHERE live")) == len(lines)
    (kept,) = as_administrator(stack, "SELECT * FROM recovered_refunds WHERE outcome = 'rebuilt'")
    assert (kept["first_engineer"], kept["second_engineer"], len(kept["units"])) == ("Ute", "Ravi", len(lines))
    assert "recovered_by_hand" not in alarms(stack)
    assert "waits for nobody" in close(stack, sandbox, world, ref, "--whole").output
    assert (balances(stack, lost)[2], cap_used(stack)) == (lost.amount_minor, [lost.amount_minor])
    assert books_agree(stack)
    lets_everybody_in(stack)
    with pytest.raises(AlreadyRefunded):
        lives.open_case(stack, world, ((lines[0].ref, 1),), order_ref=order.external_ref, reference="chat-again")
    assert refunds_at(sandbox, lost) == 1
    forget(backup)


def test_of_two_closings_at_once_the_second_finds_it_closed(stack: Stack, world: World, sandbox: Running) -> None:
    """Ute and Ravi name the units; two others say meanwhile that the order is consumed whole, which it is not."""
    order, lines = long_order(stack, world, sandbox)
    backup = back_up(stack)
    lost = approved_whole(stack, world, order, lines[:-1])
    send(stack, sandbox, world)
    ref = str(row_of(stack, lost)["provider_refund_ref"])
    restore(stack, backup)
    run_recover(stack, sandbox, world)
    with transaction(stack.owner) as db:
        (account,) = recovery.accounts(db)
    refund = gateway_at(sandbox.base_url, sandbox.secret_key).retrieve(account, ref)
    closed, waits = threading.Event(), threading.Event()

    def first() -> str:
        with transaction(stack.owner, world.merchant_id) as db:
            named = [(line.ref, 0, 1) for line in lines[:-1]]
            outcome = close_by_people(db, account, refund, ("Ute", "Ravi"), named, whole=False)
            closed.set()
            waits.wait(0.5)
            return outcome

    def second() -> str:
        assert closed.wait(5)
        with transaction(stack.owner, world.merchant_id) as db:
            return close_by_people(db, account, refund, ("Ann", "Bo"), None, whole=True)

    raced = lives.race(first, second)
    assert (raced.results, [type(refused) for refused in raced.refusals]) == (["rebuilt"], [WrongState])
    assert len(as_administrator(stack, "SELECT 1 FROM case_items WHERE live")) == len(lines) - 1
    assert (balances(stack, lost)[2], refunds_at(sandbox, lost)) == (lost.amount_minor, 1)
    forget(backup)


def test_a_refund_whose_order_came_later_is_closed_without_another_recovery(
    stack: Stack, world: World, sandbox: Running
) -> None:
    backup = back_up(stack)
    lost = approved(stack, world, sandbox)
    send(stack, sandbox, world)
    ref = str(row_of(stack, lost)["provider_refund_ref"])
    restore(stack, backup)
    assert "its order is not here" in run_recover(stack, sandbox, world).output
    assert "its order is not here" in close(stack, sandbox, world, ref).output
    # The shop sends it again, with the payment that it was paid by.
    order = add_order(stack, world, lost.order.external_ref, lines=(Line(TEE, 3, 7470),))
    as_administrator(
        stack, "UPDATE captures SET payment_intent_ref = %s, charge_ref = %s WHERE capture_id = %s", lost.payment_intent,
        lost.charge, order.captures["card"],
    )  # fmt: skip

    assert f"{ref} is rebuilt." in close(stack, sandbox, world, ref).output

    assert as_administrator(stack, "SELECT generation FROM deployment") == [{"generation": 2}]
    assert balances(stack, lost)[2] == lost.amount_minor
    assert books_agree(stack)
    assert refunds_at(sandbox, lost) == 1
    forget(backup)


def test_three_refunds_sent_after_the_dump_are_never_sent_again_and_the_books_agree(
    stack: Stack, world: World, sandbox: Running
) -> None:
    """Dump, three refunds, restore, start a worker: before and after the recovery the provider is asked for nothing."""
    send(stack, sandbox, world)
    in_dump = [approved(stack, world, sandbox) for _ in range(2)]
    order = paid_order(stack, world, sandbox)
    dump = back_up(stack)
    lost = approved(stack, world, sandbox, order=order)
    send(stack, sandbox, world)
    three = [*in_dump, lost]
    assert [refunds_at(sandbox, one) for one in three] == [1, 1, 1]
    restore(stack, dump)
    calls = len(creates(sandbox))

    make_due(stack)
    with worker_at(stack, sandbox, world) as worker:
        assert submitter.run_once(worker) == {"not_standing": 1}
    assert len(creates(sandbox)) == calls

    assert run_recover(stack, sandbox, world).exit_code == 0
    assert books_agree(stack)
    assert cap_used(stack) == [sum(one.amount_minor for one in three)]
    lets_everybody_in(stack)
    make_due(stack)
    make_readings_due(stack)
    with worker_at(stack, sandbox, world) as worker:
        for periodic in PERIODIC * 2:
            run_job(periodic, worker)
    assert len(creates(sandbox)) == calls
    assert [refunds_at(sandbox, one) for one in three] == [1, 1, 1]
    assert [balances(stack, one)[2] for one in three] == [one.amount_minor for one in three]
    assert books_agree(stack)
    forget(dump)


def test_after_a_recovery_people_are_let_in_one_by_one_on_the_record_and_leavers_stay_out(
    stack: Stack, world: World, sandbox: Running
) -> None:
    """The backup has Tobias, who has left since, as if he had not."""
    assert run_recover(stack, sandbox, world).exit_code == 0
    words = ("enable", world.priya.email, "--by", "Ute", "--reason", "Mara Velthuis says she works here")
    assert run_command(stack, staff, *words).exit_code == 0

    can = as_administrator(stack, "SELECT staff_id FROM staff WHERE disabled_at IS NULL")
    assert [row["staff_id"] for row in can] == [world.priya.staff_id]
    kept = as_administrator(stack, "SELECT staff_id, engineer, reason, generation FROM people_let_in")
    assert kept == [
        {
            "staff_id": world.priya.staff_id,
            "engineer": "Ute",
            "reason": "Mara Velthuis says she works here",
            "generation": 2,
        }
    ]
    assert f"{world.tobias.email:<40} desk     off" in run_command(stack, staff, "list", world.slug).output
    # Without a name and a reason, nobody.
    assert run_command(stack, staff, "enable", world.tobias.email).exit_code == 2
    assert run_command(stack, staff, "enable", world.tobias.email, "--by", "Ute", "--reason", " ").exit_code == 1
