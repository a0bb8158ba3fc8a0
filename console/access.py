"""Who may do what, and the one transaction a handler opens.

Each view states a permission or why it is public (S17). The merchant is the first part of the path; it has to be a live
membership of the person (S16) and is what the transaction is pinned to. Use in a desk:

    @blueprint.post("/cases/<uuid:case_id>/rejection")
    @permission("reject")
    def reject(case_id: UUID) -> Response:
        with writing() as db:
            ledger.cases.reject(db, current.merchant_id, case_id, current.actor, reason)
        return see_other("case.show", case_id=case_id)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from flask import Flask, g, request
from sqlalchemy import Connection
from werkzeug.local import LocalProxy

from console.installation import installed
from ledger.database import transaction, transaction_that_asks
from ledger.errors import NotAllowed, NotFound

ROLE_TEXTS: Final = {
    "reader": "Reader",
    "desk": "Returns desk",
    "manager": "Manager",
    "finance": "Finance",
    "admin": "Admin",
}

# SECURITY §2, for what exists. Absent = no. An admin keeps people and sees no customer.
_EVERYONE = frozenset(ROLE_TEXTS)
_READS = frozenset({"reader", "desk", "manager", "finance"})
_WORKS = frozenset({"desk", "manager"})
PERMISSIONS: Final[dict[str, frozenset[str]]] = {
    "see_cases": _READS,
    "see_contact": _WORKS,
    "open_return": _WORKS,
    "report_goods": _WORKS,
    "write_note": _WORKS,
    # What is a colleague's, and the due date that the policy promised, are a manager's to change.
    "claim": _WORKS,
    "reassign": frozenset({"manager"}),
    "set_due": frozenset({"manager"}),
    "propose": _WORKS,
    "recompute": _WORKS,
    "approve": _WORKS,
    "withdraw": _WORKS,
    "settle_by_hand": _WORKS,
    "reject": _WORKS,
    "ask_provider": _WORKS | {"finance"},
    "settle": frozenset({"manager", "finance"}),
    "see_outside": frozenset({"manager", "finance"}),
    "answer_outside": frozenset({"finance"}),
    # What an order says decides what is paid: one proposes which figures stand, another confirms it.
    "see_questions": frozenset({"manager", "finance"}),
    "settle_order": frozenset({"manager", "finance"}),
    "see_caps": _READS,
    "raise_cap": frozenset({"manager"}),
    "see_policies": frozenset({"manager", "finance"}),
    "draft_policy": frozenset({"manager"}),
    "approve_policy": frozenset({"manager"}),
    # Stopping is always safe, so nearly everybody may; starting again takes two, of whom one is finance (S88).
    "see_brakes": _EVERYONE,
    "pause": frozenset({"desk", "manager", "finance", "admin"}),
    "start_again": frozenset({"manager", "finance"}),
    "close_alarm": frozenset({"manager", "finance"}),
    "see_books": frozenset({"manager", "finance"}),
    "keep_books": frozenset({"finance"}),
    "see_trail": frozenset({"manager", "finance"}),
    "export": frozenset({"finance"}),
    "see_metrics": frozenset({"manager", "finance"}),
    # A manager sees everybody, and switches off or signs out the desk only.
    "see_people": frozenset({"admin", "manager"}),
    "switch_people": frozenset({"admin", "manager"}),
    "keep_people": frozenset({"admin"}),
    "reset_factors": frozenset({"admin"}),
    "erase_customer": frozenset({"admin"}),
    "own_session": _EVERYONE,
}
# Acts on money, and what takes its books out: from another network than the session began in they take a new sign-in first (S13).
MONEY_ACTS: Final = frozenset((
    "approve", "settle_by_hand", "settle", "withdraw", "reject", "raise_cap", "start_again", "answer_outside",
    "approve_policy", "export", "settle_order",
))  # fmt: skip
# The one permission that may be stated by a view outside a merchant's path: it only takes a session.
WITHOUT_MERCHANT: Final = frozenset({"own_session"})
MERCHANT: Final = "merchant_slug"
_STATED = "stated_access"


# What a session that opens everything waits for.
WHOLE: Final = frozenset({""})


@dataclass(frozen=True)
class Stated:
    """What a view says about who may call it. `kind`: permission, public or token (an API view, by scope). `half`: what a session
    that gets there may wait for, "" for one that waits for nothing."""

    kind: str
    text: str
    polling: bool = False
    most_bytes: int = 0
    half: frozenset[str] = WHOLE


@dataclass(frozen=True)
class Member:
    """The signed-in person in the merchant of this page. `actor` is how events and approvals name them."""

    staff_id: UUID
    name: str
    email: str
    role: str
    merchant_id: UUID
    slug: str
    merchant_name: str
    zone: str
    livemode: bool

    @property
    def actor(self) -> str:
        return f"staff:{self.staff_id}"

    @property
    def time_zone(self) -> ZoneInfo:
        """The merchant's business zone."""
        return ZoneInfo(self.zone)

    def may(self, act: str) -> bool:
        """Whether the role includes this permission; a KeyError for one that does not exist."""
        return self.role in PERMISSIONS[act]


