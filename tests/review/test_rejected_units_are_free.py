"""What a rejected case let go may be returned once more, and is then owed as if nobody had asked before."""

from ledger.cases import reject
from ledger.database import transaction
from tests import lives
from tests.stack import Stack
from tests.world import World


def test_units_of_a_rejected_case_that_had_a_proposal_are_refunded_when_they_do_come_back(
    stack: Stack, world: World
) -> None:
    proposed = lives.propose(stack, world, (("TEE", 2),))
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, proposed["case_id"], world.tobias.actor, "not_returned")
    again = lives.propose(stack, world, (("TEE", 2),), reference="chat-2")
    assert (again["state"], again["amount_minor"]) == ("proposed", proposed["amount_minor"])
