"""Which money goes back: what is owed now, over the order's captures, in a fixed order.

`external_first`: card, wallet and bank before gift card and store credit; `capture_order` inside a class. The orders are
fixed, so draws depend only on the cumulative sum. `pro_rata` gives each capture its share of all that was paid so far. What
fits nowhere is a shortfall: never lowered silently, never moved to another order's payment.

A payment that was only authorised is let go whole or not at all; a part that falls on it is a shortfall (the shop captures
less), and does not move on to another payment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ledger.entitlement_facts import CaptureState
from ledger.expressions import Expr, value
from ledger.money import cut, peel

EXTERNAL_TENDERS = frozenset({"card", "wallet", "bank"})


@dataclass(frozen=True, slots=True)
class Draw:
    """A refund out of one capture: `minor` in the capture's currency pays `order_minor` of what is owed.

    `expr` gives `minor` and `order_expr` gives `order_minor`; `available_minor` is what the capture still held.
    """

    capture_id: str
    currency: str
    order_minor: int
    minor: int
    order_expr: Expr
    expr: Expr
    available_minor: int
    step_minor: int


def draws_of(
    owed: int,
    currency: str,
    captures: Sequence[CaptureState],
    tender_order: str = "external_first",
    capture_order: str = "largest_first",
) -> tuple[tuple[Draw, ...], int]:
    """Draws that pay `owed` minor units of `currency`, and the shortfall: Σ order_minor + shortfall = owed."""
    in_turn = sorted(captures, key=lambda capture: _turn(capture, tender_order, capture_order))
    found: dict[str, Draw] = {}
    left, on_hold = owed, 0
    for capture, wanted in _shares(owed, in_turn) if tender_order == "pro_rata" else ():
        draw = _take(capture, currency, min(left, wanted)) if wanted and not capture.held_minor else None
        if draw is not None:
            found[capture.capture_id] = draw
            left -= draw.order_minor
    for capture in in_turn:
        before = found.pop(capture.capture_id, None)
        already = before.order_minor if before else 0
        draw = _take(capture, currency, left + already)
        if draw is None or draw.order_minor < already:
            draw = before
        if draw is not None:
            found[capture.capture_id] = draw
            left -= draw.order_minor - already
        if capture.held_minor:
            part = max(0, capture.order_minor - capture.drawn_order_minor - (draw.order_minor if draw else 0))
            on_hold += min(left, part)
            left -= min(left, part)
    return tuple(found.values()), left + on_hold


def _take(capture: CaptureState, currency: str, most: int) -> Draw | None:
    if 0 < capture.held_minor == capture.captured_minor:
        return _let_go(capture, most)
    return (_draw if capture.currency == currency else _converted)(capture, most)


def _shares(owed: int, captures: Sequence[CaptureState]) -> Iterator[tuple[CaptureState, int]]:
    """By captured share: the first capture's target is peeled from all paid so far and this, the next from the rest."""
    rest = sum(min(capture.drawn_order_minor, capture.order_minor) for capture in captures) + owed
    whole = sum(capture.order_minor for capture in captures)
    rest = min(rest, whole)
    for capture in sorted(captures, key=lambda one: (one.position, one.capture_id)):
        target = peel(capture.order_minor, whole, rest)
        yield capture, max(0, target - capture.drawn_order_minor)
        whole, rest = whole - capture.order_minor, rest - target


def _let_go(capture: CaptureState, left: int) -> Draw | None:
    """The whole of an authorisation, when all that it was to pay is owed."""
    if left < capture.order_minor:
        return None
    held = replace(capture, available_minor=capture.held_minor, step_minor=1)
    return _made(held, ["int", capture.order_minor], ["int", capture.held_minor])


def _turn(capture: CaptureState, tender_order: str, capture_order: str) -> tuple[int, int, str]:
    last = (-capture.position, capture.capture_id)
    external = capture.tender in EXTERNAL_TENDERS
    inside = {
        "largest_first": (-capture.order_minor, capture.capture_id),
        "last_first": last,
        "first_first": (capture.position, capture.capture_id),
    }[capture_order]
    if tender_order == "store_value_first":
        return (external, *inside)
    if tender_order == "last_paid_first":
        return (0, *last)
    if tender_order == "first_paid_first":
        return (0, capture.position, capture.capture_id)
    if tender_order == "smallest_first":
        return (0, capture.order_minor, capture.capture_id)
    return (not external, *inside)


def _draw(capture: CaptureState, left: int) -> Draw | None:
    room = max(0, min(capture.available_minor, capture.order_minor - capture.drawn_order_minor))
    expr: Expr = ["min", room, left]
    minor = min(room, left)
    if minor % capture.step_minor:
        minor -= minor % capture.step_minor
        expr = ["int", minor]
    return _made(capture, expr, expr)


def _converted(capture: CaptureState, left: int) -> Draw | None:
    """In the capture's currency by its own ratio to the order, cumulative, so the full draw is the capture exactly."""
    if not capture.order_minor:
        return None
    drawn = min(capture.drawn_order_minor, capture.order_minor)
    room = capture.order_minor - drawn
    order_minor, order_expr = min(room, left), ["min", room, left]
    if _paid(capture, drawn, order_minor) > capture.available_minor:
        order_minor = _most(capture, drawn, order_minor)
        order_expr = ["int", order_minor]
    step = _step(capture)
    ratio: list[Expr] = [
        ["cut", capture.captured_minor, capture.order_minor, reached, step] for reached in (drawn + order_minor, drawn)
    ]
    return _made(capture, order_expr, ["sub", *ratio])


def _paid(capture: CaptureState, drawn: int, more: int) -> int:
    step = _step(capture)
    whole, parts = capture.captured_minor, capture.order_minor
    return cut(whole, parts, drawn + more, step) - cut(whole, parts, drawn, step)


def _step(capture: CaptureState) -> int:
    return capture.step_minor if capture.captured_minor % capture.step_minor == 0 else 1


def _most(capture: CaptureState, drawn: int, limit: int) -> int:
    """The largest part of the order whose payment the capture can still bear."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if _paid(capture, drawn, middle) <= capture.available_minor:
            low = middle
        else:
            high = middle - 1
    return low


def _made(capture: CaptureState, order_expr: Expr, expr: Expr) -> Draw | None:
    order_minor, minor = value(order_expr), value(expr)
    if not minor or not order_minor:
        return None  # a payable of 0 never calls a provider
    return Draw(
        capture_id=capture.capture_id,
        currency=capture.currency,
        order_minor=order_minor,
        minor=minor,
        order_expr=order_expr,
        expr=expr,
        available_minor=capture.available_minor,
        step_minor=capture.step_minor,
    )
