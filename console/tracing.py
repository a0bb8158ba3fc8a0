"""Each request belongs to a trace: the caller's, or one made here."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ledger.tracing import about, accepted

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Traced:
    """In front of everything else of the application."""

    def __init__(self, inside: "WSGIApplication") -> None:
        self._inside = inside

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[Any]:
        """Answers the request inside of its trace."""
        with about(accepted(environ.get("HTTP_TRACEPARENT"))):
            return self._inside(environ, start_response)
