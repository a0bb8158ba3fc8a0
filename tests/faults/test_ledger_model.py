"""The ledger against a plain model of it: whatever is done in whatever order, both say the same (Hypothesis, stateful).

The provider is part of the model: which refund stands there. `quick` takes the same few hundred steps each time;
HYPOTHESIS_PROFILE=slow takes many more, chosen anew.
"""

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ledger.assessment import work_out_again
from ledger.caps import release_held
from ledger.cases import reject
from ledger.database import rows, scalar, transaction
from ledger.errors import LedgerError, WrongState
from ledger.events import broken_link
from ledger.fingerprint import read_intent
from ledger.intents import cancel_before_send
from ledger.outbox import Claimed, claim_due, take_over_orphans
from ledger.reconciliation import record_absent, record_found
from ledger.recording import record_outcome
from ledger.settlement import Confirmed, NotAccepted, Outcome, ProviderRefund, Refused, Unknown
from tests import lives
from tests.emptied import empty
from tests.faults.model import BOUGHT, LIVE, PRICES, Model, ModelCase, ModelIntent
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import Server, Stack, fresh_stack
from tests.world import World, add_order, build_world

CAP_MINOR = 6000
# The histories have to go through these, or the comparison says little.
MOVES = frozenset((
    "proposed→approved", "proposed→withdrawn", "approved→submitting", "approved→withdrawn", "approved→held", "held→approved",
    "submitting→unknown", "submitting→succeeded", "unknown→succeeded", "unknown→needs_review", "unknown→submitting",
    "succeeded→reversed",
))  # fmt: skip
LINES = tuple(Line(ref, BOUGHT[ref], PRICES[ref] * BOUGHT[ref]) for ref in PRICES)
_numbers = itertools.count(1)


