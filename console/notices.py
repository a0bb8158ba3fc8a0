"""Mail that the console queues (S7, S37). Nothing is queued while mail is off: nothing old leaves when it is switched on."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from flask import url_for
from sqlalchemy import Connection

from console import words
from console.access import ROLE_TEXTS, current
from console.installation import installed
from ledger.database import rows, scalar
from ledger.invitations import Invitation
from ledger.mails import queue_mail, tell


def on() -> bool:
    """Whether this installation sends mail."""
    return bool(installed().settings.mail_from)


def new_browser(db: Connection, staff_id: UUID, device: str) -> None:
    """Somebody signed in from a browser this person is not known in."""
    _tell(db, staff_id, "new_browser", device=device, path="/")


def factor_changed(db: Connection, staff_id: UUID, what: str) -> None:
    """What a person signs in with was added, removed or reset; `what` is a sentence."""
    _tell(db, staff_id, "factor_changed", what=what, path="/")


def role_changed(db: Connection, staff_id: UUID, role: str) -> None:
    """Two admins gave a person another role here."""
    _tell(db, staff_id, "role_changed", role=ROLE_TEXTS[role], shop=current.merchant_name, path="/")


def about_cases(
    db: Connection, staff_id: UUID, kind: str, *, ids: Sequence[UUID] = (), numbers: Sequence[int] = ()
) -> None:
    """A note speaks to a person (`mentioned`), or cases become theirs (`assigned`), by somebody else; for whoever asked for such
    mail. The cases by id or by number."""
    if not on() or staff_id == current.staff_id:
        return
    for case in rows(db, _CASES, m=current.merchant_id, ids=list(ids), numbers=list(numbers)):
        path, text = url_for("case.show", case_id=case["case_id"]), words.case_reference(case["number"])
        _tell(db, staff_id, kind, by=current.name, case=text, shop=current.merchant_name, path=path)


_CASES: Final = """
    SELECT case_id, number FROM cases WHERE merchant_id = :m
        AND (case_id = ANY(CAST(:ids AS uuid[])) OR number = ANY(CAST(:numbers AS bigint[]))) ORDER BY number
"""


def approved_by_key(db: Connection, intent_id: UUID) -> None:
    """A passkey of the signed-in person approved a refund: a hijacked page can show one and have another signed (S37)."""
    if on():
        number = scalar(
            db,
            "SELECT number FROM intents WHERE merchant_id = :m AND intent_id = :i",
            m=current.merchant_id,
            i=intent_id,
        )
        path = url_for("decision.show", intent_id=intent_id)
        _tell(
            db, current.staff_id, "approved_by_key", refund=words.refund_reference(number), shop=current.merchant_name,
            path=path,
        )  # fmt: skip


def invited(db: Connection, found: Invitation) -> None:
    """An invitation was granted; its link is made when the mail is sent."""
    if on():
        queue_mail(db, found.email, "invited", {
            "name": found.name, "shop": current.merchant_name, "role": ROLE_TEXTS[found.role],
            "merchant_id": str(current.merchant_id), "invitation_id": str(found.invitation_id),
            "path": f"/invitations/{current.slug}",
        })  # fmt: skip


def _tell(db: Connection, staff_id: UUID, kind: str, **facts: Any) -> None:
    if on():
        tell(db, staff_id, kind, facts)
