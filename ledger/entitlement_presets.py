"""What the law gives, as versioned presets: a floor under the merchant's terms, not legal advice.

A statutory track is derived only where the sale states a consumer (and, to withdraw, a distance or off-premises sale): a fact
that is not known never decides. A merchant's lawyer confirms presets before use.

Sources: Directive 2011/83/EU Art. 9–16; Consumer Contracts Regulations 2013 reg. 29–34; Directive (EU) 2019/771 Art. 10–14;
Consumer Rights Act 2015 s. 20–24; Directive (EU) 2024/1799; NY GBL 218-a; Cal. Civ. 1723.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ledger.allocation_lines import Sale

EU: Final = frozenset(
    "AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Preset:
    """One statute. `days` count from the day after the last goods arrived; `months` are the time for faults to show.

    `presumed_months`: until then a fault is presumed to have been there. `cure_after_days`: until then no cure comes first,
    None: a cure always comes first. `deductions`: whether use may be taken off. `due` says what the 14 days count from.
    """

    id: str
    kind: Literal["withdrawal", "faulty", "undisclosed"]
    days: int = 14
    rolls: bool = False
    months: int | None = None
    presumed_months: int = 0
    cure_after_days: int | None = None
    deductions: bool = True
    due: Literal["statement", "goods", "agreed"] = "statement"


PRESETS: Final = {
    found.id: found
    for found in (
        Preset("eu_withdrawal@1", "withdrawal", rolls=True),
        Preset("uk_cancellation@1", "withdrawal", due="goods"),
        Preset("us_default@1", "undisclosed", days=30, deductions=False, due="agreed"),
        Preset("faulty_eu@1", "faulty", months=24, presumed_months=12, deductions=False, due="goods"),
        Preset("faulty_uk@1", "faulty", presumed_months=6, cure_after_days=30, deductions=False, due="agreed"),
    )
}


# Time for faults to show in months where a country gives more than two years (2019/771 Art. 10(3)), and countries that count by how
# long such goods last or by the time for suing: there a person looks once two years are over.
LONGER: Final = {"ES": 36, "PT": 36, "SE": 36}
LONGER_BY_LIFE: Final = frozenset({"FI", "IE", "NL"})
# Directive (EU) 2024/1799: who had goods repaired has twelve months more, once.
REPAIR_ADDS_MONTHS: Final = 12
REPAIRS_ADD_FROM: Final = "2026-07-31"


def statutes_of(sale: Sale) -> tuple[str, ...]:
    """The presets of a region, where a policy names none."""
    region = sale.region or ""
    country = region.partition("-")[0]
    if country in EU:
        return ("eu_withdrawal@1", "faulty_eu@1")
    if country == "GB":
        return ("uk_cancellation@1", "faulty_uk@1")
    return ("us_default@1",) if region in ("US-NY", "US-CA") else ()


def choose(sale: Sale, statutes: Iterable[str] | None, *, fault: bool, withdraws: bool) -> Preset | None:
    """The preset that gives this return a statutory track, if any. Raises KeyError for a statute that is not known."""
    if sale.customer_type != "consumer":
        return None
    for name in statutes_of(sale) if statutes is None else statutes:
        preset = PRESETS[name]
        if preset.kind == "faulty" and fault:
            return preset
        if preset.kind == "withdrawal" and not fault and withdraws and sale.sale_mode in ("distance", "off_premises"):
            return preset
        if preset.kind == "undisclosed" and not fault and sale.terms_version is None:
            return preset
    return None
