"""A policy changes hands: drafted, compared, not approved by its drafter, in force, and each case under its own version."""

import re

from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, PoliciesPage, PolicyDraftPage
from e2e.shop import NOTHING, ONE_OF_EACH, Refund, Shop


def test_a_version_of_two_managers_decides_what_is_sold_from_then_on_and_nothing_before(
    office: Office, shop: Shop
) -> None:
    before = shop.proposed()
    mara, jonas = office.at("mara"), office.at("jonas")
    draft = PoliciesPage(mara, shop).open().draft_next("hollowbrook-returns")
    draft.set("Paid within", "10").give_reason("Paid sooner in the season").keep()
    draft.says("Paid within", "14 days", "10 days", "You drafted this, so another manager has to approve it.")
    assert draft.approve_button.count() == 0

    second = PoliciesPage(jonas, shop).open().says("Waits for a second manager.").open_draft("Returns of the web shop")
    second.says("Paid sooner in the season", "In force as soon as it is approved.").approve("Agreed")
    second.says("The version is approved.", "Approved by")
    PolicyDraftPage(mara, shop).reload().says("Approved by", "Jonas Okonjo")

    after = _sold_now(shop)
    for refund, version in ((before, 1), (after, 2)):
        CasePage(office.at("priya"), shop).open(refund).says(f"hollowbrook-returns@{version}")
        due = shop.rows("SELECT due_at - opened_at AS days FROM cases WHERE number = %s", refund.case_number)
        assert due[0]["days"].days == (14, 10)[version - 1]
    assert [shop.counts(refund.order) for refund in (before, after)] == [NOTHING, NOTHING]
    for refund in (before, after):
        ConfirmPage(office.at("priya"), shop).open(refund).approve().is_headed("Refund approved")
    shop.settled(before, after)
    assert [shop.counts(refund.order) for refund in (before, after)] == [ONE_OF_EACH, ONE_OF_EACH]


def _sold_now(shop: Shop) -> Refund:
    """A refund of an order that was placed this moment."""
    order = shop.order()
    shop.change("UPDATE orders SET placed_at = clock_timestamp() WHERE external_ref = %s", order.ref)
    number = shop.ask(order)
    shop.receive(number)
    return shop.refund(order, number)


def test_the_fields_and_the_document_lead_to_one_another_and_a_wrong_field_is_named(office: Office, shop: Shop) -> None:
    mara = office.at("mara")
    draft = PoliciesPage(mara, shop).open().draft_next("hollowbrook-returns")
    draft.set("Paid within", "10").turn_to_json()
    draft.replace('"pay_within_days": 10', '"pay_within_days": 12').give_reason("Paid sooner").turn_to_fields()
    assert mara.get_by_label("Paid within", exact=True).input_value() == "12"
    assert mara.get_by_label("Why", exact=True).input_value() == "Paid sooner"
    office.expects(422)
    draft.set("A manager decides from", "250").keep()
    draft.says("A manager decides from: write each amount with its currency")
    draft.set("A manager decides from", "300.00 EUR").keep().says("12 days", "300.00 EUR")


def test_finance_reads_policies_and_a_clerk_does_not(office: Office, shop: Shop) -> None:
    page = PoliciesPage(office.at("farah"), shop).open().says("In force", "not legal advice")
    assert page.link(re.compile("^Draft")).count() == 0
    office.expects(403)
    clerk = office.at("priya")
    clerk.goto(shop.url("/policies/"))
    assert clerk.get_by_role("link", name="Policies").count() == 0
