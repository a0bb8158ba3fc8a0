"""The stored result of an allocation: what each line was charged at, and the facts of the sale a return may turn on.

A document leaves out what is not known, so that an allocation stored by an earlier version keeps its bytes and its digest.
All `_minor` are whole minor units of the order's currency, instants RFC 3339 text in UTC, `price_mode` is the base of
`unit_price_minor`, `list_price_minor` and `line_discount_minor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter

from ledger.allocation_checks import Discrepancy
from ledger.allocation_tax import TaxShare
from ledger.canonical import canonical_bytes, digest_bytes
from ledger.money import cut
from ledger.sale_facts import Promo

ROUNDING_REF = "rounding"

_PROMO: TypeAdapter[Promo] = TypeAdapter(Promo)


@dataclass(frozen=True, slots=True)
class Segment:
    """Units [a,b) of a line with a total of their own: a discount pinned to some of its units."""

    a: int
    b: int
    gross_minor: int


@dataclass(frozen=True, slots=True)
class AllocatedLine:
    """One line at what was charged for it.

    `gross_minor` = `net_minor` + `tax_minor`, 0 ≤ tax ≤ gross; Σ `taxes` = tax. `discount_minor` is all that came off
    (line and order discounts), `line_discount_minor` the line's own. `tax_known` false: the amount stands, the tax shown is
    0 and its credit entry needs a person. `fee_type` is "rounding" for the line the allocation adds for a small gap.
    `parent_line` names the bundle of a component; a line with `parent` true carries no money, its components do.
    `for_lines` empty: every goods line. `segments` empty: every unit is worth the same.
    """

    line_id: str
    position: int
    kind: str
    sku: str
    title: str
    quantity: int
    gross_minor: int
    tax_minor: int
    taxes: tuple[TaxShare, ...] = ()
    tax_known: bool = True
    discount_minor: int = 0
    fee_type: str | None = None
    segments: tuple[Segment, ...] = ()
    unit_price_minor: int | None = None
    list_price_minor: int | None = None
    line_discount_minor: int | None = None
    for_lines: tuple[str, ...] = ()
    standard_offered_minor: int | None = None
    flat: bool | None = None
    shipment: str | None = None
    delivered_at: str | None = None
    attributes: Mapping[str, str | int | bool] | None = None
    serials: tuple[str, ...] = ()
    parent_line: str | None = None
    per_bundle: int | None = None
    parent: bool = False

    @property
    def net_minor(self) -> int:
        return self.gross_minor - self.tax_minor

    @property
    def returnable(self) -> bool:
        """A goods line whose units carry money of their own."""
        return self.kind == "goods" and not self.parent

    def pieces(self) -> tuple[Segment, ...]:
        """The line's units as ranges of equal units."""
        return self.segments or (Segment(0, self.quantity, self.gross_minor),)

    def gross_at(self, units: int, step: int) -> int:
        """What the first `units` units were charged at."""
        if not self.segments:
            return cut(self.gross_minor, self.quantity, units, step)
        before = 0
        for part in self.segments:
            if units < part.b:
                size = part.b - part.a
                return before + cut(part.gross_minor, size, max(0, units - part.a), _step(part, step))
            before += part.gross_minor
        return before

    def document(self) -> dict[str, Any]:
        """The line, without what is not known."""
        found: dict[str, Any] = {name: getattr(self, name) for name in _ALWAYS}
        found["taxes"] = [{"code": tax.code, "rate_ppm": tax.rate_ppm, "minor": tax.minor} for tax in self.taxes]
        for name, default in _SOMETIMES:
            value = getattr(self, name)
            if value != default:
                found[name] = value
        if self.segments:
            found["segments"] = [{"a": part.a, "b": part.b, "gross_minor": part.gross_minor} for part in self.segments]
        return found

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> AllocatedLine:
        """The line stored as `document()`."""
        found: dict[str, Any] = {name: tuple(value) if name in _TUPLES else value for name, value in document.items()}
        found["taxes"] = tuple(TaxShare(**tax) for tax in document["taxes"])
        found["segments"] = tuple(Segment(**part) for part in document.get("segments", ()))
        return cls(**found)


def _step(part: Segment, step: int) -> int:
    return step if part.gross_minor % step == 0 else 1


_ALWAYS = (
    "line_id", "position", "kind", "sku", "title", "quantity", "gross_minor", "tax_minor", "tax_known", "discount_minor",
    "fee_type",
)  # fmt: skip
_SOMETIMES = tuple(
    (one.name, one.default) for one in fields(AllocatedLine) if one.name not in (*_ALWAYS, "taxes", "segments")
)
_TUPLES = ("for_lines", "serials")


@dataclass(frozen=True, slots=True)
class PromoGroup:
    """A promotion as it stood at the sale, and the lines it was given on."""

    id: str
    lines: tuple[str, ...]
    rule: Promo

    def document(self) -> dict[str, Any]:
        rule = self.rule.model_dump(mode="json", exclude_none=True)
        return {"id": self.id, "lines": list(self.lines), "rule": rule}