current = cast("Member", LocalProxy(lambda: g.member))

View = TypeVar("View", bound=Callable[..., Any])


def permission(act: str) -> Callable[[View], View]:
    """States that a view takes a signed-in person whose role has `act` in the merchant of its path."""
    if act not in PERMISSIONS:
        raise ValueError(f"there is no permission {act!r}: add it to PERMISSIONS with its roles")
    return lambda view: _state(view, "permission", act)


def public(reason: str) -> Callable[[View], View]:
    """States that a view takes anybody, and why that is safe."""
    if not reason.strip():
        raise ValueError("say why this view may be public")
    return lambda view: _state(view, "public", reason)


def scope(name: str) -> Callable[[View], View]:
    """States that a view takes an API token with this scope; the API checks it, cookies are ignored."""
    return lambda view: _state(view, "token", name)


def polling(view: View) -> View:
    """Marks a view that pages ask for by themselves: it never extends the idle limit (S12). Put it above @permission."""
    found = stated(view)
    if found is None:
        raise ValueError("put @polling above the permission that the view states")
    setattr(view, _STATED, replace(found, polling=True))
    return view


def large(most_bytes: int) -> Callable[[View], View]:
    """States that a view takes a file of so many bytes, from those who have its permission. Put it above @permission."""

    def mark(view: View) -> View:
        found = stated(view)
        if found is None or found.kind != "permission":
            raise ValueError("put @large above the permission that the view states")
        setattr(view, _STATED, replace(found, most_bytes=most_bytes))
        return view

    return mark


def half(*waits_for: str) -> Callable[[View], View]:
    """States that a view is for sessions that wait for a `factor` or its `enrolment`, "" for whole ones (S6). Put it above
    @permission."""

    def mark(view: View) -> View:
        found = stated(view)
        if found is None or found.kind != "permission":
            raise ValueError("put @half above the permission that the view states")
        setattr(view, _STATED, replace(found, half=frozenset(waits_for)))
        return view

    return mark


def stated(view: Callable[..., Any]) -> Stated | None:
    """What a view states, or None."""
    found = getattr(view, _STATED, None)
    return found if isinstance(found, Stated) else None


def _state(view: View, kind: str, text: str) -> View:
    if stated(view) is not None:
        raise ValueError(f"{view.__name__} states two accesses: one is enough")
    setattr(view, _STATED, Stated(kind, text))
    return view


def refuse_unstated(app: Flask) -> None:
    """Raises RuntimeError naming each view that states no access, or a permission that needs a merchant without one."""
    wrong = []
    for rule in app.url_map.iter_rules():
        found = stated(app.view_functions[rule.endpoint])
        if found is None:
            wrong.append(f"{rule.endpoint} ({rule.rule}) states neither a permission nor why it is public")
        elif found.kind == "permission" and MERCHANT not in rule.arguments and found.text not in WITHOUT_MERCHANT:
            wrong.append(f"{rule.endpoint} ({rule.rule}) needs a merchant in its path for {found.text!r}")
    if wrong:
        raise RuntimeError("The console does not start: " + "; ".join(wrong) + ".")


@contextmanager
def reading() -> Iterator[Connection]:
    """The handler's transaction for a page: READ ONLY, pinned to the merchant of the path."""
    with transaction(installed().engine, current.merchant_id, read_only=True) as db, _open(db):
        yield db


@contextmanager
def writing() -> Iterator[Connection]:
    """The handler's transaction for an act, pinned to the merchant of the path; commits at the end.

    Reads active, membership and role again and locks the person's two rows FOR SHARE, before any row of a case: whoever
    takes the role away either waits for this act or comes first and wins (S20). Raises NotFound (no longer a member) and
    NotAllowed (no longer in the role that the page's permission takes).
    """
    if request.method in ("GET", "HEAD"):
        raise AssertionError("a GET was about to write")
    asked = transaction_that_asks(
        installed().engine, current.merchant_id, _ROLE_NOW, m=current.merchant_id, s=current.staff_id
    )
    with asked as (db, role), _open(db):
        if role is None:
            raise NotFound
        if role not in PERMISSIONS[g.stated.text]:
            raise NotAllowed
        yield db


_ROLE_NOW: Final = """
    SELECT m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m
        AND m.staff_id = :s AND m.ended_at IS NULL AND s.disabled_at IS NULL FOR SHARE
"""


@contextmanager
def _open(db: Connection) -> Iterator[None]:
    """Lets the shell of the page read in the handler's own transaction."""
    g.db = db
    try:
        yield
    finally:
        g.db = None
