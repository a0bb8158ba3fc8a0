"""Addresses that a request may send us to: only local paths that the router knows (S56)."""

import unicodedata
from urllib.parse import urlsplit

from flask import current_app, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from console.installation import installed

LONGEST = 2000


def known_path(path: str | None) -> str | None:
    """`path` when it is a local path with a view that answers GET, else None: no host, `//`, backslash or control."""
    if not path or len(path) > LONGEST or not path.startswith("/") or path.startswith("//") or "\\" in path:
        return None
    if any(unicodedata.category(character)[0] in "CZ" for character in path):
        return None
    parts = urlsplit(path)
    if parts.scheme or parts.netloc or "//" in parts.path:
        return None
    try:
        current_app.create_url_adapter(request).match(parts.path, method="GET")  # type: ignore[union-attr]
    except (HTTPException, RequestRedirect):
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def path_of(address: str | None) -> str | None:
    """Path and query of an absolute address of this console, as a browser sends it in a header; None for any other."""
    parts = urlsplit(address or "")
    if not parts.path or f"{parts.scheme}://{parts.netloc}" != installed().settings.public_origin:
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
