"""The address without a merchant: to the one desk of a person, or to the list of their merchants. And the browser's reports."""

from typing import Any, Final

from flask import Blueprint, Response, g, make_response, redirect, render_template, request

from console.access import permission, public
from console.errors import error_page
from console.gate import without_form
from console.installation import installed
from console.log import log
from console.shell import desk_address
from ledger.database import rows, transaction

blueprint = Blueprint("home", __name__)
_REPORTED: Final = ("effective-directive", "effectiveDirective", "violated-directive")


@blueprint.get("/")
@permission("own_session")
def index() -> Response:
    with transaction(installed().engine, staff_id=g.person.staff_id, read_only=True) as db:
        found = rows(db, _MERCHANTS, s=g.person.staff_id)
    if not found:
        return error_page(403, "You are signed in, but no shop lists you. Ask an admin of your shop.")
    if len(found) == 1:
        return make_response(redirect(desk_address(found[0]["slug"], found[0]["role"]), 303))
    shops = [{"name": row["name"], "url": desk_address(row["slug"], row["role"])} for row in found]
    return make_response(render_template("shops.html", shops=shops))


_MERCHANTS: Final = """
    SELECT t.slug, t.name, m.role FROM memberships m JOIN merchants t ON t.id = m.merchant_id
    WHERE m.staff_id = :s AND m.ended_at IS NULL ORDER BY t.name, t.slug
"""


@blueprint.post("/csp-report")
@without_form
@public("browsers post here what a page's policy refused; only the directive's name is kept")
def csp_report() -> Response:
    body = request.get_json(force=True, silent=True)
    reports = body if isinstance(body, list) else [body]
    for report in reports[:5]:
        log.warning("policy_refused", directive=_directive(report))
    return Response(status=204)


def _directive(report: Any) -> str:
    if not isinstance(report, dict):
        return ""
    inner = report.get("csp-report") or report.get("body") or {}
    named = next((inner[key] for key in _REPORTED if key in inner), "") if isinstance(inner, dict) else ""
    return str(named) if str(named).replace("-", "").isalpha() else ""
