"""People of a test at their desks: signed-in browsers, addresses by case and refund, and what the database says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg import sql

from ledger.database import rows, transaction
from ledger.settlement import Confirmed, ProviderRefund
from tests import lives
from tests.stack import Stack
from tests.web.pages import Browser, Form, Page
from tests.world import Person, World

Opened = Callable[..., Browser]


@dataclass
class Desk:
    """One test's merchant, its database and its browsers."""

    stack: Stack
    world: World
    open_browser: Opened
    signed_in: dict[UUID, Browser] = field(default_factory=dict)

    def at(self, person: Person) -> Browser:
        """The person's browser, signed in at their first use."""
        if person.staff_id not in self.signed_in:
            made = self.open_browser()
            made.sign_in(person)
            self.signed_in[person.staff_id] = made
        return self.signed_in[person.staff_id]

    def url(self, path: str, world: World | None = None) -> str:
        return f"/{(world or self.world).slug}{path}"

    def case(self, case_id: UUID) -> str:
        return self.url(f"/cases/{case_id}")

    def refund(self, intent_id: UUID) -> str:
        return self.url(f"/refunds/{intent_id}")

    def confirm(self, person: Person, intent_id: UUID) -> Form:
        """The confirm sheet's form, as this person's browser shows it."""
        page = self.at(person).get(f"{self.refund(intent_id)}/approval")
        return page.form("/approval")

    def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        """Rows as the console's role sees them, with :m the merchant."""
        with transaction(self.stack.console, self.world.merchant_id, read_only=True) as db:
            return [dict(row) for row in rows(db, sql, m=self.world.merchant_id, **values)]

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) AS n FROM {table} WHERE merchant_id = :m")[0]["n"])  # noqa: S608

    def count_of(self, table: str) -> int:
        """Rows of a table that is nobody's, or of every merchant."""
        with self.stack.past_guards() as db:
            found = db.execute(sql.SQL("SELECT count(*) AS n FROM {}").format(sql.Identifier(table))).fetchone()
        return int(found["n"]) if found else 0

    def state(self, intent_id: UUID) -> str:
        return lives.state(self.stack, self.world, intent_id)

    def pay(self, intent_id: UUID) -> None:
        """Approved by Priya, sent, and paid at the provider."""
        pay(self.stack, self.world, intent_id)


def pay(stack: Stack, world: World, intent_id: UUID, by: Person | None = None) -> None:
    """Approved by Priya (or `by`), sent, and paid at the provider."""
    lives.approve_as(stack, world, by or world.priya, intent_id)
    pay_due(stack, world)


def pay_due(stack: Stack, world: World) -> None:
    """Whatever is approved and due is sent, and paid at the provider."""
    for claimed in lives.claim(stack, world):
        with transaction(stack.console, world.merchant_id, read_only=True) as db:
            row = rows(db, "SELECT * FROM intents WHERE merchant_id = :m AND intent_id = :i", m=world.merchant_id,
                       i=claimed.intent_id)[0]  # fmt: skip
        refund = ProviderRefund(
            f"re_{row['number']}", "succeeded", row["amount_minor"], row["currency"], row["payment_intent_ref"],
            row["charge_ref"], str(row["intent_id"]),
        )  # fmt: skip
        assert lives.record(stack, claimed, Confirmed(refund))


def token_of(page: Page) -> str:
    """The CSRF token of any form of the page."""
    return next(form.values["csrf_token"] for form in page.forms if "csrf_token" in form.values)
