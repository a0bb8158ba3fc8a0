"""The demo's cases, as stories: what was bought, what came back, who decided, and what the provider did.

Days are how long ago. A case is opened, perhaps arrives (with grades), is perhaps approved, and ends where its story says.
"""

from dataclasses import dataclass
from typing import Final, Literal

from demo.seed_orders import Sale

End = Literal[
    "waiting",
    "ready",
    "paid",
    "held",
    "unknown",
    "pending",
    "came_back",
    "came_back_untold",
    "refused",
    "disputed",
    "by_hand",
    "needs_review",
    "rejected",
    "withdrawn",
]


@dataclass(frozen=True)
class Scene:
    """One case. `lines` are (line, quantity) asked; `grades` per unit that arrived, "" for nothing yet."""

    sale: Sale
    lines: tuple[tuple[str, int], ...]
    opened: float
    end: End
    reason: str = "changed_mind"
    channel: str = "chat"
    words: str = ""
    grades: str = ""
    arrived: float = 0
    by: str = "priya"
    joins: str = ""
    note: str = ""
    more: tuple["Again", ...] = ()


@dataclass(frozen=True)
class Again:
    """The same customer asks for another unit of the line, as a separate item."""

    lines: tuple[tuple[str, int], ...]
    opened: float
    grades: str = ""


def _one(sku: str, quantity: int = 1) -> tuple[tuple[str, int], ...]:
    return ((sku, quantity),)


