"""Second writers around money that is no return of goods: see `rogues` for what they are."""

import secrets
from typing import Final

from faults.place import Place
from faults.rogues import Row, TooLate, lock_what_counts, the_live_one
from jobs.stripe_gateway import StripeGateway
from ledger.allowances import AllowanceRequest, open_allowance
from ledger.approvals import Seen, approve
from ledger.database import first, run, transaction
from ledger.events import append, lock_case, lock_case_of_intent
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.ids import uuid7
from ledger.intents import Basis, Proposal, propose, withdraw
from ledger.overrides import Ask, ask_override
from ledger.seals import Sealer


def exchanged_after_payment(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A page that records an exchange of whatever case it is opened on: the customer has the money and gets new goods."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        lock_what_counts(db, intent)
        run(
            db, "INSERT INTO exchanges (merchant_id, case_id, wish, in_stock, policy_id, policy_version, recorded_by)"
            " VALUES (:m, :c, 'the same once more', true, :p, :v, :who)", m=intent["merchant_id"], c=intent["case_id"],
            p=intent["policy_id"], v=intent["policy_version"], who=place.world.mara.actor,
        )  # fmt: skip


_KEPT: Final = """
    INSERT INTO cases (merchant_id, case_id, order_id, customer_id, kind, reason, opened_by, channel, due_at, currency)
    SELECT merchant_id, :new, order_id, customer_id, 'keep_item', 'other', :who, 'counter', now() + interval '14 days', currency
    FROM cases WHERE merchant_id = :m AND case_id = :c
"""
_ASK: Final = """
    INSERT INTO case_asks (merchant_id, case_id, kind, order_id, line_id, line_quantity, units, minor, entry, asked_by)
    SELECT merchant_id, :new, 'keep_item', order_id, line_id, line_quantity, units, 1, 'gross', :who FROM case_items
    WHERE merchant_id = :m AND case_id = :c AND live LIMIT 1
"""
_SAME_AMOUNT: Final = """
    INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version, evidence_digest, outcome,
        currency, total_minor, tax_minor, payable_minor, record, digest, allocation_digest, terms_digest, evidence, priors)
    SELECT merchant_id, :id, :new, 1, policy_id, policy_version, evidence_digest, outcome, currency, total_minor, tax_minor,
        payable_minor, record, digest, allocation_digest, terms_digest, evidence, priors
    FROM entitlements WHERE merchant_id = :m AND entitlement_id = :e
"""


def kept_for_money_after_its_refund(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A desk that looks at what is left of the line alone: money for keeping a unit whose whole price went back."""
    merchant_id, case_id, entitlement_id = intent["merchant_id"], uuid7(), uuid7()
    keys = {"m": merchant_id, "c": intent["case_id"], "new": case_id, "who": place.world.priya.actor}
    with transaction(place.stack.console, merchant_id) as db:
        lock_what_counts(db, intent)
        claim = first(
            db, "SELECT line_id FROM line_claims WHERE merchant_id = :m AND intent_id = :i AND step = 'claim' LIMIT 1",
            m=merchant_id, i=intent["intent_id"],
        )  # fmt: skip
        run(db, _KEPT, **keys)
        if claim is None or not run(db, _ASK, **keys):
            raise TooLate
        run(db, _SAME_AMOUNT, m=merchant_id, new=case_id, id=entitlement_id, e=intent["entitlement_id"])
        case = lock_case(db, merchant_id, case_id)
        append(db, case, "case.opened", keys["who"], {"channel": "counter"})
        proposal = Proposal(intent["capture_id"], intent["currency"], intent["amount_minor"], intent["order_minor"],
                            {claim["line_id"]: intent["order_minor"]})  # fmt: skip
        basis = Basis(
            entitlement_id, bytes(intent["entitlement_digest"]), bytes(intent["evidence_digest"]), intent["policy_id"],
            intent["policy_version"], [], intent["route"], keys["who"],
        )  # fmt: skip
        propose(db, case, basis, proposal, keys["who"])


def approved_by_one_of_two(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A confirm page that takes the first of two managers for both."""
    merchant_id = intent["merchant_id"]
    with transaction(place.stack.console, merchant_id) as db:
        line = first(db, "SELECT line_ref FROM order_lines WHERE merchant_id = :m AND order_id = :o AND kind = 'goods'"
                     " ORDER BY position DESC LIMIT 1", m=merchant_id, o=intent["order_id"])  # fmt: skip
        if line is None:
            raise TooLate
        # The policy gives no goodwill by itself, so two managers decide it.
        given = open_allowance(db, merchant_id, AllowanceRequest(
            intent["order_id"], "goodwill", line["line_ref"], 100, intent["currency"], "gross", "other",
            place.world.priya.actor, f"call-{secrets.token_hex(4)}",
        ))  # fmt: skip
        case = lock_case(db, merchant_id, given.case_id)
        asked = the_live_one(db, case)
    with transaction(place.stack.console, merchant_id) as db:
        row = read_intent(db, merchant_id, asked["intent_id"])
        if row is None:
            raise LookupError("it was proposed a moment ago")
        seen = Seen(fingerprint(row, evidence_digest(db, merchant_id, row["case_id"])), secrets.token_hex(16), "")
        approve(db, merchant_id, row["intent_id"], place.world.mara.staff_id, seen, Sealer.from_text(place.seal_key),
                cancel_window_seconds=0)  # fmt: skip
    with transaction(place.stack.console, merchant_id) as db:
        case = lock_case_of_intent(db, merchant_id, asked["intent_id"])
        append(
            db,
            case,
            "intent.approved",
            place.world.mara.actor,
            intent_id=asked["intent_id"],
            move=("proposed", "approved"),
        )


def asked_amount_as_if_computed(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A recomputation that loses what was computed: another amount goes to approval as if it were the engine's."""
    merchant_id, case_id = intent["merchant_id"], intent["case_id"]
    computed = intent["order_minor"]
    with transaction(place.stack.console, merchant_id) as db:
        latest = first(db, "SELECT record->'override'->>'computed_minor' AS computed FROM entitlements WHERE merchant_id = :m"
                       " AND case_id = :c ORDER BY n DESC LIMIT 1", m=merchant_id, c=case_id)  # fmt: skip
        if latest is not None and latest["computed"]:
            computed = int(latest["computed"])
        ask_override(
            db, merchant_id, case_id, Ask(computed - 1, computed, "other", "a penny less", place.world.jonas.actor)
        )
    with transaction(place.stack.console, merchant_id) as db:
        case = lock_case(db, merchant_id, case_id)
        asked = the_live_one(db, case)
        claims = first(db, "SELECT line_id FROM line_claims WHERE merchant_id = :m AND intent_id = :i AND step = 'claim'",
                       m=merchant_id, i=asked["intent_id"])  # fmt: skip
        if claims is None:
            raise TooLate
        withdraw(db, case, [asked], place.world.jonas.actor, "override")
        basis = Basis(
            asked["entitlement_id"], bytes(asked["entitlement_digest"]), bytes(asked["evidence_digest"]), asked["policy_id"],
            asked["policy_version"], asked["units"], "desk", case.opened_by,
        )  # fmt: skip
        proposal = Proposal(asked["capture_id"], asked["currency"], asked["amount_minor"], asked["order_minor"],
                            {claims["line_id"]: asked["order_minor"]})  # fmt: skip
        propose(db, case, basis, proposal, place.world.jonas.actor)
