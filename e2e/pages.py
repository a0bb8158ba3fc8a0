"""The console's pages in the words of the desks. Elements are found by role and label, as a person or a reader finds them."""

import re
from typing import Self

from playwright.sync_api import Locator, Page, expect

from e2e.shop import Order, Refund, Shop

ASKED = "Approve refund of {} to Visa ending 4242"


class Desk:
    """A page of the console in one tab."""

    def __init__(self, page: Page, shop: Shop) -> None:
        self.page, self.shop = page, shop

    def _go(self, path: str) -> Self:
        self.page.goto(self.shop.url(path))
        return self.looks_right()

    def looks_right(self) -> Self:
        """What holds of every page: one h1, a title of its own, no id twice."""
        expect(self.page.get_by_role("heading", level=1)).to_have_count(1)
        expect(self.page).to_have_title(re.compile(r"^\S.* – Onceback$"))
        ids = self.page.locator("[id]").evaluate_all("found => found.map(one => one.id)")
        assert len(ids) == len(set(ids)), sorted(one for one in set(ids) if ids.count(one) > 1)
        return self

    def says(self, *sentences: str) -> Self:
        """The page shows each of these."""
        for sentence in sentences:
            expect(self.page.locator("body")).to_contain_text(sentence)
        return self

    def never_says(self, *sentences: str) -> Self:
        for sentence in sentences:
            expect(self.page.locator("body")).not_to_contain_text(sentence)
        return self

    def button(self, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role("button", name=name)

    def link(self, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role("link", name=name)

    def sign_out(self) -> None:
        """By the menu behind one's name."""
        self.page.locator("header").get_by_role("button").last.click()
        self.button("Sign out").click()


class SignInPage(Desk):
    def open(self) -> Self:
        self.page.goto(f"{self.shop.stack.origin}/sign-in")
        return self.looks_right()

    def is_shown(self) -> Self:
        expect(self.page.get_by_role("heading", name="Sign in", level=1)).to_be_visible()
        return self

    def sign_in(self, person: str, password: str) -> None:
        """`person` by first name; another shop's people by their whole address."""
        address = person if "@" in person else f"{person}@hollowbrook.example"
        self.page.get_by_label("E-mail").fill(address)
        self.page.get_by_label("Password").fill(password)
        self.button("Sign in").click()
        expect(self.page.get_by_role("heading", name="Sign in", level=1)).to_have_count(0)


class QueuePage(Desk):
    def open(self, view: str = "") -> Self:
        return self._go(f"/queue/{f'?view={view}' if view else ''}")

    def row(self, refund: Refund) -> Locator:
        return self.page.get_by_role("row").filter(has_text=refund.case)

    def find(self, text: str) -> Self:
        """By the search of the top bar."""
        search = self.page.get_by_label("Find a case, order, reference, e-mail or last four digits")
        search.fill(text)
        search.press("Enter")
        return self.looks_right()

    def pick(self, *refunds: Refund) -> Self:
        for refund in refunds:
            self.page.get_by_label(f"Pick {refund.case}").check()
        return self

    def tag_picked(self, word: str) -> Self:
        """By the form above the bar; it opens without a script."""
        self.button("Tag…").click()
        form = self.page.get_by_role("group", name="Tag the picked cases")
        form.get_by_label("Tag").fill(word)
        form.get_by_role("button", name="Tag").click()
        return self.looks_right()


class CasePage(Desk):
    def open(self, refund: Refund) -> Self:
        return self._go(f"/cases/{refund.case_id}")

    @property
    def reference(self) -> str:
        """Which case this is, by its heading."""
        heading = self.page.get_by_role("heading", level=1).inner_text()
        found = re.search(r"C-\d+", heading)
        assert found, heading
        return found[0]

    @property
    def approve_link(self) -> Locator:
        return self.link(re.compile("^Check and approve"))

    def check_and_approve(self) -> "ConfirmPage":
        self.approve_link.click()
        return ConfirmPage(self.page, self.shop).looks_right()

    def write_note(self, text: str) -> None:
        self.page.get_by_label("Note", exact=True).fill(text)

    def add_note(self) -> None:
        self.button("Add note").click()


class ConfirmPage(Desk):
    def open(self, refund: Refund) -> Self:
        return self._go(f"/refunds/{refund.intent_id}/approval")

    @property
    def approve_button(self) -> Locator:
        return self.button(re.compile("^Approve refund of"))

    @property
    def note(self) -> Locator:
        return self.page.get_by_label("Note to this decision")

    def asks(self, refund: Refund) -> Self:
        """The button names this very act."""
        expect(self.approve_button).to_have_accessible_name(ASKED.format(refund.amount))
        return self

    def approve(self) -> "DecisionPage":
        """Presses the button and sees where it leads."""
        self.press()
        return DecisionPage(self.page, self.shop).is_shown()

    def press(self) -> None:
        """Presses the button and does not look."""
        self.approve_button.click(no_wait_after=True)


class FactorsPage(Desk):
    """One's own passkeys and app."""

    def open(self) -> Self:
        return self._go("/factors")

    def show_password(self, password: str) -> Self:
        self.page.get_by_label("Your password", exact=True).fill(password)
        self.button("Show the password").click()
        return self.says("your password, counts until")

    def show_key(self) -> Self:
        self.button("Use a passkey").click()
        return self.says("your passkey, counts until")

    def add_key(self, name: str) -> Self:
        self.page.get_by_label("Name of a new passkey").fill(name)
        self.button("Add a passkey").click()
        return self.says("Your passkey is added.")

    def remove_key(self, name: str) -> Self:
        self.button(f"Remove {name}").click()
        return self.says(f"{name} is removed.")


class DecisionPage(Desk):
    def open(self, refund: Refund) -> Self:
        return self._go(f"/refunds/{refund.intent_id}")

    def is_shown(self) -> Self:
        expect(self.page).to_have_url(re.compile(r"/refunds/[0-9a-f-]{36}(\?[a-z_=&0-9]*)?$"))
        return self.looks_right()

    def is_headed(self, words: str) -> Self:
        """Waits for the page to say so; it asks again by itself."""
        expect(self.page.get_by_role("heading", name=words, level=1, exact=True)).to_be_visible()
        return self

    @property
    def approved_line(self) -> Locator:
        """Who approved it and when."""
        return self.page.get_by_role("list", name="Life of this refund").get_by_role("listitem").first

    @property
    def cancel_button(self) -> Locator:
        return self.button("Cancel before it is sent")


class CounterPage(Desk):
    def open(self) -> Self:
        return self._go("/counter/")

    def find_order(self, reference: str) -> Self:
        self.page.get_by_label("Order number or e-mail").fill(reference)
        self.button("Find order").click()
        self.link(reference).click()
        return self.looks_right()

    def take_back(self, goods: str, units: int, reason: str) -> CasePage:
        """Opens the return of the order that is shown."""
        self.page.get_by_label(f"Units of {goods} to return").fill(str(units))
        self.page.get_by_label("Reason given").select_option(label=reason)
        self.button("Open this return").click()
        return CasePage(self.page, self.shop).looks_right()

    def charged_twice(self, said: str) -> CasePage:
        """The customer of the order that is shown says that they were charged twice."""
        self.link("Charged twice?").click()
        self.looks_right()
        self.page.get_by_label("What the customer says").fill(said)
        self.button("Read the charges").click()
        return CasePage(self.page, self.shop).looks_right()


class AllowancePage(Desk):
    """Money back with the goods kept, and its sheet."""

    def open(self, order: Order, kind: str) -> Self:
        CounterPage(self.page, self.shop).open().find_order(order.ref)
        self.link("Without a return…").click()
        self.looks_right().link(f"{kind}…").click()
        return self.looks_right()

    def check(self, line: str, amount: str, reason: str, entry: str = "with tax") -> Self:
        """Types it and looks at the sheet, or at what is refused."""
        self.page.get_by_role("radio", name=line).check()
        self.page.get_by_label(re.compile("^Amount|^New price")).fill(amount)
        self.page.get_by_role("radio", name=entry, exact=True).check()
        self.page.get_by_label("Reason").select_option(label=reason)
        self.button("Check it…").click()
        return self.looks_right()

    def ask(self, amount: str) -> CasePage:
        self.button(f"Ask for {amount}").click()
        return CasePage(self.page, self.shop).looks_right()


class OverridePage(Desk):
    """Another amount than computed, and its sheet."""

    def open(self, refund: Refund) -> Self:
        return self._go(f"/cases/{refund.case_id}/override")

    def check(self, amount: str, reason: str, note: str) -> Self:
        self.page.get_by_label("Amount in all").fill(amount)
        self.page.get_by_label("Why another amount").select_option(label=reason)
        self.page.get_by_label("In your own words").fill(note)
        self.button("Check it…").click()
        return self.looks_right()

    def ask(self, amount: str) -> CasePage:
        self.button(f"Ask for {amount}").click()
        return CasePage(self.page, self.shop).looks_right()


class GoodsInPage(Desk):
    def open(self) -> Self:
        return self._go("/goods-in/")

    def find_case(self, reference: str) -> Self:
        self.page.get_by_label("Case or order number").fill(reference)
        self.button("Find case").click()
        self.link(reference).click()
        return self.looks_right()

    def report(self, goods: str, received: int, grade: str) -> CasePage:
        """So many units of the first line arrived, the first of them with this grade."""
        self.page.get_by_label(f"Received of {goods}").fill(str(received))
        self.page.get_by_label("Grade of unit 1 of line 1").select_option(grade)
        self.button("Record what arrived").click()
        return CasePage(self.page, self.shop).looks_right()


class PoliciesPage(Desk):
    def open(self) -> Self:
        return self._go("/policies/")

    def draft_next(self, policy_id: str) -> "PolicyDraftPage":
        """The form, with the terms of the version in force."""
        self.link(re.compile(f"^Draft the next version of {policy_id}@")).click()
        return PolicyDraftPage(self.page, self.shop).looks_right()

    def open_draft(self, title: str) -> "PolicyDraftPage":
        """The newest draft of that title that waits."""
        self.page.get_by_role("region", name="Drafts", exact=True).get_by_role("link", name=title).last.click()
        return PolicyDraftPage(self.page, self.shop).looks_right()


class PolicyDraftPage(Desk):
    """The form of a draft, and the draft once it is kept."""

    def set(self, term: str, value: str) -> Self:
        """Types a common term in its field."""
        self.page.get_by_label(term, exact=True).fill(value)
        return self

    def turn_to_json(self) -> Self:
        self.button("Write it as JSON instead…").click()
        return self.looks_right()

    def turn_to_fields(self) -> Self:
        self.button("Back to the fields…").click()
        return self.looks_right()

    def replace(self, old: str, new: str) -> Self:
        document = self.page.get_by_label("Policy document")
        text = document.input_value()
        assert old in text, text
        document.fill(text.replace(old, new))
        return self

    def give_reason(self, reason: str) -> Self:
        self.page.get_by_label("Why", exact=True).fill(reason)
        return self

    def keep(self) -> Self:
        self.button("Keep this draft and compare").click()
        return self.looks_right()

    def reload(self) -> Self:
        self.page.reload()
        return self.looks_right()

    @property
    def approve_button(self) -> Locator:
        return self.button(re.compile("^Approve "))

    def approve(self, note: str) -> None:
        self.page.get_by_label("Note", exact=True).fill(note)
        self.approve_button.click()


class CapsPage(Desk):
    def open(self) -> Self:
        return self._go("/cap/")

    def ask_for(self, currency: str, limit: str, reason: str) -> Self:
        self.page.get_by_role("combobox", name="Currency").select_option(currency)
        self.page.get_by_label("Limit for today").fill(limit)
        self.page.get_by_label("Why today").fill(reason)
        self.button("Ask for a higher cap…").click()
        return self.says("The raise is asked for.")

    def grant(self, currency: str, limit: str) -> Self:
        self.button(f"Raise the {currency} cap to {limit} {currency}").click()
        return self.says("The cap is raised for today.")


class UnknownPage(Desk):
    def open(self) -> Self:
        return self._go("/unknown")


class PeoplePage(Desk):
    def open(self) -> Self:
        return self._go("/people")


class SessionsPage(Desk):
    def open(self) -> Self:
        return self._go("/sessions")

    def sign_out_everywhere(self) -> None:
        self.button("Sign out everywhere").click()