@dataclass(frozen=True)
class Sale:
    """Who bought, where and how, and what was told. None is unknown, and an unknown fact never decides."""

    price_mode: Literal["inclusive", "exclusive"] = "inclusive"
    placed_at: str | None = None
    zone: str | None = None
    region: str | None = None
    customer_ref: str | None = None
    customer_type: str | None = None
    sale_mode: str | None = None
    channel: str | None = None
    withdrawal_info_at: str | None = None
    return_cost_on_consumer: bool | None = None
    restocking_fee: bool | None = None
    gift_condition: bool | None = None
    terms_version: str | None = None

    def document(self) -> dict[str, Any]:
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Allocation:
    """The result of `allocate`, in the order of line position. `inputs_digest` is the digest of the order's facts.

    `sale` is None for an allocation stored before the facts of the sale were kept with it.
    """

    order_ref: str
    method: str
    inputs_digest: str
    currency: str
    exponent: int | None
    total_minor: int
    step_minor: int
    lines: tuple[AllocatedLine, ...]
    discount_shares: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    discrepancies: tuple[Discrepancy, ...] = ()
    sale: Sale | None = None
    promos: tuple[PromoGroup, ...] = ()
    settled: Mapping[str, Any] | None = None

    @property
    def blocked_by(self) -> tuple[Discrepancy, ...]:
        """The blocking discrepancies; empty when the order may be refunded."""
        return tuple(found for found in self.discrepancies if found.blocking)

    def line(self, line_id: str) -> AllocatedLine | None:
        return self._by_id.get(line_id)

    @cached_property
    def _by_id(self) -> dict[str, AllocatedLine]:
        return {line.line_id: line for line in self.lines}

    def delivered(self, stated: Iterable[tuple[str, str | None, str | None]]) -> Allocation:
        """The same allocation with (line, delivered_at, shipment) stated of some lines since; no money of it differs.

        A component came when and as its bundle did, unless something else is stated of itself.
        """
        known = {line.line_id: (line.delivered_at, line.shipment) for line in self.lines}
        known |= {line_id: (at, shipment) for line_id, at, shipment in stated}
        lines = []
        for line in self.lines:
            at, shipment = known[line.line_id]
            of_bundle = known.get(line.parent_line or "", (None, None))
            lines.append(replace(line, delivered_at=at or of_bundle[0], shipment=shipment or of_bundle[1]))
        return replace(self, lines=tuple(lines))

    def components(self, parent_line: str) -> tuple[AllocatedLine, ...]:
        """The components of a bundle, in line position order."""
        return tuple(line for line in self.lines if line.parent_line == parent_line)

    def document(self) -> dict[str, Any]:
        """A JSON document to store; `from_document` reads it back equal."""
        found: dict[str, Any] = {
            "order_ref": self.order_ref,
            "method": self.method,
            "inputs_digest": self.inputs_digest,
            "currency": self.currency,
            "exponent": self.exponent,
            "total_minor": self.total_minor,
            "step_minor": self.step_minor,
            "lines": [line.document() for line in self.lines],
            "discount_shares": {name: dict(shares) for name, shares in self.discount_shares},
            "discrepancies": [
                {"name": found.name, "say": found.say, "facts": dict(found.facts)} for found in self.discrepancies
            ],
        }
        if self.sale is not None:
            found["sale"] = self.sale.document()
        if self.promos:
            found["promos"] = [promo.document() for promo in self.promos]
        if self.settled:
            found["settled"] = dict(self.settled)
        return found

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Allocation:
        """The allocation stored as `document()`."""
        sale = document.get("sale")
        shares = sorted(document["discount_shares"].items())
        return cls(
            **{
                **document,
                "lines": tuple(AllocatedLine.from_document(line) for line in document["lines"]),
                "discount_shares": tuple((name, tuple(sorted(found.items()))) for name, found in shares),
                "discrepancies": tuple(
                    Discrepancy(found["name"], found["say"], tuple(sorted(found["facts"].items())))
                    for found in document["discrepancies"]
                ),
                "sale": Sale(**sale) if sale is not None else None,
                "promos": tuple(_promo(promo) for promo in document.get("promos", ())),
            }
        )

    @cached_property
    def canonical(self) -> str:
        """The canonical text of the document."""
        return canonical_bytes(self.document()).decode()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document."""
        return digest_bytes(self.canonical.encode(), "allocation@1")


def _promo(document: Mapping[str, Any]) -> PromoGroup:
    return PromoGroup(document["id"], tuple(document["lines"]), read_promo(document["rule"]))


def read_promo(rule: Mapping[str, Any]) -> Promo:
    """The rule of a promotion from its JSON form."""
    found: Promo = _PROMO.validate_python(rule, strict=False)
    return found
