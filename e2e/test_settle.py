"""The provider answers with another amount: a manager proposes what became of the refund, finance confirms, and it is booked."""

from playwright.sync_api import expect

from e2e.office import Office
from e2e.pages import ConfirmPage, DecisionPage, UnknownPage
from e2e.shop import ONE_OF_EACH, Refund, Shop, until


class SettlePage(UnknownPage):
    """The desk for unknown outcomes, open at one refund."""

    def open_at(self, refund: Refund) -> "SettlePage":
        return self._go(f"/unknown/{refund.intent_id}")

    def propose(self, outcome: str, compared: str) -> "SettlePage":
        self.page.get_by_role("radio", name=outcome).check()
        self.page.get_by_label("What you compared").fill(compared)
        self.button("Propose this outcome…").click()
        return self.looks_right()

    def confirm(self) -> "SettlePage":
        self.page.get_by_role("button", name="Confirm: ").click()
        return self.looks_right()


def test_a_manager_and_finance_settle_a_refund_and_nothing_is_sent_again(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    ConfirmPage(office.at("priya"), shop).open(refund).approve()
    payment = refund.order.payment_intent
    shop.provider.fault("wrong_amount", method="POST", path="/v1/refunds", payment_intent=payment)
    shop.let_go(refund)
    until(lambda: shop.state(refund) == "needs_review", f"{refund.reference} is not a person's")
    jonas = SettlePage(office.at("jonas"), shop)
    until(lambda: bool(_lists(shop, refund)), "the worker has read no list")
    jonas.open_at(refund).says("has another amount than was approved", "The provider's list")
    jonas.propose("It is paid", "The list shows the amount that was approved.")
    jonas.says("You proposed this, so somebody of the other role confirms it.")
    expect(jonas.page.get_by_role("button", name="Confirm: ")).to_have_count(0)
    SettlePage(office.at("farah"), shop).open_at(refund).says("Jonas Okonjo").confirm()

    until(lambda: _settled(shop, refund), f"{refund.reference} is not settled")
    DecisionPage(office.at("priya"), shop).open(refund).is_headed("Refund paid")
    (row,) = shop.rows(
        "SELECT p.name AS proposed_by, q.name AS decided_by FROM settlements s"
        " JOIN settlement_decisions d ON d.settlement_id = s.settlement_id AND d.confirmed"
        " JOIN staff p ON p.staff_id = s.proposed_by JOIN staff q ON q.staff_id = d.decided_by WHERE s.intent_id = %s",
        refund.intent_id,
    )  # fmt: skip
    assert row == {"proposed_by": "Jonas Okonjo", "decided_by": "Farah Osei"}
    (capture,) = shop.rows(
        "SELECT refunded_minor, reserved_minor FROM captures WHERE charge_ref = %s", refund.order.charge
    )
    assert capture == {"refunded_minor": refund.amount_minor, "reserved_minor": 0}
    assert shop.provider.money(refund.order.payment_intent)["refunded"] == refund.amount_minor
    assert shop.counts(refund.order) == ONE_OF_EACH


def _lists(shop: Shop, refund: Refund) -> list[dict[str, object]]:
    return shop.rows("SELECT 1 FROM provider_lists WHERE intent_id = %s", refund.intent_id)


def _settled(shop: Shop, refund: Refund) -> bool:
    shop.let_go(refund)  # the worker's next look is due
    return shop.state(refund) == "succeeded"


def test_the_demo_is_seeded_on_one_clock(shop: Shop) -> None:
    """What the provider dates by the seed's time, the books date by it too: no pair of both is called late."""
    assert shop.rows("SELECT refund_ref FROM discrepancies WHERE kind = 'late'") == []
    (sums,) = shop.rows(
        "SELECT count(*)::int AS n FROM reconciliation_totals WHERE part = 'movements' AND ours_count > 0"
    )
    # The demo's decisions are of today, and a run leaves the last minutes out: right after midnight none is in it.
    (in_it,) = shop.rows(
        "SELECT count(*)::int AS n FROM reconciliation_runs r JOIN transfers t ON t.merchant_id = r.merchant_id"
        " AND t.step = 'settle' AND t.at >= r.from_at AND t.at < r.to_at"
    )
    assert (sums["n"] > 0) == (in_it["n"] > 0)
