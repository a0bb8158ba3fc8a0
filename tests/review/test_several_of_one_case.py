"""Several refunds of one case in one batch: refused beside started, paid beside failed. One chain, one truth."""

from uuid import UUID

import pytest

from ledger.database import transaction
from ledger.events import broken_link
from ledger.outbox import Claimed
from ledger.recording import Answer, record_outcomes
from ledger.settlement import Confirmed, Outcome, ProviderRefund, Refused, Unknown
from tests import lives
from tests.orders import LAMP, TEE
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, add_order


def two_approved(stack: Stack, world: World) -> tuple[UUID, list[UUID]]:
    order = add_order(stack, world, "A-2", captured={"card": 10000, "bank": 3760})
    as_administrator(stack, "UPDATE captures SET payment_intent_ref = 'pi_' || capture_id, charge_ref = 'ch_' || capture_id,"
                     " provider_account_id = %s WHERE order_id = %s", world.provider_account_id, order.order_id)  # fmt: skip
    intent = lives.propose(stack, world, ((TEE, 3), (LAMP, 1)), order=order)
    ids = [one["intent_id"] for one in lives.intents(stack, world, intent["case_id"])]
    for one in ids:
        lives.approve_as(stack, world, world.jonas, one)
    return intent["case_id"], ids


def chain_holds(stack: Stack, world: World, case_id: UUID) -> bool:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return broken_link(db, world.merchant_id, case_id) is None


@pytest.mark.parametrize("tampered", [0, 1])
def test_one_that_is_held_beside_one_that_starts(stack: Stack, world: World, tampered: int) -> None:
    case_id, ids = two_approved(stack, world)
    as_administrator(stack, "UPDATE approvals SET note = 'other' WHERE intent_id = %s", ids[tampered])
    claimed = lives.claim(stack, world)
    assert [one.intent_id for one in claimed] == [ids[1 - tampered]]
    states = [lives.state(stack, world, one) for one in ids]
    assert (states[tampered], states[1 - tampered]) == ("held", "submitting")
    assert chain_holds(stack, world, case_id)


def answer(stack: Stack, world: World, case_id: UUID, claimed: Claimed, status: str) -> Answer:
    row = next(one for one in lives.intents(stack, world, case_id) if one["intent_id"] == claimed.intent_id)
    outcome: Outcome
    if status == "refused":
        outcome = Refused("charge_disputed", "no", 400)
    elif status == "unknown":
        outcome = Unknown("timeout", "no answer came")
    else:
        outcome = Confirmed(ProviderRefund(
            f"re_{row['number']}", status, row["amount_minor"], row["currency"], row["payment_intent_ref"], row["charge_ref"],
            str(claimed.intent_id),
        ))  # fmt: skip
    return Answer(claimed.intent_id, claimed.attempt_no, lives.WORKER, outcome)


WHAT = {"succeeded": "succeeded", "failed": "failed", "refused": "failed", "unknown": "unknown", "pending": "pending",
        "strange": "needs_review"}  # fmt: skip


@pytest.mark.parametrize("first", ["succeeded", "failed", "refused", "unknown"])
@pytest.mark.parametrize("second", ["succeeded", "pending", "strange", "refused"])
def test_two_answers_of_one_case_at_once(stack: Stack, world: World, first: str, second: str) -> None:
    case_id, _ = two_approved(stack, world)
    claimed = lives.claim(stack, world)
    assert len(claimed) == 2
    answers = [answer(stack, world, case_id, one, said) for one, said in zip(claimed, (first, second), strict=True)]
    with transaction(stack.worker, world.merchant_id) as db:
        assert record_outcomes(db, world.merchant_id, answers) == [True, True]
    assert [lives.state(stack, world, one.intent_id) for one in claimed] == [WHAT[first], WHAT[second]]
    assert chain_holds(stack, world, case_id)
    for one in lives.intents(stack, world, case_id):
        (row,) = as_administrator(stack, "SELECT * FROM captures WHERE capture_id = %s", one["capture_id"])
        state, amount = one["state"], one["amount_minor"]
        assert row["refunded_minor"] == (amount if state == "succeeded" else 0)
        assert row["reserved_minor"] == (amount if state in ("unknown", "pending", "needs_review") else 0)
    (case,) = as_administrator(stack, "SELECT closed_at, stage FROM cases WHERE case_id = %s", case_id)
    assert (case["stage"] == "paid", case["closed_at"] is not None) == (first == second == "succeeded",) * 2


def test_the_same_answer_twice_in_one_batch_counts_once(stack: Stack, world: World) -> None:
    case_id, _ = two_approved(stack, world)
    one, _other = lives.claim(stack, world)
    said = answer(stack, world, case_id, one, "succeeded")
    with transaction(stack.worker, world.merchant_id) as db:
        assert sorted(record_outcomes(db, world.merchant_id, [said, said])) == [False, True]
    assert lives.state(stack, world, one.intent_id) == "succeeded"
