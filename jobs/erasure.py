"""Erases what its time is over for, and whom two admins agreed to forget (S77, S78): case by case, each in its own transaction."""

from uuid import UUID

from jobs.each_merchant import each_merchant
from jobs.logs import log
from jobs.worker import Counts, Worker
from ledger.database import transaction
from ledger.erasure import (
    Asked,
    cases_of,
    due_erasures,
    erase_contacts,
    erase_photos,
    erase_sign_ins,
    erase_texts,
    finish_erasure,
    photos_over,
    texts_over,
)


def run_once(worker: Worker) -> Counts:
    """Counts: texts (cases), photos, contacts, requests, and sign_ins that were erased."""
    counts = each_merchant(worker, "erasure", _one_merchant)
    with transaction(worker.engine) as db:
        counts["sign_ins"] += erase_sign_ins(db)
    return +counts


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        asked, texts, photos = due_erasures(db, merchant_id), texts_over(db, merchant_id), photos_over(db, merchant_id)
    for one in asked:
        _forget(worker, merchant_id, one, counts)
    for case_id in texts:
        with transaction(worker.engine, merchant_id) as db:
            counts["texts"] += erase_texts(db, merchant_id, case_id, "retention")
    for case_id in photos:
        with transaction(worker.engine, merchant_id) as db:
            counts["photos"] += erase_photos(db, merchant_id, case_id, "retention")
    with transaction(worker.engine, merchant_id) as db:
        counts["contacts"] += erase_contacts(db, merchant_id)
    if asked or texts or photos:
        log.info("erased", merchant=str(merchant_id), count=len(asked) + len(texts) + len(photos))


def _forget(worker: Worker, merchant_id: UUID, asked: Asked, counts: Counts) -> None:
    """A crash in between leaves the request undone, and the next run goes on."""
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        cases = cases_of(db, merchant_id, asked.customer_id)
    photos = 0
    for case_id in cases:
        with transaction(worker.engine, merchant_id) as db:
            erase_texts(db, merchant_id, case_id, "request")
            photos += erase_photos(db, merchant_id, case_id, "request")
    with transaction(worker.engine, merchant_id) as db:
        finish_erasure(db, merchant_id, asked, len(cases), photos)
    counts["requests"] += 1
    counts["photos"] += photos
