"""The outermost WSGI layer: the exact host, and the headers of every answer, static files included (S52, S53, S57).

Flask's own hooks would miss what is answered before Flask. The layer makes the nonce of each answer; templates find it as
`csp_nonce`.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

NONCE: Final = "onceback.csp_nonce"
STATIC_PREFIX: Final = "/static/"
IMMUTABLE: Final = "public, max-age=31536000, immutable"
_PERMISSIONS: Final = (
    "camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=(),"
    " publickey-credentials-get=(self), publickey-credentials-create=(self)"
)
EVERY_ANSWER: Final = (
    ("Strict-Transport-Security", "max-age=63072000; includeSubDomains"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
    ("Permissions-Policy", _PERMISSIONS),
    ("Reporting-Endpoints", 'csp="/csp-report"'),
)
POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; object-src 'none';"
    " report-uri /csp-report; report-to csp"
)
# What the layers inside may not decide.
_OURS: Final = frozenset({name.lower() for name, _ in EVERY_ANSWER} | {"cache-control", "server"})


class SecurityHeaders:
    """Wraps the whole application. An answer that brings a policy of its own keeps it: a photo's is stricter."""

    def __init__(self, application: Application, public_origin: str) -> None:
        self.application = application
        self.host = urlsplit(public_origin).netloc
        # On one's own machine the name is no secret, and its bare address the usual mistake: a browser keeps no passkey for that.
        local = urlsplit(public_origin).hostname in ("localhost", "127.0.0.1")
        self.unknown = (
            f"This console is not known under that name.{f' Open {public_origin} instead.' if local else ''}\n".encode()
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        nonce = secrets.token_urlsafe(16)
        environ[NONCE] = nonce
        path = environ.get("PATH_INFO", "")

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, _complete(path, status, headers, nonce), exc_info)

        if environ.get("HTTP_HOST") != self.host:
            start("400 Bad Request", [("Content-Type", "text/plain; charset=utf-8")])
            return [self.unknown]
        return self.application(environ, start)


def _complete(path: str, status: str, headers: list[tuple[str, str]], nonce: str) -> list[tuple[str, str]]:
    kept = [(name, value) for name, value in headers if name.lower() not in _OURS and not _cross_origin(name)]
    if not any(name.lower() == "content-security-policy" for name, _ in kept):
        kept.append(("Content-Security-Policy", POLICY.format(nonce=nonce)))
    static = path.startswith(STATIC_PREFIX) and status[:3] in ("200", "206", "304")
    return [*kept, *EVERY_ANSWER, ("Cache-Control", IMMUTABLE if static else "no-store")]


def _cross_origin(name: str) -> bool:
    return name.lower().startswith("access-control-")
