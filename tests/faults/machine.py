"""What is done to the ledger and to the plain model of it: every rule does one thing to both and compares what came of it.

The provider is part of the model: which refund stands there. What others do there is in `machine_outside`.
"""

import itertools
from collections import Counter
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from ledger.cases import reject
from ledger.database import rows, transaction
from ledger.errors import LedgerError, NotEnoughMoneyLeft, WrongState
from ledger.events import broken_link
from ledger.fingerprint import read_intent
from ledger.intents import cancel_before_send
from ledger.outbox import Claimed, claim_due
from ledger.recording import record_outcome
from ledger.settlement import Confirmed, NotAccepted, Outcome, ProviderRefund, Refused, Unknown
from tests import lives
from tests.emptied import empty
from tests.faults.model import AWAY, BOUGHT, LIVE, PRICES, UNSENT, Model, ModelCase, ModelIntent
from tests.faults.outside import OutsideRefund
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, add_order, build_world

CAP_MINOR = 6000
_STATES = "SELECT intent_id, state, amount_minor FROM intents"
_BOOKS = """
    SELECT o.external_ref AS ref, available_minor, reserved_minor, refunded_minor, disputed_minor, (SELECT sum(claimed_minor)
        FROM order_lines l WHERE l.merchant_id = o.merchant_id AND l.order_id = o.order_id) AS claimed
    FROM captures c JOIN orders o USING (merchant_id, order_id)
"""
_CAP = """
    SELECT used_minor, limit_minor, business_day = (now() AT TIME ZONE m.zone)::date AS today, (SELECT
        coalesce(sum(amount_minor), 0) FROM cap_entries e WHERE e.merchant_id = d.merchant_id AND e.business_day = d.business_day)
        AS entered
    FROM cap_days d JOIN merchants m ON m.id = d.merchant_id
"""
LINES = tuple(Line(ref, BOUGHT[ref], PRICES[ref] * BOUGHT[ref]) for ref in PRICES)
_numbers = itertools.count(1)


