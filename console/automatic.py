"""Right after evidence was recorded: the policy approves what a rule of it names, by the key that this process holds (S38).

It runs in a transaction of its own, once the evidence is committed: nothing that goes wrong here takes back what was reported
or shows as an error to who reported it. The case then waits for a person, as it does where no rule names anything. The same
request again, after a crash in between, comes here again and goes on.
"""

from pathlib import Path
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from console.installation import installed
from console.log import log
from ledger.approvals import Decision
from ledger.automatic import Left, approve_by_policy
from ledger.database import transaction
from ledger.errors import LedgerError
from ledger.hops import hop


def after_evidence(merchant_id: UUID, case_id: UUID) -> None:
    """Approves the case's refund by its policy, if that names it. Never raises what the ledger or the database refuses."""
    process = installed()
    if process.policy_sealer is None or _switched_off(process.settings.pause_file):
        return
    try:
        with transaction(process.engine, merchant_id) as db:
            done = approve_by_policy(
                db, merchant_id, case_id, process.policy_sealer,
                cancel_window_seconds=process.settings.cancel_window_seconds,
            )  # fmt: skip
            about = hop(db, merchant_id, done.intent_id) if isinstance(done, Left) else {}
    except (LedgerError, SQLAlchemyError) as error:
        log.warning("automatic_not_made", case_id=case_id, merchant_id=merchant_id, error=error)
        return
    match done:
        case Decision():
            log.info(
                "approved",
                kind="automatic",
                intent=done.intent_id,
                key=done.key,
                state=done.state,
                merchant_id=merchant_id,
            )
        case Left():
            log.info("automatic_left", reason=done.reason, merchant_id=merchant_id, **about)


def _switched_off(path: Path | None) -> bool:
    """The switch outside the database (S88), where this process is given it too. A place that cannot be looked at is off."""
    if path is None:
        return False
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
