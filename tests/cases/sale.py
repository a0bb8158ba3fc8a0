"""What the tests of the cases are about: an order with its payments, and a refund of it. Amounts in minor units."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class Payment:
    """One payment at the provider, and what the shop says it took of it; `held_minor` was only authorised."""

    payment_intent: str
    charge: str
    captured_minor: int
    held_minor: int = 0


@dataclass(frozen=True)
class Sale:
    """Ilse's order with its payments. Its lines are L1, L2, … in the order of their prices."""

    ref: str
    order_id: UUID
    currency: str
    payments: tuple[Payment, ...]

    @property
    def payment(self) -> Payment:
        (only,) = self.payments
        return only


@dataclass(frozen=True, slots=True)
class Refund:
    """One intent: its case, its payment at the provider, what it asks for there and under which key."""

    case_id: UUID
    intent_id: UUID
    payment_intent_ref: str
    charge_ref: str
    amount_minor: int
    provider_key: str
    route: str


@dataclass(frozen=True)
class Books:
    """What our database holds on the captures of a sale, in minor units."""

    left: int
    reserved: int
    refunded: int
    disputed: int = 0