SCENES: Final = (
    Scene(Sale("A-20588", "Ilse Vandermeer-Okoye", (("LINOV-SAND-M", 3),), 19, coupon_minor=500), _one("L1", 2), 5.6, "ready",
          "size", words="Both overshirts are too tight on the shoulders, I only tried them on. Please send the money back for two.",
          grades="AC", arrived=2.1, joins="counter", note="Marks under both arms, worn outdoors, tag cut off."),
    Scene(Sale("A-20411", "Ottoline Brask", (("COAT-NAVY-42", 1),), 30, "GBP"), _one("L1"), 15.8, "ready", "size", grades="B", arrived=9.2),
    Scene(Sale("A-20420", "Ferris Holm", (("TUMBLER-SMOKE", 12),), 28), _one("L1", 3), 14.9, "ready", "damaged", grades="AAA", arrived=8.0),
    Scene(Sale("A-20433", "Maximiliane von Hohenfels-Wittgenau", (("BED-KING", 2),), 27), _one("L1", 2), 13.9, "ready",
          "changed_mind", grades="AC", arrived=6.5, note="One pillow case has a stain."),
    Scene(Sale("A-20440", "Bram Kettering", (("LAMP-CERAMIC", 2),), 26), _one("L1"), 13.5, "waiting", "faulty"),
    Scene(Sale("A-20590", "ليلى الحموي", (("SCARF-PLUM", 1),), 18), _one("L1"), 5.4, "ready", grades="N", arrived=2.0),
    Scene(Sale("A-20593", "Teodor Quist", (("NAPKIN-OAT", 6),), 18), _one("L1", 6), 5.2, "ready", grades="AAAAAA", arrived=1.9),
    Scene(Sale("A-20597", "Saoirse Pell", (("SOCK-MERINO-39", 3),), 17, "GBP"), _one("L1"), 4.9, "ready", "size", "voice", grades="N", arrived=1.8),
    Scene(Sale("A-20601", "Hideaki Morrow", (("PAN-28", 1),), 16, "JPY"), _one("L1"), 4.5, "held", "faulty", grades="M", arrived=1.5),
    Scene(Sale("A-20604", "Sam \u202eOkafor", (("CANDLE-FIG", 5),), 16), _one("L1", 2), 4.4, "ready", "damaged", grades="AA", arrived=1.6),
    Scene(Sale("A-20607", "Noor El-Baz", (("RAIN-MOSS-L", 1),), 15), _one("L1"), 4.1, "ready", "size", grades="C", arrived=1.2,
          note="Worn in rain, zip stained."),
    Scene(Sale("A-20612", "Caspian Rowe", (("CLOCK-OAK", 1),), 14, "GBP"), _one("L1"), 3.8, "paid", grades="A", arrived=1.4),
    Scene(Sale("A-20615", "Aurelia Fonseca-Lindqvist", (("TOWEL-SLATE", 4),), 14), _one("L1", 2), 3.6, "paid", grades="AA", arrived=1.3, by="tobias",
          more=(Again(_one("L1"), 0.8),)),
    Scene(Sale("A-20624", "Dag Ellingsen", (("MUG-CREAM", 2),), 12), _one("L1"), 2.7, "waiting", "damaged", "voice"),
    Scene(Sale("A-20626", "Mirela Stanescu", (("CUSHION-RUST", 4),), 11), _one("L1", 4), 2.4, "ready", "wrong_item", grades="AAAA", arrived=0.9),
    Scene(Sale("A-20630", "Haruka Wexford", (("TEAPOT", 1),), 11, "JPY"), _one("L1"), 2.2, "held", "changed_mind", grades="A", arrived=0.8, by="tobias"),
    Scene(Sale("A-20633", "Lucian Abernathy", (("BELT-TAN-95", 1),), 11, "GBP"), _one("L1"), 2.1, "pending", "size", grades="A", arrived=0.9),
    Scene(Sale("A-20637", "Petra Nieminen", (("FRAME-30", 3),), 10), _one("L1"), 1.9, "ready", "faulty", grades="X", arrived=0.7,
          note="The parcel holds another shop's frame."),
    Scene(Sale("A-20640", "Signe Thorvald", (("CANDLE-FIG", 2), ("MUG-CREAM", 2)), 10), (("L1", 1), ("L2", 2)), 1.8, "paid", grades="AAA", arrived=0.9),
    Scene(Sale("A-20644", "Rosalind Achebe", (("TEE-WHITE-M", 2),), 9), _one("L1", 2), 1.6, "came_back", "size", grades="AA", arrived=0.9),
    Scene(Sale("A-20646", "Evander Quill", (("TUMBLER-SMOKE", 6),), 9), _one("L1", 4), 1.55, "came_back_untold", "damaged", grades="AAAA", arrived=0.9),
    Scene(Sale("A-20648", "Emeric Valcourt", (("UMBRELLA", 1),), 9), _one("L1"), 1.5, "disputed", "faulty", grades="M", arrived=0.8),
    Scene(Sale("A-20649", "Isaura Fenwick", (("LAMP-CERAMIC", 1),), 9), _one("L1"), 1.45, "refused", "damaged", grades="A", arrived=0.7),
    Scene(Sale("A-20650", "Leopold Amsel", (("TEAPOT", 1), ("MUG-CREAM", 2)), 9, gift_minor=6000), (("L1", 1), ("L2", 2)), 1.43, "by_hand",
          "damaged", grades="AAA", arrived=0.6, by="tobias"),
    Scene(Sale("A-20651", "Wendeline Achterberg", (("COAT-NAVY-42", 2),), 9), _one("L1", 2), 1.4, "ready", "size", "voice", grades="AA", arrived=0.5),
    Scene(Sale("A-20655", "Jun Castellanos", (("PAN-28", 1),), 8, "USD"), _one("L1"), 1.3, "needs_review", "faulty", grades="M", arrived=0.6),
    Scene(Sale("A-20658", "Beatrix Lohmann", (("LAMP-CERAMIC", 1), ("CUSHION-RUST", 2)), 8, coupon_minor=1000), (("L2", 2),), 1.2, "waiting"),
    Scene(Sale("A-20661", "Obi Nakamura", (("CLOCK-OAK", 1),), 8, "USD"), _one("L1"), 1.1, "rejected", "other", grades="D", arrived=0.6,
          note="Water damage, the case is split."),
    Scene(Sale("A-20664", "Clementine Duarte", (("TEE-WHITE-M", 4),), 7), _one("L1"), 0.9, "waiting", "size", "counter"),
    Scene(Sale("A-20667", "Anselm Prideaux", (("RAIN-MOSS-L", 1),), 7, split_minor=4000), _one("L1"), 0.8, "ready", "size", grades="A", arrived=0.3),
    Scene(Sale("A-20670", "Thandiwe Moss", (("TOWEL-SLATE", 6),), 6, "GBP"), _one("L1", 3), 0.7, "ready", "changed_mind", grades="AA", arrived=0.2),
    Scene(Sale("A-20620", "Yusuf Brandvold", (("BAG-BLACK", 1),), 12), _one("L1"), 0.6, "unknown", "faulty", grades="B", arrived=0.4),
    Scene(Sale("A-20673", "Viggo Sandoval", (("SCARF-PLUM", 2),), 6), _one("L1"), 0.5, "withdrawn", "changed_mind", grades="A", arrived=0.2, by="tobias"),
    Scene(Sale("A-20676", "Priscilla Okonedo", (("BAG-BLACK", 1),), 5, "GBP"), _one("L1"), 0.3, "waiting", "wrong_item"),
)  # fmt: skip

