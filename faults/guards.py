"""The guards that a run can be without, and for each the second writer that tries what the guard refuses.

`off` are statements for the scratch database, run by its administrator: nothing in the product knows of them. A rogue plays
in every run, and is refused in every run but the one its guard was taken from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.exc import DBAPIError

from faults import rogue_charges, rogues, rogues_kinds
from faults.place import Place
from faults.rogues import TooLate
from jobs.stripe_gateway import StripeGateway
from ledger.errors import LedgerError

Row = dict[str, Any]
Rogue = Callable[[Place, StripeGateway, Row], None]
LIVE: Final = ("proposed", "approved", "held", "submitting", "unknown", "pending")


@dataclass(frozen=True)
class Guard:
    """`rogue` gets the row of an intent in a state of `wants`, and raises what the database refuses it with. Without a
    rogue the ordinary course of things meets the guard."""

    name: str
    promise: str
    off: tuple[str, ...]
    rogue: Rogue | None = None
    wants: tuple[str, ...] = ()


def attempt(guard: Guard, place: Place, gateway: StripeGateway, intent: Row) -> str:
    """Lets the rogue try: `let`, `refused` by the database, or `too late`."""
    if guard.rogue is None:
        return "too late"
    try:
        guard.rogue(place, gateway, intent)
    except (DBAPIError, LedgerError):
        return "refused"
    except TooLate:
        return "too late"
    return "let"


_NO_OBSTACLE: Final = (
    "CREATE OR REPLACE FUNCTION duplicate_obstacle(m uuid, i uuid) RETURNS text LANGUAGE sql STABLE"
    " SET search_path = public, pg_temp AS $$ SELECT ''::text $$"
)
_SENT: Final = ("submitting", "unknown", "pending", "succeeded")
_ALL: Final = (
    Guard("units", "P1", ("ALTER TABLE case_items DROP CONSTRAINT units_returned_once",),
          rogues.the_same_units_in_a_second_case, (*LIVE, "succeeded")),
    Guard("paid_units", "P1", ("DROP TRIGGER paid_units_stay ON case_items",), rogues.units_let_go_after_payment, ("succeeded",)),
    Guard("case_ceiling", "P1", ("DROP TRIGGER paid_within_entitlement ON intents",), rogues.paid_once_more, ("succeeded",)),
    Guard("one_live_intent", "P2", ("DROP INDEX one_live_intent_per_case_and_capture",
          "DROP TRIGGER paid_within_entitlement ON intents"), rogues.a_second_proposal, LIVE),
    Guard("capture_ceiling", "P3", ("ALTER TABLE captures DROP CONSTRAINT balances_not_negative",)),
    Guard("transfers", "P3", ("DROP TRIGGER moves_balances ON transfers",)),
    # A credit entry is written once too, and would stop the second.
    Guard("settled_once", "P3", ("ALTER TABLE transfers DROP CONSTRAINT one_transfer_per_step",
          "DROP TRIGGER writes_credit ON transfers",
          "ALTER TABLE captures DROP CONSTRAINT balances_not_negative"), rogues.settle_again, ("succeeded",)),
    Guard("grants", "P3", ("GRANT UPDATE ON captures TO onceback_console",), rogues.put_a_balance_right, ("succeeded",)),
    # An entitlement that says so much does not add up either, which is refused before any line is asked.
    Guard("line_ceiling", "P4", ("ALTER TABLE order_lines DROP CONSTRAINT claimed_within_allocated",
          "DROP TRIGGER adds_up ON entitlements"), rogues.more_than_the_line,
          ("succeeded",)),
    Guard("who_settles", "P5", ("DROP POLICY console_steps ON transfers", "DROP POLICY console_moves ON events"),
          rogues.settle_from_the_web, ("submitting", "unknown", "pending")),
    Guard("approved_once", "P6", ("ALTER TABLE approvals DROP CONSTRAINT approved_once_per_seat",
          "DROP TRIGGER of_what_stands ON approvals", "DROP TRIGGER counts_for_its_person ON approvals"),
          rogues.a_second_approval, ("approved", *_SENT)),
    Guard("exact", "P6", ("GRANT UPDATE (amount_minor) ON intents TO onceback_console", "DROP TRIGGER exact ON intents"),
          rogues.correct_the_amount, ("approved", *_SENT)),
    Guard("own_request", "P7", ("ALTER TABLE approvals DROP CONSTRAINT nobody_approves_what_they_asked_for",),
          rogues.approve_ones_own, ("proposed",)),
    Guard("one_key", "P8", ("GRANT UPDATE (provider_key) ON intents TO onceback_worker", "DROP TRIGGER exact ON intents"),
          rogues.retry_under_a_fresh_key, _SENT),
    Guard("attempt_fence", "P9", ("ALTER TABLE attempt_results DROP CONSTRAINT attempt_results_pkey",), rogues.a_late_result,
          _SENT),
    Guard("review_by_two", "P9", ("DROP TRIGGER settled_by_two ON events",), rogues.give_up_after_a_while, ("needs_review",)),
    Guard("settled_by_two", "P10", ("ALTER TABLE settlement_decisions DROP CONSTRAINT settled_by_two",), rogues.settle_alone,
          ("needs_review",)),
    Guard("daily_cap", "P11", ("DROP TRIGGER moves_cap ON cap_entries",)),
    Guard("day_limit", "P11", ("DROP TRIGGER agreed ON cap_days",), rogues.a_higher_limit_for_today, LIVE),
    # One function says whether a charge is still one too many, to whoever proposes, approves and sends.
    Guard("one_too_many", "P3", (_NO_OBSTACLE,),
          rogue_charges.the_only_charge_as_a_second_one, ("succeeded",)),
    Guard("unit_ceiling", "P4", ("DROP TRIGGER within_units ON line_claims",), rogues_kinds.kept_for_money_after_its_refund,
          ("succeeded",)),
    Guard("exchanged_or_paid", "P1", ("DROP TRIGGER as_allowed ON exchanges",), rogues_kinds.exchanged_after_payment,
          ("succeeded",)),
    Guard("two_managers", "P7", ("DROP TRIGGER as_approved ON events",), rogues_kinds.approved_by_one_of_two, ("proposed",)),
    Guard("override_exact", "P6", ("DROP TRIGGER override_exact ON intents",), rogues_kinds.asked_amount_as_if_computed,
          ("proposed",)),
    Guard("disputes_hold", "P3", ("DROP TRIGGER not_while_disputed ON events",), rogues.send_although_disputed, ("held",)),
)  # fmt: skip
GUARDS: Final = {guard.name: guard for guard in _ALL}


def listed() -> str:
    """Every guard with its promise and what is taken away, for `--help`."""
    return "\n".join(f"  {one.name:<16} {one.promise:<4} {'; '.join(one.off)}" for one in _ALL)
