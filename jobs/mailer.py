"""Sends mail that waits: claim and commit, hand it to the server, record and commit. Any number of workers may do it."""

from collections import Counter
from typing import Final
from uuid import UUID

from jobs.logs import log
from jobs.mail_texts import text_of
from jobs.post import NotSent, Post
from jobs.worker import Counts, Worker
from ledger.database import transaction
from ledger.errors import WrongState
from ledger.invitations import LINK_HOURS, new_link
from ledger.mails import Mail, claim_mail, mail_failed, mail_sent

MOST_OF_A_RUN: Final = 50


def run_once(worker: Worker) -> Counts:
    """Counts: mails_sent, mails_waiting (tried, to be tried again), mails_given_up. Nothing while mail is off."""
    counts: Counts = Counter()
    if worker.post is None:
        return counts
    for _ in range(MOST_OF_A_RUN):
        if worker.stopping.is_set():
            break
        with transaction(worker.engine) as db:
            mail = claim_mail(db)
        if mail is None:
            break
        counts[_deliver(worker, worker.post, mail)] += 1
    return counts


def _deliver(worker: Worker, post: Post, mail: Mail) -> str:
    fault, for_good = "", False
    try:
        facts = mail.facts | (_invited(worker, mail) if mail.kind == "invited" else {})
        post.send(mail.mail_id, mail.to_address, text_of(mail.kind, facts, post.origin))
    except NotSent as error:
        fault, for_good = error.fault, error.for_good
    except WrongState:
        fault, for_good = "called back", True
    with transaction(worker.engine) as db:
        if not fault:
            mail_sent(db, mail)
            return "mails_sent"
        over = mail_failed(db, mail, fault, for_good=for_good)
    log.warning(
        "mail_not_sent", kind=mail.kind, reason=fault, attempt=mail.attempt, outcome="given up" if over else "waits"
    )
    return "mails_given_up" if over else "mails_waiting"


def _invited(worker: Worker, mail: Mail) -> dict[str, str | int]:
    """A link of its own for this mail, so that none lies in the queue. Raises WrongState when the invitation is over."""
    merchant_id = UUID(mail.facts["merchant_id"])
    with transaction(worker.engine, merchant_id) as db:
        link = new_link(db, merchant_id, UUID(mail.facts["invitation_id"]))
    return {"path": f"{mail.facts['path']}/{link}", "hours": LINK_HOURS}
