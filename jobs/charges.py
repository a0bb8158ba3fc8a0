"""Reads the charges of orders about which somebody says "I was charged twice", and finds what they are (ENTITLEMENT §10).

The web process has no key of the provider, so it only asks. What others refunded or disputed there is written down first, as
ever; then the finding is made from rows. A read may be made twice by two workers, and is found from once.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.exc import IntegrityError

from jobs.dispute_freshness import disputes_read
from jobs.each_merchant import each_merchant
from jobs.logs import log
from jobs.stripe_gateway import Account, LookFailed
from jobs.verify_captures import take_in
from jobs.worker import Counts, Worker, sqlstate
from ledger.charge_facts import ShownCharge
from ledger.charge_readings import payments_to_read, put_off, record_reading, take_readings
from ledger.database import transaction

# A merchant's cases a run: each is a handful of calls, and the desks wait for the first of them.
BATCH: Final = 10


def run_once(worker: Worker) -> Counts:
    """One reading after another. Counts: charges_verified, charges_none, charges_investigate,
    charges_no_policy; no_answer (tried again), busy,
    failed."""
    return each_merchant(worker, "charges", _one_merchant)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        due = take_readings(db, merchant_id, BATCH)
    for reading in due:
        if outcome := _read(worker, merchant_id, reading, counts):
            counts[outcome] += 1


def _read(worker: Worker, merchant_id: UUID, reading: RowMapping, counts: Counts) -> str:
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        payments = payments_to_read(db, merchant_id, reading["case_id"])
    unread: tuple[str, ...] = ()
    shown: list[ShownCharge] = []
    try:
        shown, unread = _look(worker, merchant_id, payments, counts)
    except LookFailed as failure:
        log.warning("no_answer", merchant=str(merchant_id), code=failure.code)
        with transaction(worker.engine, merchant_id) as db:
            if put_off(db, merchant_id, reading):
                return "no_answer"
        unread = (failure.code,)
    try:
        return worker.patiently(_record, worker, merchant_id, reading, shown, unread)
    except IntegrityError as error:
        # A guard of the database does not take what was found. Rows move, so it is tried anew; the last time a person is told.
        log.error("charges_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    with transaction(worker.engine, merchant_id) as db:
        if put_off(db, merchant_id, reading):
            return "failed"
    return worker.patiently(_record, worker, merchant_id, reading, shown, ("not_recorded",))


def _look(
    worker: Worker, merchant_id: UUID, payments: list[RowMapping], counts: Counts
) -> tuple[list[ShownCharge], tuple[str, ...]]:
    """What the provider shows of these payments and of whoever paid them, once what is new there is in the books; and what could
    not be read. Raises LookFailed."""
    shown: dict[str, ShownCharge] = {}
    customers: dict[tuple[UUID, str], Account] = {}
    unread: set[str] = set()
    for payment in payments:
        account_id, ref = payment["provider_account_id"], payment["payment_intent_ref"]
        account = Account(
            payment["account_ref"], payment["credential"], payment["livemode"], payment["expected_account"]
        )
        for refund in worker.gateway.list_refunds(account, ref):
            if not worker.patiently(take_in, worker, merchant_id, account_id, refund):
                unread.add("refund_lost")
        for charge in worker.gateway.charges_of(account, payment_intent=ref):
            shown[charge.charge_ref] = charge
            if charge.customer:
                customers[account_id, charge.customer] = account
    for (_, customer), account in customers.items():
        shown |= {charge.charge_ref: charge for charge in worker.gateway.charges_of(account, customer=customer)}
    for account_id in {payment["provider_account_id"] for payment in payments}:
        if not disputes_read(worker, merchant_id, account_id, counts):
            unread.add("disputes_unread")
    return list(shown.values()), tuple(sorted(unread))


def _record(
    worker: Worker, merchant_id: UUID, reading: RowMapping, shown: list[ShownCharge], unread: tuple[str, ...]
) -> str:
    with transaction(worker.engine, merchant_id) as db:
        verdict = record_reading(db, merchant_id, reading, shown, unread)
    log.info("charges_read", merchant=str(merchant_id), outcome=verdict)
    return f"charges_{verdict}" if verdict else ""