# Refunded by somebody at the provider's own page, past Onceback: (order, minor units). One has a case that waits, one has none.
REFUNDED_OUTSIDE: Final = (("A-20676", 17_900), ("A-20703", 4_000))


@dataclass(frozen=True)
class Work:
    """What the team did with the case of an order, by first names; `rests` in days from now, `hours` ago."""

    order: str
    by: str
    hours: float = 2
    to: str = ""
    in_hand: bool = False
    rests: int = 0
    waits: str = ""
    tag: str = ""
    note: str = ""


TEAM: Final = (
    Work("A-20411", "jonas", 20, to="jonas"),
    Work("A-20420", "tobias", 6, tag="fragile"),
    Work("A-20433", "jonas", 20, to="tobias", tag="bedding"),
    Work("A-20440", "priya", 5, rests=2, waits="warehouse", note="Asked bench 2 to look for the second parcel."),
    Work("A-20588", "tobias", 3, to="priya", tag="regular", note="@Priya she was at the counter again, the marks are old. Can you decide it today?"),
    Work("A-20590", "tobias", 0.2, in_hand=True),
    Work("A-20593", "jonas", 19, to="priya"),
    Work("A-20607", "priya", 4, to="priya", rests=1, waits="customer", note="Asked for a photo of the zip before it was worn."),
    Work("A-20624", "tobias", 26, to="tobias", rests=3, waits="parcel"),
    Work("A-20626", "priya", 2, tag="fragile"),
    Work("A-20637", "priya", 3, tag="not-ours", note="@Jonas the parcel holds another shop's frame. Do we send it on?"),
    Work("A-20651", "priya", 0.1, in_hand=True),
)  # fmt: skip

# Bought and not returned: to try the counter's forms on. The last was charged twice.
QUIET_SALES: Final = (
    *(Sale(f"A-207{number:02}", customer, items, 4, currency)
      for number, (customer, items, currency) in enumerate((
        ("Edda Winterbourne", (("LINOV-SAND-M", 2), ("SOCK-MERINO-39", 3)), "EUR"),
        ("Marcellus Ito", (("TEAPOT", 1), ("MUG-CREAM", 6)), "EUR"),
        ("Solveig Marchetti", (("BED-KING", 1),), "GBP"),
        ("Ravi Lindholm", (("CANDLE-FIG", 3), ("FRAME-30", 2)), "USD"),
    ), 1)),
    Sale("A-20705", "Ilka Sommerfeldt", (("LAMP-CERAMIC", 1),), 4, charged_again=True),
)  # fmt: skip
