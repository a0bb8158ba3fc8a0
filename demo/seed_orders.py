"""What the demo's shop sold: customers, orders with discounts, tax and shipping in four currencies."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

GOODS: Final = {
    "LINOV-SAND-M": ("Linen overshirt, sand, M", 5900), "COAT-NAVY-42": ("Wool coat, navy, 42", 28900),
    "TUMBLER-SMOKE": ("Glass tumbler, smoke", 560), "LAMP-CERAMIC": ("Ceramic lamp", 5840),
    "SCARF-PLUM": ("Silk scarf, plum", 6400), "NAPKIN-OAT": ("Napkin, oat", 699),
    "SOCK-MERINO-39": ("Merino sock, grey, 39–41", 1136), "PAN-28": ("Cast-iron pan, 28 cm", 12400),
    "CANDLE-FIG": ("Candle, fig", 1795), "RAIN-MOSS-L": ("Rain jacket, moss, L", 11830),
    "CLOCK-OAK": ("Desk clock, oak", 7495), "TOWEL-SLATE": ("Bath towel, slate", 2690),
    "BAG-BLACK": ("Carry-on case, black", 17900), "MUG-CREAM": ("Enamel mug, cream", 1175),
    "CUSHION-RUST": ("Cushion cover, rust", 2390), "TEAPOT": ("Teapot, celadon", 4800),
    "BELT-TAN-95": ("Leather belt, tan, 95", 3900), "FRAME-30": ("Picture frame, 30 × 40", 1990),
    "UMBRELLA": ("Umbrella, wood handle", 4500), "TEE-WHITE-M": ("Cotton tee, white, M", 1372),
    "BED-KING": ("Linen bedding set, king size, washed, with four pillow cases and a bag of the same cloth", 21440),
}  # fmt: skip
# Rates as parts per million: the tax of the shop's country inside the price.
TAX: Final = {"EUR": ("DE-19", 190_000), "GBP": ("GB-20", 200_000), "USD": ("US-CA", 72_500), "JPY": ("JP-10", 100_000)}
SHIPPING_MINOR: Final = {"EUR": 490, "GBP": 450, "USD": 695, "JPY": 800}
REGION: Final = {"EUR": "DE", "GBP": "GB", "USD": "US-CA", "JPY": "JP"}


@dataclass(frozen=True)
class Sale:
    """One order to be: `items` are (sku, quantity); `coupon_minor` comes off all goods; `days` is how long ago; `gift_minor` of it
    was paid with a gift card, which no provider holds; `charged_again` took all of it twice, by mistake."""

    ref: str
    customer: str
    items: tuple[tuple[str, int], ...]
    days: int
    currency: str = "EUR"
    coupon_minor: int = 0
    card: tuple[str, str] = ("visa", "4242")
    split_minor: int = 0
    gift_minor: int = 0
    email: str = field(default="")
    charged_again: bool = False


def facts(sale: Sale, now: datetime, payments: list[dict[str, Any]]) -> dict[str, Any]:
    """The order as the shop's system would send it; `payments` are what the provider took for it, in order."""
    placed = now - timedelta(days=sale.days)
    code, rate = TAX[sale.currency]
    lines = [
        {
            "line_ref": f"L{number}", "position": number, "kind": "goods", "sku": sku, "title": GOODS[sku][0],
            "quantity": quantity, "unit_price_minor": price(sku, sale.currency), "taxes": [{"code": code, "rate_ppm": rate}],
        }
        for number, (sku, quantity) in enumerate(sale.items, 1)
    ]  # fmt: skip
    shipping = SHIPPING_MINOR[sale.currency]
    lines.append(
        {"line_ref": "SHIP", "position": len(lines) + 1, "kind": "shipping", "sku": "STANDARD", "title": "Standard delivery",
         "quantity": 1, "unit_price_minor": shipping, "taxes": [{"code": code, "rate_ppm": rate}]}
    )  # fmt: skip
    document: dict[str, Any] = {
        "external_ref": sale.ref, "currency": sale.currency, "total_minor": total(sale), "placed_at": _text(placed),
        "zone": "Europe/Berlin", "region": REGION[sale.currency], "channel": "web", "price_mode": "inclusive",
        "customer": {"external_ref": f"K-{sale.customer.lower().replace(' ', '-')}", "name": sale.customer},
        "lines": lines,
        "captures": [
            {"capture_ref": f"{sale.ref}-{number}", "tender": "card", "currency": sale.currency,
             "captured_minor": payment["amount"], "order_minor": payment["amount"],
             "captured_at": _text(_charged(sale, placed, number)),
             "payment_intent_ref": payment["payment_intent"], "charge_ref": payment["charge"],
             "destination": {"kind": "card", "brand": sale.card[0], "last4": sale.card[1]}}
            for number, payment in enumerate(payments, 1)
        ],
    }  # fmt: skip
    if sale.gift_minor:
        document["captures"].append(
            {"capture_ref": f"{sale.ref}-gift", "tender": "gift_card", "currency": sale.currency, "captured_minor": sale.gift_minor,
             "order_minor": sale.gift_minor, "captured_at": _text(placed), "destination": {"kind": "gift_card", "last4": "7731"}}
        )  # fmt: skip
    if sale.coupon_minor:
        document["order_discounts"] = [
            {"id": "WELCOME", "minor": sale.coupon_minor, "applies_to": [line["line_ref"] for line in lines[:-1]]}
        ]
    return document


def price(sku: str, currency: str) -> int:
    """The shop's price: yen are whole, at a hundredth of the figure times 160."""
    minor = GOODS[sku][1]
    return minor * 160 // 100 if currency == "JPY" else minor


def total(sale: Sale) -> int:
    """What the customer paid in all."""
    goods = sum(price(sku, sale.currency) * quantity for sku, quantity in sale.items)
    return goods - sale.coupon_minor + SHIPPING_MINOR[sale.currency]


def payments(sale: Sale, now: datetime) -> list[dict[str, Any]]:
    """The payments of the sale, for the local provider: one, or two when it was split or charged again."""
    by_card = total(sale) - sale.gift_minor
    parts = [by_card - sale.split_minor, sale.split_minor] if sale.split_minor else [by_card] * (1 + sale.charged_again)
    placed = now - timedelta(days=sale.days)
    return [{"amount": part, "currency": sale.currency.lower(), "created": int(_charged(sale, placed, number).timestamp()),
             "brand": sale.card[0], "last4": sale.card[1], "metadata": {"order": sale.ref}}
            for number, part in enumerate(parts, 1)]  # fmt: skip


def _charged(sale: Sale, placed: datetime, number: int) -> datetime:
    """When that payment was taken: at once, the mistaken one a minute later."""
    return placed + timedelta(minutes=number - 1) if sale.charged_again else placed


def _text(at: datetime) -> str:
    return at.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