class LedgerMachine(RuleBasedStateMachine):
    """The invariants compare after each rule what the rule itself does not. `reached`: what the histories went through."""

    stack: ClassVar[Stack]
    reached: ClassVar[Counter[str]] = Counter()

    world: World
    model: Model
    claims: list[tuple[ModelIntent, Claimed]]

    @initialize()
    def begin(self) -> None:
        empty(self.stack)
        self.world = build_world(self.stack, cap_minor={"GBP": CAP_MINOR})
        for ref in ("ONE", "TWO"):
            add_order(self.stack, self.world, ref, lines=LINES)
        self.model = Model(("ONE", "TWO"), CAP_MINOR)
        self.claims = []
        # So that there is something to approve from the start.
        for order in self.model.orders:
            case = self._open(order, "THING", 2)
            if case is not None:
                self._arrive(case, 1)
            self._approve(self._some("proposed")[0])
        self._claim()

    def teardown(self) -> None:
        found = as_administrator(self.stack, "SELECT from_state || '→' || to_state AS move, count(*) AS n FROM events"
                                 " WHERE to_state IS NOT NULL GROUP BY 1")  # fmt: skip
        self.reached.update({row["move"]: row["n"] for row in found})

    def _some(self, *states: str) -> list[ModelIntent]:
        return [one for one in self.model.intents if one.state in states]

    def _cases(self) -> list[ModelCase]:
        return list(self.model.cases.values())

    @property
    def _account(self) -> tuple[UUID, UUID]:
        return self.merchant_id, self.world.provider_account_id

    @property
    def merchant_id(self) -> UUID:
        return self.world.merchant_id

    # What has to be so

    @invariant()
    def both_say_the_same(self) -> None:
        with transaction(self.stack.console, self.merchant_id, read_only=True) as db:
            states = {row["intent_id"]: row for row in rows(db, _STATES)}
            books = {row["ref"]: row for row in rows(db, _BOOKS)}
            cap = rows(db, _CAP)
            broken = [case for case in self.model.cases if broken_link(db, self.merchant_id, case) is not None]
        assert {one: row["state"] for one, row in states.items()} == {
            one.intent_id: one.state for one in self.model.intents
        }
        assert all(states[one.intent_id]["amount_minor"] == one.amount for one in self.model.intents)
        for order in self.model.orders:
            row = books[order]
            balances = (row["available_minor"], row["reserved_minor"], row["refunded_minor"], row["disputed_minor"])
            assert balances == self.model.balances(order)
            assert row["claimed"] == self.model.claimed(order)
        assert all(row["used_minor"] == row["entered"] <= row["limit_minor"] for row in cap)
        assert sum(row["used_minor"] for row in cap if row["today"]) == self.model.used_today()
        assert broken == []

    @invariant()
    def no_case_is_paid_twice(self) -> None:
        for case in self.model.cases.values():
            assert len(self.model.of_case(case, *LIVE)) <= 1
            if self.model.of_case(case, "succeeded", "pending"):
                assert self.model.paid_there(case) <= self.model.owed(case)
            # What others paid back may have been for units that are still under way.
            assert self.model.paid_there(case) + self.model.matched(case) <= case.worth

    # What is asked

    def _join(self, case: ModelCase) -> None:
        """The same request in another channel joins a case that is open, and opens none."""
        asked = {"order_ref": case.order_ref, "reference": f"voice-{next(_numbers)}", "relation": "existing"}
        try:
            opened = lives.open_case(self.stack, self.world, ((case.line, len(case.units)),), channel="voice", **asked)
        except LedgerError:
            assert case.rejected or self._closed(case)
            return
        assert opened.status == "joined"
        assert opened.case_id in self.model.cases

    def _reject(self, case: ModelCase) -> None:
        paid = bool(self.model.of_case(case, *AWAY, "succeeded") or self.model.matched(case))
        try:
            with transaction(self.stack.console, self.merchant_id) as db:
                reject(db, self.merchant_id, case.case_id, self.world.tobias.actor, "not_returned")
        except WrongState:
            assert paid or self._closed(case)
            return
        assert not paid
        for one in self.model.of_case(case, *UNSENT):
            self.model.withdraw(one, "rejected")
        case.rejected = True

    def _call_back(self, one: ModelIntent) -> None:
        try:
            with transaction(self.stack.console, self.merchant_id) as db:
                cancel_before_send(db, self.merchant_id, one.intent_id, self.world.tobias.actor, "not_yet")
        except WrongState:
            assert one.state not in (*UNSENT, "withdrawn")
            return
        assert one.state in (*UNSENT, "withdrawn")
        if one.state != "withdrawn":
            self.model.withdraw(one)

    def _approve(self, one: ModelIntent) -> None:
        if not self.model.can_reserve(one):
            with pytest.raises(NotEnoughMoneyLeft):
                lives.approve_as(self.stack, self.world, self.world.jonas, one.intent_id)
            return
        decided = lives.approve_as(self.stack, self.world, self.world.jonas, one.intent_id)
        self.model.approve(one)
        assert decided.state == one.state

    def _claim(self) -> None:
        as_administrator(self.stack, "UPDATE outbox SET due_at = now() WHERE done_at IS NULL AND due_at <> 'infinity'")
        with transaction(self.stack.worker, self.merchant_id) as db:
            claimed = claim_due(db, self.merchant_id, lives.WORKER, lives.verifier(), 1)
        if not claimed:
            stopped = [one for one in self._some("approved", "submitting") if not self.model.may_leave(one)]
            moved = [one for one in stopped if lives.state(self.stack, self.world, one.intent_id) != one.state]
            for one in moved:
                # What was turned away once may have got through all the same.
                one.state, one.why = ("held", "disputed") if one.state == "approved" else ("unknown", "")
            assert moved or not self._some("approved")
            return
        one = self._named(claimed[0].intent_id)
        assert one.state in ("approved", "submitting")
        assert self.model.may_leave(one)
        one.state = "submitting"
        self.claims.append((one, claimed[0]))

    def _named(self, intent_id: UUID) -> ModelIntent:
        (found,) = [one for one in self.model.intents if one.intent_id == intent_id]
        return found

    def _open(self, order: str, line: str, count: int) -> ModelCase | None:
        expected = self.model.open_separate(order, line, count)
        asked = {"order_ref": order, "reference": f"chat-{next(_numbers)}", "relation": "separate"}
        if expected is None:
            with pytest.raises(LedgerError):
                lives.open_case(self.stack, self.world, ((line, count),), **asked)
            return None
        opened = lives.open_case(self.stack, self.world, ((line, count),), **asked)
        assert opened.status == "opened"
        case = self.model.cases[opened.case_id] = ModelCase(opened.case_id, opened.number, order, expected)
        return case

    def _arrive(self, case: ModelCase, count: int) -> None:
        line = case.line
        if case.rejected:
            with pytest.raises(WrongState):
                lives.arrive(self.stack, self.world, case.case_id, (line, count))
            return
        # Only units that the case holds and that were not looked at can be graded.
        count = min(count, len(case.units) - case.received.get(line, 0))
        if count:
            lives.arrive(self.stack, self.world, case.case_id, (line, count))
            case.received[line] = case.received.get(line, 0) + count
            self._expect_proposal(case)

    def _expect_proposal(self, case: ModelCase) -> None:
        self.model.work_out(case)
        self._expect_the_same_proposals()

    def _expect_the_same_proposals(self) -> None:
        """What the ledger proposed has to be what the model does, once each, and linked to what it goes on from."""
        proposed = [one for one in self.model.intents if not one.is_known]
        known = [one.intent_id for one in self.model.intents if one.is_known]
        new = as_administrator(self.stack, "SELECT * FROM intents WHERE intent_id <> ALL(%s) ORDER BY number", known)
        assert [(row["case_id"], row["amount_minor"]) for row in new] == [(one.case_id, one.amount) for one in proposed]
        for one, row in zip(proposed, new, strict=True):
            one.is_called(row["intent_id"])
            assert row["replaces"] == (one.after.intent_id if one.after else None)
            if one.after:
                self.reached[f"{one.after.state}, then proposed anew"] += 1
            note(f"R-{row['number']} over {one.amount}")

    def _closed(self, case: ModelCase) -> bool:
        (row,) = as_administrator(self.stack, "SELECT closed_at FROM cases WHERE case_id = %s", case.case_id)
        return row["closed_at"] is not None

    def _attempts(self, one: ModelIntent) -> int:
        (row,) = as_administrator(self.stack, "SELECT attempts FROM outbox WHERE intent_id = %s", one.intent_id)
        return int(row["attempts"])

    def _has_result(self, claimed: Claimed) -> bool:
        return bool(as_administrator(
            self.stack, "SELECT 1 FROM attempt_results WHERE intent_id = %s AND attempt_no = %s", claimed.intent_id,
            claimed.attempt_no,
        ))  # fmt: skip

    def _record(self, claimed: Claimed, outcome: Outcome) -> bool:
        with transaction(self.stack.worker, self.merchant_id) as db:
            return record_outcome(db, self.merchant_id, claimed.intent_id, claimed.attempt_no, lives.WORKER, outcome)

    def _outcome(self, one: ModelIntent, how: str) -> Outcome:
        match how:
            case "succeeded" | "pending":
                return Confirmed(self._refund(one, how))
            case "refused":
                return Refused("charge_already_refunded", "named by the provider", 400)
            case "not_accepted":
                return NotAccepted("rate_limit", "", 1, 429)
            case "for_people":
                return Unknown("answer_differs", "amount differs", 200, needs_person=True)
        return Unknown("no_answer", "ReadTimeout")

    def _refund(self, one: ModelIntent, status: str) -> ProviderRefund:
        with transaction(self.stack.console, self.merchant_id, read_only=True) as db:
            intent = read_intent(db, self.merchant_id, one.intent_id)
        assert intent is not None
        return ProviderRefund(
            f"re_{intent['number']}", status, intent["amount_minor"], intent["currency"], intent["payment_intent_ref"],
            intent["charge_ref"], str(one.intent_id),
        )  # fmt: skip

    def _shown(self, one: OutsideRefund) -> ProviderRefund:
        """It carries no mark of ours."""
        return ProviderRefund(
            one.ref, one.status, one.amount, "GBP", f"pi_{one.order_ref}_card", charge_of(one.order_ref), ""
        )


def charge_of(order: str) -> str:
    """The charge at the provider that paid an order."""
    return f"ch_{order}_card"
