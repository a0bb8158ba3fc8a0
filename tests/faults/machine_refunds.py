"""A return and its refund: the channels, the staff, the worker and two people who settle, for ledger and plain model."""

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ledger.assessment import work_out_again
from ledger.caps import release_held
from ledger.database import scalar, transaction
from ledger.errors import LedgerError, SamePerson, WrongState
from ledger.outbox import take_over_orphans
from ledger.reconciliation import WholeList, record_absent, record_for_people, record_found
from tests import lives
from tests.faults.machine import LedgerMachine
from tests.faults.model import LIVE, PRICES, ModelIntent
from tests.jobs import settling
from tests.refunds import as_administrator

ENDS = ("succeeded", "pending", "succeeded", "for_people", "unknown", "pending", "unknown", "refused", "not_accepted")


class RefundsMachine(LedgerMachine):
    """What happens to a return that nobody else meddles with."""

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

    @rule(
        data=st.data(),
        order=st.sampled_from(["ONE", "TWO"]),
        line=st.sampled_from(["THING", "OTHER"]),
        count=st.integers(1, 4),
    )
    def somebody_asks_what_opens_nothing_new_or_too_much(
        self, data: st.DataObject, order: str, line: str, count: int
    ) -> None:
        """Of whatever is left or not: opened on the lowest free units, or refused. In another channel it joins a case that
        is open; and whoever approves what was decided is told so."""
        match data.draw(st.sampled_from(["separate", "joins", "late"])):
            case "separate":
                self._open(order, line, count)
            case "joins":
                self._join(data.draw(st.sampled_from(self._cases())))
            case "late" if decided := [one for one in self.model.intents if one.state != "proposed"]:
                late = data.draw(st.sampled_from(decided))
                with pytest.raises(LedgerError):
                    lives.approve_as(self.stack, self.world, self.world.jonas, late.intent_id)

    @rule(data=st.data(), count=st.integers(1, 2))
    def a_parcel_arrives(self, data: st.DataObject, count: int) -> None:
        """Units are booked in; what had not left is withdrawn, and what is owed now is proposed."""
        self._arrive(data.draw(st.sampled_from(self._cases())), count)

    # Staff

    @precondition(lambda self: self._some("failed", "reversed", "withdrawn"))
    @rule(data=st.data())
    def somebody_asks_again(self, data: st.DataObject) -> None:
        """Mara asks for what is still owed, first of all where it failed or came back."""
        back = [one.case_id for one in self._some("failed", "reversed")]
        case = data.draw(st.sampled_from([case for case in self._cases() if case.case_id in back] or self._cases()))
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
    def somebody_stops_it(self, data: st.DataObject) -> None:
        """Tobias calls a refund back, or rejects a whole case, if nothing of it has left."""
        if data.draw(st.booleans()):
            self._reject(data.draw(st.sampled_from(self._cases())))
        else:
            self._call_back(data.draw(st.sampled_from(self._some("approved", "held") or self.model.intents)))

    # The worker and the provider

    @precondition(lambda self: self._some(*LIVE) and any(one.why != "cap" for one in self._some(*LIVE)))
    @rule(data=st.data(), how=st.sampled_from(ENDS), yes=st.booleans())
    def a_refund_goes_on(self, data: st.DataObject, how: str, *, yes: bool) -> None:
        """By one step, whatever is next for it: approved, claimed and sent, answered, looked up, settled by the bank or by two
        people. `yes`: the provider acted, absence is proven, nothing comes between."""
        one = data.draw(st.sampled_from([one for one in self._some(*LIVE) if one.state != "held"] or self._some(*LIVE)))
        match one.state:
            case "proposed":
                self._approve(one)
                if yes:
                    self._sent(how, acted=data.draw(st.booleans()))
            case "approved":
                self._sent(how if yes else "", acted=data.draw(st.booleans()))
            case "submitting":
                self._answered(data, how, acted=yes)
            case "unknown":
                self._look(one, proven=yes)
            case "pending" if yes:
                self._bank_decides(one, data.draw(st.sampled_from(["succeeded", "succeeded", "failed", "canceled"])))
            case "pending":
                self._look(one, proven=False)
            case "needs_review":
                self._two_settle(one)

    @rule(data=st.data(), how=st.sampled_from(ENDS), yes=st.booleans())
    @precondition(lambda self: self._some("proposed", "approved", "submitting", "unknown", "pending", "needs_review"))
    def another_refund_goes_on(self, data: st.DataObject, how: str, *, yes: bool) -> None:
        """The same, so that it happens more often than what disturbs it."""
        self.a_refund_goes_on(data, how, yes=yes)

    def _sent(self, how: str, *, acted: bool) -> None:
        """One due refund is claimed, and the call ends at once (or, "", not yet)."""
        before = len(self.claims)
        self._claim()
        if how and len(self.claims) > before:
            self._call_ends(before, how, acted=acted)

    def _answered(self, data: st.DataObject, how: str, *, acted: bool) -> None:
        if self.claims:
            self._call_ends(data.draw(st.integers(0, len(self.claims) - 1)), how, acted=acted)
        else:
            self._claim()

    def _call_ends(self, which: int, how: str, *, acted: bool) -> None:
        """In an answer, or in none, and then the provider acted or did not. An attempt that was taken over records nothing."""
        one, claimed = self.claims.pop(which)
        fresh = (
            one.state == "submitting" and self._attempts(one) == claimed.attempt_no and not self._has_result(claimed)
        )
        if fresh and one.at_provider:
            # The key was used before: the answer is what the provider has.
            how = one.at_provider
        elif one.amount > self.model.left_there(one.order_ref):
            # Somebody else had the money back: nothing more goes out of this payment.
            how, acted = (how if how in ("unknown", "for_people") else "refused"), False
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
            case "for_people":
                one.state, one.at_provider = "needs_review", "succeeded" if acted else ""

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
            if acted and one.amount <= self.model.left_there(one.order_ref):
                one.at_provider = one.at_provider or "succeeded"

    def _look(self, one: ModelIntent, *, proven: bool) -> None:
        """The provider is asked: it shows the refund, or its list is without it, after the window or inside it."""
        if one.at_provider:
            with transaction(self.stack.worker, self.merchant_id) as db:
                record_found(db, self.merchant_id, one.intent_id, self._refund(one, one.at_provider))
            self.model.settle(one, one.at_provider)
            return
        with transaction(self.stack.worker, self.merchant_id) as db:
            claimed = record_absent(
                db, self.merchant_id, one.intent_id, lives.WORKER, lives.verifier(), 0 if proven else 3600
            )
        assert (claimed is not None) == (proven and self.model.may_leave(one))
        if proven and claimed is None:
            one.state = "needs_review"
        if claimed is not None:
            one.state = "submitting"
            self.claims.append((one, claimed))

    @precondition(lambda self: self._some("succeeded"))
    @rule(data=st.data(), to=st.sampled_from(["succeeded", "failed", "canceled"]))
    def the_bank_sends_it_back(self, data: st.DataObject, to: str) -> None:
        """What was thought paid comes back, or stands as before."""
        self._bank_decides(data.draw(st.sampled_from(self._some("succeeded"))), to)

    def _bank_decides(self, one: ModelIntent, to: str) -> None:
        with transaction(self.stack.worker, self.merchant_id) as db:
            record_found(db, self.merchant_id, one.intent_id, self._refund(one, to))
        if one.state == "pending":
            self.model.settle(one, to)
            one.at_provider = "succeeded" if to == "succeeded" else ""
        elif to != "succeeded":
            self.model.reverse(one)

    @precondition(lambda self: any(one.why == "cap" for one in self._some("held")))
    @rule()
    def the_next_business_day_opens(self) -> None:
        # In two steps: a day would meet the one before it that has not moved yet.
        for table, days in itertools.product(("cap_entries", "cap_days"), (-1000, 999)):
            as_administrator(self.stack, f"UPDATE {table} SET business_day = business_day + {days}")  # noqa: S608
        self.model.day += 1
        for _ in range(20):
            with transaction(self.stack.worker, self.merchant_id) as db:
                if not release_held(db, self.merchant_id):
                    break
        held = [one for one in self._some("held") if one.why == "cap"]
        released = [one for one in held if lives.state(self.stack, self.world, one.intent_id) == "approved"]
        assert released
        for one in released:
            self.model.release(one)
        assert self.model.used_today() <= self.model.cap

    # What nobody knows

    def _two_settle(self, one: ModelIntent) -> None:
        """On what the provider lists now: Mara proposes, she and the approver cannot do it alone, Farah confirms."""
        as_administrator(
            self.stack, "UPDATE attempt_results SET at = at - interval '1 hour' WHERE intent_id = %s", one.intent_id
        )
        assert self._list_is_read(one) == "waits"
        choices, _ = settling.choices(self.stack, self.world, one)
        ref = self._refund(one, one.at_provider).refund_ref if one.at_provider else ""
        assert choices == [f"{one.at_provider or 'failed'}:{ref}"]
        with pytest.raises(SamePerson):
            settling.propose(self.stack, self.world, one, self.world.jonas, choices[0])
        made = settling.propose(self.stack, self.world, one, self.world.mara, choices[0])
        with pytest.raises(LedgerError):
            settling.confirm(self.stack, self.world, made, self.world.mara)
        assert self._list_is_read(one) == "waits"
        assert settling.confirm(self.stack, self.world, made, self.world.farah)
        assert self._list_is_read(one) == "settled"
        self.model.settle(one, one.at_provider or "failed")

    def _list_is_read(self, one: ModelIntent) -> str:
        """The worker keeps the whole list of the payment, and carries out what two people said."""
        paid = [self._refund(other, other.at_provider) for other in self.model.intents
                if other.order_ref == one.order_ref and other.at_provider]  # fmt: skip
        listed = [*paid, *(self._shown(other) for other in self.model.refunds if other.order_ref == one.order_ref)]
        with transaction(self.stack.worker, self.merchant_id) as db:
            asked_at = scalar(db, "SELECT now()")
            return record_for_people(db, self.merchant_id, one.intent_id, WholeList(listed, asked_at))