class LedgerMachine(RuleBasedStateMachine):
    """Every rule does one thing to both and compares what came of it; the invariants compare the rest after each."""

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
        self.model = Model(("ONE", "TWO"))
        self.claims = []
        # So that there is something to approve from the start.
        for order in self.model.orders:
            case = self._open(order, "THING", 2)
            if case is not None:
                self._arrive(case, 1)
            self._approve(self._some("proposed")[0])
        self._claim()

    def teardown(self) -> None:
        """What the histories went through."""
        found = as_administrator(self.stack, "SELECT from_state || '→' || to_state AS move, count(*) AS n FROM events"
                                 " WHERE to_state IS NOT NULL GROUP BY 1")  # fmt: skip
        self.reached.update({row["move"]: row["n"] for row in found})

    def _some(self, *states: str) -> list[ModelIntent]:
        return [one for one in self.model.intents.values() if one.state in states]

    def _cases(self) -> list[ModelCase]:
        return list(self.model.cases.values())

    @property
    def merchant_id(self) -> UUID:
        return self.world.merchant_id

    # The customer, the channels, the warehouse

    @precondition(lambda self: any(self.model.free(order, line) for order in self.model.orders for line in PRICES))
    @rule(data=st.data())
    def a_return_is_asked_for_and_comes_in(self, data: st.DataObject) -> None:
        """A separate request of a line that has units left; some of it is booked in at once."""
        choices = [(order, line) for order in self.model.orders for line in PRICES if self.model.free(order, line)]
        order, line = data.draw(st.sampled_from(choices))
        case = self._open(order, line, data.draw(st.integers(1, len(self.model.free(order, line)))))
        assert case is not None
        self._arrive(case, data.draw(st.integers(1, 2)))

    @rule(order=st.sampled_from(["ONE", "TWO"]), line=st.sampled_from(["THING", "OTHER"]), count=st.integers(1, 4))
    def a_return_is_asked_for(self, order: str, line: str, count: int) -> None:
        """Of whatever is left or not: opened on the lowest free units, or refused."""
        self._open(order, line, count)

    @rule(data=st.data(), channel=st.sampled_from(["voice", "counter"]))
    def the_same_request_joins(self, data: st.DataObject, channel: str) -> None:
        """In another channel it joins a case that is open, and opens none."""
        case = data.draw(st.sampled_from(self._cases()))
        (line,) = {name for name, _ in case.units}
        asked = {"order_ref": case.order_ref, "reference": f"{channel}-{next(_numbers)}", "relation": "existing"}
        try:
            opened = lives.open_case(self.stack, self.world, ((line, len(case.units)),), channel=channel, **asked)
        except LedgerError:
            assert case.rejected or self._closed(case)
            return
        assert opened.status == "joined"
        assert opened.case_id in self.model.cases

    @rule(data=st.data(), count=st.integers(1, 2))
    def a_parcel_arrives(self, data: st.DataObject, count: int) -> None:
        """Units are booked in; what had not left is withdrawn, and what is owed now is proposed."""
        self._arrive(data.draw(st.sampled_from(self._cases())), count)

    # Staff

    @rule(data=st.data())
    def somebody_asks_again(self, data: st.DataObject) -> None:
        """Mara asks for what is still owed."""
        case = data.draw(st.sampled_from(self._cases()))
        closed = self._closed(case)
        try:
            with transaction(self.stack.console, self.merchant_id) as db:
                work_out_again(db, self.merchant_id, case.case_id, self.world.mara.actor)
        except WrongState:
            assert closed
            return
        assert not closed
        self._expect_proposal(case)

    @precondition(lambda self: len(self.model.cases) > 2)
    @rule(data=st.data())
    def a_case_is_rejected(self, data: st.DataObject) -> None:
        case = data.draw(st.sampled_from(self._cases()))
        paid = self.model.of_case(case, "succeeded", "submitting", "unknown", "pending", "needs_review")
        try:
            with transaction(self.stack.console, self.merchant_id) as db:
                reject(db, self.merchant_id, case.case_id, self.world.tobias.actor, "not_returned")
        except WrongState:
            assert paid or self._closed(case)
            return
        assert not paid
        for one in self.model.of_case(case, "proposed", "approved", "held"):
            self.model.withdraw(one)
        case.rejected = True

    @precondition(lambda self: self._some("proposed"))
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        """Jonas, who asked for nothing, approves; the cap holds what does not fit today."""
        self._approve(data.draw(st.sampled_from(self._some("proposed"))))

    @rule(data=st.data())
    def a_late_approval_is_refused(self, data: st.DataObject) -> None:
        decided = [one for one in self.model.intents.values() if one.state != "proposed"]
        if decided:
            with pytest.raises(LedgerError):
                lives.approve_as(
                    self.stack, self.world, self.world.jonas, data.draw(st.sampled_from(decided)).intent_id
                )

    @precondition(lambda self: self.model.intents)
    @rule(data=st.data())
    def call_back(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self._some("approved", "held") or list(self.model.intents.values())))
        try:
            with transaction(self.stack.console, self.merchant_id) as db:
                cancel_before_send(db, self.merchant_id, one.intent_id, self.world.tobias.actor, "not_yet")
        except WrongState:
            assert one.state not in ("proposed", "approved", "held", "withdrawn")
            return
        assert one.state in ("proposed", "approved", "held", "withdrawn")
        self.model.withdraw(one)

    # The worker and the provider

    @precondition(lambda self: self._some("approved", "submitting"))
    @rule()
    def claim(self) -> None:
        """One due refund is claimed; nothing else moves."""
        self._claim()

    @precondition(lambda self: self._some("proposed"))
    @rule(data=st.data())
    def approve_and_claim(self, data: st.DataObject) -> None:
        self._approve(data.draw(st.sampled_from(self._some("proposed"))))
        self._claim()

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(), acted=st.booleans(),
        how=st.sampled_from(["succeeded", "succeeded", "pending", "refused", "not_accepted", "unknown", "unknown", "differs"]),
    )  # fmt: skip
    def a_call_ends(self, data: st.DataObject, how: str, *, acted: bool) -> None:
        """In an answer, or in none, and then the provider acted or did not. An attempt that was taken over records nothing."""
        one, claimed = self.claims.pop(data.draw(st.integers(0, len(self.claims) - 1)))
        fresh = (
            one.state == "submitting" and self._attempts(one) == claimed.attempt_no and not self._has_result(claimed)
        )
        if fresh and one.at_provider:
            # The key was used before: the answer is what the provider has.
            how = one.at_provider
        assert self._record(claimed, self._outcome(one, how)) == fresh
        if not fresh:
            return
        match how:
            case "succeeded" | "pending":
                one.at_provider = how
                self.model.settle(one, how)
            case "refused":
                self.model.settle(one, "failed")
            case "unknown":
                one.state, one.at_provider = "unknown", "succeeded" if acted else ""
            case "differs":
                one.state, one.at_provider = "needs_review", "succeeded"

    @precondition(lambda self: self._some("submitting"))
    @rule(acted=st.booleans())
    def a_worker_dies(self, *, acted: bool) -> None:
        """What it had claimed and not recorded is unknown, whether or not the call got through."""
        with transaction(self.stack.worker, self.merchant_id) as db:
            taken = take_over_orphans(db, self.merchant_id, lives.WORKER + 1)
        orphans = [
            one for one in self._some("submitting") if lives.state(self.stack, self.world, one.intent_id) == "unknown"
        ]
        assert taken == len(orphans)
        for one in orphans:
            one.state = "unknown"
            one.at_provider = one.at_provider or ("succeeded" if acted else "")

    @precondition(lambda self: self._some("unknown", "pending"))
    @rule(data=st.data(), proven=st.booleans())
    def look(self, data: st.DataObject, *, proven: bool) -> None:
        """The provider is asked: it shows the refund, or its list is without it, after the window or inside it."""
        one = data.draw(st.sampled_from(self._some("unknown", "pending")))
        if one.at_provider:
            with transaction(self.stack.worker, self.merchant_id) as db:
                record_found(db, self.merchant_id, one.intent_id, self._refund(one, one.at_provider))
            self.model.settle(one, one.at_provider)
            return
        with transaction(self.stack.worker, self.merchant_id) as db:
            claimed = record_absent(
                db, self.merchant_id, one.intent_id, lives.WORKER, lives.verifier(), 0 if proven else 3600
            )
        assert (claimed is not None) == (proven and not self.model.stale(one))
        if proven and claimed is None:
            one.state = "needs_review"
        if claimed is not None:
            one.state = "submitting"
            self.claims.append((one, claimed))

    @precondition(lambda self: self._some("pending", "succeeded"))
    @rule(data=st.data(), to=st.sampled_from(["succeeded", "failed", "canceled"]))
    def the_bank_decides(self, data: st.DataObject, to: str) -> None:
        """A refund that stands comes to another end: pending settles, or what was thought paid comes back."""
        one = data.draw(st.sampled_from(self._some("pending", "succeeded")))
        with transaction(self.stack.worker, self.merchant_id) as db:
            record_found(db, self.merchant_id, one.intent_id, self._refund(one, to))
        one.at_provider = "succeeded" if to == "succeeded" else ""
        if one.state == "pending":
            self.model.settle(one, to)
        elif to != "succeeded":
            one.state = "reversed"

    @precondition(lambda self: any(one.state == "held" for one in self.model.intents.values()))
    @rule()
    def the_next_business_day_opens(self) -> None:
        for table in ("cap_entries", "cap_days"):
            as_administrator(self.stack, f"UPDATE {table} SET business_day = business_day - 1")  # noqa: S608
        for _ in range(20):
            with transaction(self.stack.worker, self.merchant_id) as db:
                if not release_held(db, self.merchant_id):
                    break
        held = [one for one in self.model.intents.values() if one.state == "held"]
        released = [one for one in held if lives.state(self.stack, self.world, one.intent_id) == "approved"]
        assert released
        assert sum(one.amount for one in released) <= CAP_MINOR
        for one in released:
            one.state = "approved"

    # What has to be so

    @invariant()
    def both_say_the_same(self) -> None:
        with transaction(self.stack.console, self.merchant_id, read_only=True) as db:
            states = {row["intent_id"]: row for row in rows(db, "SELECT intent_id, state, amount_minor FROM intents")}
            books = {
                row["ref"]: row
                for row in rows(
                    db, "SELECT o.external_ref AS ref, available_minor, reserved_minor, refunded_minor, (SELECT"
                    " sum(claimed_minor) FROM order_lines l WHERE l.merchant_id = o.merchant_id AND l.order_id = o.order_id)"
                    " AS claimed FROM captures c JOIN orders o USING (merchant_id, order_id)",
                )
            }  # fmt: skip
            cap = rows(
                db,
                "SELECT used_minor, limit_minor, (SELECT coalesce(sum(amount_minor), 0) FROM cap_entries e WHERE"
                " e.merchant_id = d.merchant_id AND e.business_day = d.business_day) AS entered FROM cap_days d",
            )
            broken = [case for case in self.model.cases if broken_link(db, self.merchant_id, case) is not None]
        assert {one: row["state"] for one, row in states.items()} == {
            one.intent_id: one.state for one in self.model.intents.values()
        }
        assert all(states[one.intent_id]["amount_minor"] == one.amount for one in self.model.intents.values())
        for order in self.model.orders:
            row = books[order]
            assert (row["available_minor"], row["reserved_minor"], row["refunded_minor"]) == self.model.balances(order)
            assert row["claimed"] == self.model.claimed(order)
        assert all(row["used_minor"] == row["entered"] <= row["limit_minor"] for row in cap)
        assert broken == []

    @invariant()
    def no_case_is_paid_twice(self) -> None:
        for case in self.model.cases.values():
            assert len(self.model.of_case(case, *LIVE)) <= 1
            if self.model.of_case(case, "succeeded", "pending"):
                assert self.model.paid_there(case) <= self.model.owed(case)

    # What is asked

    def _approve(self, one: ModelIntent) -> None:
        with transaction(self.stack.console, self.merchant_id, read_only=True) as db:
            used = scalar(
                db, "SELECT coalesce(sum(used_minor), 0) FROM cap_days d JOIN merchants m ON m.id = d.merchant_id"
                " WHERE d.merchant_id = :m AND business_day = (now() AT TIME ZONE m.zone)::date", m=self.merchant_id,
            )  # fmt: skip
        decided = lives.approve_as(self.stack, self.world, self.world.jonas, one.intent_id)
        self.model.approve(one, cap_left=CAP_MINOR - used)
        assert decided.state == one.state

    def _claim(self) -> None:
        as_administrator(self.stack, "UPDATE outbox SET due_at = now() WHERE done_at IS NULL AND due_at <> 'infinity'")
        with transaction(self.stack.worker, self.merchant_id) as db:
            claimed = claim_due(db, self.merchant_id, lives.WORKER, lives.verifier(), 1)
        if not claimed:
            assert not self._some("approved")
            for one in self._some("submitting"):
                if self.model.stale(one) and lives.state(self.stack, self.world, one.intent_id) == "unknown":
                    one.state = "unknown"
            return
        one = self.model.intents[claimed[0].intent_id]
        assert one.state in ("approved", "submitting")
        one.state = "submitting"
        self.claims.append((one, claimed[0]))

    def _open(self, order: str, line: str, count: int) -> ModelCase | None:
        expected = self.model.open_separate(order, line, count)
        asked = {"order_ref": order, "reference": f"chat-{next(_numbers)}", "relation": "separate"}
        if expected is None:
            with pytest.raises(LedgerError):
                lives.open_case(self.stack, self.world, ((line, count),), **asked)
            return None
        opened = lives.open_case(self.stack, self.world, ((line, count),), **asked)
        assert opened.status == "opened"
        case = self.model.cases[opened.case_id] = ModelCase(opened.case_id, order, expected)
        return case

    def _arrive(self, case: ModelCase, count: int) -> None:
        (line,) = {name for name, _ in case.units}
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
        """What the ledger proposed has to be what the model does, and once."""
        amount = self.model.work_out(case)
        new = [
            row
            for row in lives.intents(self.stack, self.world, case.case_id)
            if row["intent_id"] not in self.model.intents
        ]
        assert [row["amount_minor"] for row in new] == ([amount] if amount else [])
        for row in new:
            self.model.intents[row["intent_id"]] = ModelIntent(
                row["intent_id"], case.case_id, case.order_ref, amount, case.derived
            )
            note(f"R-{row['number']} over {amount}")

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
            case "differs":
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


@pytest.fixture(scope="module")
def machine(server: Server) -> Iterator[type[LedgerMachine]]:
    with ExitStack() as held:
        LedgerMachine.stack = held.enter_context(fresh_stack(server))
        yield LedgerMachine


def test_the_ledger_says_what_a_plain_model_says_whatever_is_done_in_whatever_order(
    machine: type[LedgerMachine],
) -> None:
    many = os.environ.get("HYPOTHESIS_PROFILE") == "slow"
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=400 if many else 20, stateful_step_count=60 if many else 40, derandomize=not many, deadline=None,
            suppress_health_check=list(HealthCheck), database=None,
        ),
    )  # fmt: skip
    assert machine.reached.keys() >= MOVES, MOVES - machine.reached.keys()
