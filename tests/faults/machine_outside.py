"""What others do at the provider, for the ledger and its plain model."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from sqlalchemy import Connection

from ledger.database import transaction
from ledger.disputes import ProviderDispute, record_dispute, refund_anyway
from ledger.errors import WrongState
from ledger.external_matching import mark_unrelated, match_to_case
from ledger.external_refunds import place_waiting, record_external
from tests import lives
from tests.faults.machine import charge_of
from tests.faults.machine_refunds import RefundsMachine
from tests.faults.model import LINKED, LIVE, UNSENT, ModelCase
from tests.faults.outside import Dispute, OutsideRefund
from tests.refunds import as_administrator

_DERIVED = "SELECT case_id, count(*) AS n FROM entitlements GROUP BY case_id"


class OutsideMachine(RefundsMachine):
    """The dashboard, and the customer's bank."""

    # The dashboard

    @precondition(lambda self: self._quiet())
    @rule(data=st.data(), minor=st.sampled_from([700, 1000, 2000]), status=st.sampled_from(["succeeded", "pending"]),
          seen_by=st.sampled_from(["hook", "poll"]))  # fmt: skip
    def somebody_refunds_in_the_dashboard(self, data: st.DataObject, minor: int, status: str, seen_by: str) -> None:
        """It is found by a hook or by the account's list, and by the other again; what waited to be paid makes room."""
        order = data.draw(st.sampled_from(self._quiet()))
        one = OutsideRefund(
            f"re_outside_{len(self.model.refunds)}", order, min(minor, self.model.left_there(order)), status
        )
        self.model.refunds.append(one)
        self._placed(order, lambda db: self._is_found(db, one, seen_by))
        self._read_again(one)
        self.reached["refunded outside"] += 1

    @precondition(lambda self: any(one.stands for one in self.model.refunds))
    @rule(data=st.data(), to=st.sampled_from(["succeeded", "failed", "canceled"]))
    def a_dashboard_refund_ends(self, data: st.DataObject, to: str) -> None:
        """It settles, or comes to nothing: then what was put on a case is owed again. What is known already changes nothing."""
        one = data.draw(st.sampled_from([one for one in self.model.refunds if one.stands]))
        if one.status == to:
            self._read_again(one)
            return
        one.status = to
        if not one.stands:
            one.put, one.unrelated = {}, 0
            self.reached["came to nothing outside"] += 1
        self._placed(one.order_ref, lambda db: self._is_found(db, one, "look"))

    def _is_found(self, db: Connection, one: OutsideRefund, seen_by: str) -> str:
        return record_external(db, *self._account, self._shown(one), seen_by, lives.verifier())

    def _read_again(self, one: OutsideRefund) -> None:
        with transaction(self.stack.worker, self.merchant_id) as db:
            assert self._is_found(db, one, "poll") == "known"

    @precondition(lambda self: self._unanswered())
    @rule(data=st.data(), matched=st.booleans())
    def finance_answers_for_it(self, data: st.DataObject, *, matched: bool) -> None:
        """Farah puts it on what a case holds and nobody paid for, or says that it was for none of the goods."""
        one = data.draw(st.sampled_from(self._unanswered()))
        cases = [case for case in self._cases() if case.order_ref == one.order_ref]
        if matched:
            self._match(
                one, data.draw(st.sampled_from([c for c in cases if self.model.can_be_matched(one, c)] or cases))
            )
        else:
            one.unrelated += one.left
            self._placed(
                one.order_ref,
                lambda db: mark_unrelated(db, self.merchant_id, one.ref, self.world.farah.actor, "goodwill"),
                by_people=True,
            )
            self.reached["was for none of the goods"] += 1
        if not one.left:
            self._expect_nobody_stranded(one.order_ref)

    def _match(self, one: OutsideRefund, case: ModelCase) -> None:
        """What does not fit on the case stays to be answered for."""
        asked = (self.merchant_id, one.ref, case.number, self.world.farah.actor, "told by the till")
        minor = self.model.can_be_matched(one, case)
        if not minor:
            with pytest.raises(WrongState), transaction(self.stack.console, self.merchant_id) as db:
                match_to_case(db, *asked)
            return
        for waiting in self.model.of_case(case, *UNSENT):
            self.model.withdraw(waiting, "refunded_outside")
        one.put[case.case_id] = one.put.get(case.case_id, 0) + minor
        self.model.work_out(case, "refunded_outside")
        self._placed(one.order_ref, lambda db: match_to_case(db, *asked), {case.case_id: 1}, by_people=True)
        self.reached["matched to a case"] += 1

    @precondition(lambda self: any(map(self.model.unplaced, self.model.orders)))
    @rule()
    def what_waited_for_room_is_placed(self) -> None:
        for order in filter(self.model.unplaced, self.model.orders):
            self._placed(order, lambda db: place_waiting(db, *self._account, charge_of(order)))  # noqa: B023 - used at once

    # The customer's bank

    @precondition(lambda self: self._undisputed())
    @rule(data=st.data(), inquiry=st.booleans(), minor=st.sampled_from([1500, 5000]))
    def the_bank_takes_a_charge_up(self, data: st.DataObject, minor: int, *, inquiry: bool) -> None:
        """Formally, or only with a question; what is approved on that charge is held and not sent."""
        approved = [order for order in self._undisputed() if self.model.of_order(order, "approved")]
        order = data.draw(st.sampled_from(approved or self._undisputed()))
        status = "warning_needs_response" if inquiry else "needs_response"
        one = Dispute(f"dp_{len(self.model.disputes)}", order, minor, status)
        self.model.disputes.append(one)
        waited = self.model.of_order(order, "approved")
        self._dispute_is_read(one, "hook")
        self.reached["a question of the bank" if inquiry else "disputed"] += 1
        self.reached["held for the bank"] += len(waited)
        assert all(lives.state(self.stack, self.world, waiting.intent_id) == "held" for waiting in waited)

    @precondition(lambda self: any(one.is_open for one in self.model.disputes))
    @rule(data=st.data(), how=st.sampled_from(["won", "won", "lost", "ruled", "ruled", "needs_response"]))
    def it_goes_on_with_the_bank(self, data: st.DataObject, how: str) -> None:
        """It is decided; a question is closed or becomes a dispute; or finance lets the refund go all the same."""
        one = data.draw(st.sampled_from([one for one in self.model.disputes if one.is_open]))
        if how == "ruled":
            self._rule(one)
            return
        took = one.placed
        one.status = "warning_closed" if one.asks and how != "needs_response" else how
        self._dispute_is_read(one, "look")
        if took and one.status == "won":
            self._expect_nobody_stranded(one.order_ref)
        self.reached[one.status] += 1

    def _rule(self, one: Dispute) -> None:
        """On a question only: the provider refuses a refund of what is formally disputed."""
        asked = (self.merchant_id, one.ref, self.world.farah.staff_id, "the goods are back")
        if not one.asks:
            with pytest.raises(WrongState), transaction(self.stack.console, self.merchant_id) as db:
                refund_anyway(db, *asked)
            return
        one.ruled = True
        self._placed(one.order_ref, lambda db: refund_anyway(db, *asked), by_people=True)
        self.reached["let go all the same"] += 1

    # What is asked

    def _quiet(self) -> list[str]:
        """Orders of which something was paid or is about to be, and nothing outside waits for an answer."""
        return [
            order for order in self.model.orders
            if self.model.left_there(order) and self.model.of_order(order, *LIVE, "succeeded")
            and not self.model.unanswered(order)
        ]  # fmt: skip

    def _undisputed(self) -> list[str]:
        """Orders with whose payment the bank has nothing to do, or nothing any more."""
        busy = {one.order_ref for one in self.model.disputes if one.is_open or one.takes}
        return [order for order in self.model.orders if order not in busy]

    def _unanswered(self) -> list[OutsideRefund]:
        return [one for one in self.model.refunds if one.stands and one.left]

    def _dispute_is_read(self, one: Dispute, seen_by: str) -> None:
        shown = ProviderDispute(
            one.ref, one.status, one.amount, "GBP", charge_of(one.order_ref), f"pi_{one.order_ref}_card", "general",
            datetime(2026, 11, 1, tzinfo=UTC), None,
        )  # fmt: skip
        self._placed(one.order_ref, lambda db: record_dispute(db, *self._account, shown, seen_by))

    def _derived(self) -> Counter[UUID]:
        return Counter({row["case_id"]: row["n"] for row in as_administrator(self.stack, _DERIVED)})

    def _placed(
        self,
        order: str,
        do: Callable[[Connection], object],
        before: dict[UUID, int] | None = None,
        *,
        by_people: bool = False,
    ) -> None:
        """Does it, `by_people` or by a worker, and lets the model bring the books of the charge to it. `before`: how often a case
        was worked out by it already. Cases that lost what waited are worked out anew; so may be those that stood still."""
        derived = self._derived() + Counter(before or {})
        with transaction(self.stack.console if by_people else self.stack.worker, self.merchant_id) as db:
            do(db)
        lost = self.model.place(order, takes=not by_people)
        again = self._derived() - derived
        assert again.keys() >= {case.case_id for case in lost}
        assert all(times == 1 for times in again.values())
        for case in [case for case in self._cases() if case.case_id in again]:
            assert case in lost or not self.model.of_case(case, *LIVE)
            self.model.work_out(case, "refunded_outside")
        self._expect_the_same_proposals()

    def _expect_nobody_stranded(self, order: str) -> None:
        """What was called back for something that is over now is proposed again, as far as there is money."""
        for case in self._cases():
            mine = [one for one in self.model.intents if one.case_id == case.case_id]
            left_to_people = any(one.state in ("failed", "reversed") for one in mine)
            if case.order_ref == order and mine and mine[-1].state == "withdrawn" and mine[-1].why in LINKED:
                waits = self.model.owed(case) > self.model.paid(case) and self.model.room(order) > 0
                assert left_to_people or not waits or self.model.unanswered(order)
