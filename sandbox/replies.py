"""How a queued fault changes the answer: instead of the call, in what it makes, or in its bytes."""

import json
from typing import Any

from sandbox import errors
from sandbox.faults import Fault
from sandbox.wire import Reply

_LATE_SECONDS = 60


def at_the_door(fault: Fault, key: str | None) -> Reply:
    """The answer of a call that never reached its operation; raises ``ProviderError`` for those with an error body."""
    options = fault.options
    match fault.kind:
        case "lose_before":
            return Reply(0, b"", lost="reset" if options.get("reset") else "close")
        case "redirect":
            where = str(options.get("location", "http://127.0.0.1:9/"))
            return Reply(int(options.get("status", 307)), b"", {"Location": where})
        case "unauthorized":
            raise errors.bad_key("sk_test_withdrawn")
        case "forbidden":
            raise errors.ProviderError(
                "The provided key does not have the required permissions for this endpoint.", status=403, kept=False
            )
        case "rate_limit":
            raise errors.rate_limited(str(options.get("reason", "endpoint-rate")))
        case "in_use":
            raise errors.key_in_use(key or "")
    raise errors.server_error(503, kept=False)


def state_options(state: Fault | None, listing: Fault | None) -> dict[str, Any]:
    """What a refund about to be made shall be like, for ``refunds.make``."""
    wanted: dict[str, Any] = {}
    if listing:
        wanted["lag_seconds"] = listing.options.get("seconds", 10)
    if state is None:
        return wanted
    options = state.options
    late = {"after_seconds": options.get("after_seconds", _LATE_SECONDS)}
    match state.kind:
        case "refund_pending":
            wanted |= {"status": "pending", "pending_reason": options.get("pending_reason", "processing")}
        case "refund_requires_action":
            wanted |= {"status": "requires_action"}
        case "refund_fails":
            wanted |= {"status": "failed", "failure_reason": options.get("failure_reason", "unknown")}
        case "refund_fails_late":
            reason = options.get("failure_reason", "expired_or_canceled_card")
            wanted |= {"status": "succeeded", "next_status": "failed", "failure_reason": reason, **late}
        case "refund_settles_late":
            wanted |= {"status": "pending", "next_status": "succeeded", **late}
        case "insufficient_balance":
            wanted |= {"status": "pending", "pending_reason": "insufficient_funds"}
            wanted["refuse_for_balance"] = options.get("refuse", False)
    return wanted


def spoil(reply: Reply, fault: Fault) -> Reply:
    """The same answer, lost, cut, garbled or with other figures in it."""
    options = fault.options
    match fault.kind:
        case "lose_reply":
            reply.lost = "reset" if options.get("reset") else "close"
        case "truncated_body":
            reply.cut = max(1, len(reply.body) // 2)
        case "garbage_200":
            reply.status, reply.body = 200, b"<html><body>Service temporarily tired</body></html>"
        case "huge_body":
            reply.padding = int(options.get("bytes", 1 << 30))
        case "wrong_amount" | "wrong_answer":
            body = json.loads(reply.body)
            fields = dict(options.get("fields", {}))
            if fault.kind == "wrong_amount":
                fields.setdefault("amount", options.get("amount", body.get("amount", 0) + 1))
            reply.body = json.dumps(body | fields).encode()
    return reply
