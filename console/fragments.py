"""Pages and their parts. A fragment is a block of the page's own template, and every address answers as a full page too."""

from typing import Any

from flask import Response, current_app, g, make_response, redirect, render_template, request, session, url_for
from jinja2_fragments.flask import render_block

from console.filters import plain
from console.shell import shell


def asked_for_part() -> bool:
    """Whether htmx asks for a part; restoring history takes the whole page."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def page(template: str, block: str | None = None, *, status: int = 200, **view: Any) -> Response:
    """The page, or only `block` of it when htmx asks. `view` is what the template's head comment names.

    Call it inside `reading()` or `writing()`, so that the shell around the page is read in the same transaction.
    Status: 422 for a form with errors, 409 for a stale page.
    """
    if block is not None and asked_for_part():
        text = render_block(template, block, shell=shell(whole=False), **view)
    else:
        text = render_template(template, shell=shell(), **view)
    response = make_response(text, status)
    response.vary.add("HX-Request")
    return response


def nothing_new() -> Response:
    """204: the part that was asked for has not changed."""
    return Response(status=204)


def see_other(endpoint: str, **values: Any) -> Response:
    """303 to one of our own pages, after a POST."""
    response = redirect(url_for(endpoint, **values), 303)
    return make_response(response)


def say(tone: str, strong: str, text: str = "") -> None:
    """The one message that survives the redirect. `tone`: ok, warn, no or info. Names in it may be foreign text."""
    session["status"] = {"tone": tone, "strong": plain(strong), "text": plain(text)}


def merchant_into_addresses(endpoint: str, values: dict[str, Any]) -> None:
    """`url_for` inside a merchant's page stays with that merchant."""
    if "member" in g and current_app.url_map.is_endpoint_expecting(endpoint, "merchant_slug"):
        values.setdefault("merchant_slug", g.member.slug)
