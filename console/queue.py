"""The queue: saved views and filters in the address, pages by a key, a part that says what is new, and the next case."""

from datetime import datetime
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, request

from console import words
from console.access import current, permission, polling, reading, writing
from console.filters import now
from console.forms import ConsoleForm
from console.fragments import asked_for_part, page, say, see_other
from console.log import log
from console.queue_page import LONGEST_TEXT, Beside, Picked, fresh_part, queue_page
from ledger.cases import NEVER_ARRIVED, REASONS
from ledger.errors import BadInput
from ledger.leases import take_next
from ledger.limits import customer_days
from ledger.mentions import colleagues
from ledger.queries.automatic import approved_by_policy
from ledger.queries.queue import SORTS, VIEWS, Key, Wanted, count_new, count_page, count_views, read_page
from ledger.queries.teamwork import known_tags, teams

blueprint = Blueprint("queue", __name__, url_prefix="/<merchant_slug>/queue")


@blueprint.get("/")
@permission("see_cases")
def index() -> Response:
    """One page of a view; the part `rows` for a filter changed in place."""
    return show_queue()


def show_queue(picked: Picked | None = None, status: int = 200) -> Response:
    """The page that the address asks for; `picked` is what a form about several of its cases was sent with, and what is wrong."""
    wanted, key, m = _wanted(), _key(), current.merchant_id
    if wanted.text and wanted.by_name and any(character.isalpha() for character in wanted.text):
        log.info("customer_searched", staff_id=current.staff_id, merchant=current.slug, kind="queue")
    with reading() as db:
        counts = count_views(db, m, current.zone, current.staff_id)
        found = read_page(db, m, wanted, key)
        known = None if wanted.narrowed else counts.by_view.get(wanted.view)
        total = count_page(db, m, wanted) if known is None else known
        shown = [row.case_id for row in found.rows]
        of_rows = customer_days(db, m, shown), approved_by_policy(db, m, shown), teams(db, m, shown)
        beside = Beside(*of_rows, colleagues(db, m), known_tags(db, m))
        return page(
            "queue.html",
            "rows",
            status=status,
            **queue_page(wanted, key, found, counts, total, beside, picked or Picked()),
        )


@blueprint.get("/fresh")
@polling
@permission("see_cases")
def fresh() -> Response:
    """How many cases came into the view since the page was read; asked for by the page itself."""
    wanted, since = _wanted(), _uuid("since")
    if not asked_for_part():
        return index()
    with reading() as db:
        new = count_new(db, current.merchant_id, wanted, since) if since else 0
        return page("queue.html", "fresh", fresh=fresh_part(wanted, now(), since, new))


@blueprint.get("/search")
@permission("see_cases")
def search() -> Response:
    """The search of the top bar: every case whose number, order reference or customer starts so."""
    return see_other("queue.index", view="every", q=request.args.get("q", "")[:LONGEST_TEXT])


@blueprint.post("/next")
@permission("claim")
def next_case() -> Response:
    """Takes the ready case that is due soonest and that this person may approve, and goes there; two who ask get two."""
    ConsoleForm().require()
    with writing() as db:
        found = take_next(
            db, current.merchant_id, current.staff_id, _uuid("after"), managers=current.role == "manager"
        )  # fmt: skip
    if found:
        return see_other("case.show", case_id=found.case_id)
    say(
        "info",
        "No ready case is left for you here.",
        "What colleagues have in hand, and what you asked for, is theirs.",
    )
    return see_other("queue.index", view="ready")


def _wanted() -> Wanted:
    """The view and the filters of the address; what is not on a list counts as not set."""
    asked = request.args
    return Wanted(
        view=_listed(asked.get("view"), VIEWS, "open"),
        zone=current.zone,
        me=current.staff_id,
        channel=asked.get("channel", "")[:24],
        reason=_listed(asked.get("reason"), (*REASONS, *NEVER_ARRIVED), ""),
        stage=_listed(asked.get("stage"), words.STAGES, ""),
        received="yes" if asked.get("received") == "yes" else "no" if asked.get("received") == "no" else "",
        assigned=_uuid("who"),
        tag=asked.get("tag", "")[:24],
        text=asked.get("q", "").replace("\0", "").strip()[:LONGEST_TEXT],
        by_name=current.may("see_contact"),
        sort=_listed(asked.get("sort"), SORTS, "newest" if asked.get("view") == "every" else "due"),
    )


def _listed(value: str | None, known: Any, otherwise: str) -> str:
    return value if value is not None and value in known else otherwise


def _key() -> Key | None:
    """`after` or `before` with the instant and the id of a row of the page one comes from."""
    for name in ("after", "before"):
        if text := request.args.get(name):
            at, _, case_id = text.partition("_")
            try:
                return Key(datetime.fromisoformat(at), UUID(case_id), back=name == "before")
            except ValueError as error:
                raise BadInput(name, "this page of the queue has no such place; open the view again") from error
    return None


def _uuid(name: str) -> UUID | None:
    try:
        return UUID(request.args.get(name, ""))
    except ValueError:
        return None
