"""Stripe's error bodies, in its words (§2). ``kept`` says whether the idempotency layer keeps the answer (§3)."""

from typing import Any

# Stripe sends these without decimals (§6); UGX and ISK travel with two.
ZERO_DECIMAL = frozenset(
    ["bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf"]
)
THREE_DECIMAL = frozenset(["bhd", "jod", "kwd", "omr", "tnd"])
_SIGNS = {"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥"}


class ProviderError(Exception):
    """An answer that is not a success. Rows written before it was raised stay written."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        kept: bool = True,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kept = kept
        self.headers = headers or {}
        self.error: dict[str, Any] = {"type": kind, "message": message, **more}
        if code:
            self.error["code"] = code
            self.error["doc_url"] = "https://stripe.com/docs/error-codes/" + code.replace("_", "-")
        if param:
            self.error["param"] = param

    def body(self, request_id: str) -> dict[str, Any]:
        """The JSON document: ``{"error": {type, message, code?, param?, doc_url?, request_log_url}}``."""
        log = f"https://dashboard.stripe.com/test/logs/{request_id}"
        return {"error": {**self.error, "request_log_url": log}}


def not_valid(message: str, param: str | None = None, code: str | None = None) -> ProviderError:
    """A parameter that never reached the operation: not kept, the key stays usable."""
    return ProviderError(message, param=param, code=code, kept=False)


def missing(what: str, identifier: str, param: str) -> ProviderError:
    """404 ``resource_missing``."""
    return ProviderError(f"No such {what}: '{identifier}'", status=404, code="resource_missing", param=param)


def no_route(method: str, path: str) -> ProviderError:
    """404 for an address the sandbox does not serve."""
    return ProviderError(f"Unrecognized request URL ({method}: {path}).", status=404, kept=False)


def bad_key(secret: str) -> ProviderError:
    """401 for a missing or unusable key; the key itself is not repeated."""
    if not secret:
        return ProviderError(
            "You did not provide an API key. You need to provide your API key in the Authorization header, using "
            "Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
            status=401,
            kept=False,
        )
    return ProviderError(f"Invalid API Key provided: {secret[:8]}****{secret[-4:]}", status=401, kept=False)


def no_access(secret: str, account: str) -> ProviderError:
    """403 for a connected account the key does not reach."""
    return ProviderError(
        f"The provided key '{secret[:8]}****{secret[-4:]}' does not have access to account '{account}' (or that "
        "account does not exist). Application access may have been revoked.",
        status=403,
        code="account_invalid",
        kept=False,
    )


def lock_timeout() -> ProviderError:
    """429 ``lock_timeout``: another request holds the object (§6)."""
    return ProviderError(
        "This object cannot be accessed right now because another API request or Stripe process is currently "
        "accessing it. If you see this error intermittently, retry the request.",
        status=429,
        code="lock_timeout",
        kept=False,
    )


def rate_limited(reason: str = "endpoint-rate") -> ProviderError:
    """429 ``rate_limit`` with the header that tells it from a lock (§6)."""
    return ProviderError(
        "Request rate limit exceeded. Learn more about rate limits here https://stripe.com/docs/rate-limits.",
        status=429,
        code="rate_limit",
        kept=False,
        headers={"Stripe-Rate-Limited-Reason": reason, "Stripe-Should-Retry": "false"},
    )


def key_in_use(key: str) -> ProviderError:
    """409: the first request with this key is still running (§3)."""
    return ProviderError(
        "There is currently another in-progress request using this Idempotent Key (that probably means you submitted "
        f"twice, and the other request is still going through): {key}. Please try again later.",
        status=409,
        code="idempotency_key_in_use",
        kept=False,
    )


def key_mismatch(key: str) -> ProviderError:
    """400 ``idempotency_error`` without a code (§3)."""
    return ProviderError(
        "Keys for idempotent requests can only be used with the same parameters they were first used with. "
        f"Try using a key other than '{key}' if you meant to execute a different request.",
        kind="idempotency_error",
        kept=False,
    )


def server_error(status: int = 500, *, kept: bool = True) -> ProviderError:
    """5xx: nobody can say what happened."""
    return ProviderError(
        "An unknown error occurred. (This is a fault asked for in the sandbox.)",
        status=status,
        kind="api_error",
        kept=kept,
    )


def refusal_asked_for(status: int, error: dict[str, Any], *, kept: bool) -> ProviderError:
    """Any error body there is: ``error`` as Stripe words it, ``type`` and ``message`` at least."""
    kind, message = str(error.get("type", "invalid_request_error")), str(error.get("message", "Refused, as asked for."))
    rest = {name: value for name, value in error.items() if name not in ("type", "message")}
    return ProviderError(message, status=status, kind=kind, kept=kept, **rest)


def amount_digits(amount_minor: int, currency: str) -> str:
    """``1,000.00``, ``500``: minor units with the currency's decimals."""
    if currency in ZERO_DECIMAL:
        return f"{amount_minor:,}"
    places = 3 if currency in THREE_DECIMAL else 2
    whole, rest = divmod(amount_minor, 10**places)
    return f"{whole:,}.{rest:0{places}d}"


def amount_text(amount_minor: int, currency: str) -> str:
    """``$10.00``, ``¥500``, ``10.00 sek``: how Stripe writes money in its messages."""
    number = amount_digits(amount_minor, currency)
    sign = _SIGNS.get(currency)
    return f"{sign}{number}" if sign else f"{number} {currency}"
