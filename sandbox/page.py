"""The page at /_sandbox/ for people: what is held, what was called, and forms for what shall go wrong. No scripts."""

import time
from html import escape
from typing import Any

from sandbox import money
from sandbox.errors import amount_digits
from sandbox.faults import KINDS, Fault
from sandbox.provider import Provider
from sandbox.webhooks import Webhooks
from sandbox.wire import Reply

_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Cache-Control": "no-store",
}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 1.5rem auto; padding: 0 1rem; color: #1d2530; }
h2 { margin-top: 2rem; border-bottom: 1px solid #c9d1da; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top; border-bottom: 1px solid #e4e8ed; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } code { font-size: .85rem; }
form { margin: .5rem 0; } form.row { display: flex; flex-wrap: wrap; gap: .75rem; align-items: end; }
label { display: flex; flex-direction: column; font-size: .85rem; } input, select { font: inherit; padding: .2rem; }
label, select { max-width: 100%; }
button { font: inherit; padding: .25rem .8rem; } td form { display: inline-block; margin: 0 .4rem .25rem 0; }
td button { font-size: .85rem; padding: 0 .5rem; } .wide { overflow-x: auto; }
"""
_SHOWN_PAYMENTS, _SHOWN_CALLS = 20, 40


def _page(title: str, body: str, status: int = 200) -> Reply:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body>{body}</body></html>"
    )
    return Reply(status, text.encode(), dict(_HEADERS))


def refusal(status: int, message: str) -> Reply:
    """What a form that was not taken shows."""
    body = f'<h1>Not done</h1><p role="alert">{escape(message)}</p><p><a href="/_sandbox/">Back to the sandbox</a></p>'
    return _page("Not done – sandbox", body, status)


def show(provider: Provider, webhooks: Webhooks) -> Reply:
    """The whole page."""
    store = provider.store
    with store.read() as db:
        sums = money.totals(db, None)
        newest = money.newest(db, _SHOWN_PAYMENTS)
        disputes = db.execute("select * from disputes order by seq desc limit ?", (_SHOWN_PAYMENTS,)).fetchall()
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(store.now()))
    sections = [
        "<h1>Sandbox provider</h1>",
        f"<p>Invented money, real rules. Clock: {now} UTC.</p>",
        _sums(sums),
        _faults(provider.faults.waiting()),
        _payments(newest),
        _disputes(disputes),
        _clock_and_webhooks(store.settings, webhooks),
        _calls(provider.journal.listed(limit=_SHOWN_CALLS)),
        _form("reset", "<button>Forget everything</button>"),
    ]
    return _page("Sandbox provider", "".join(sections))


def _amount(amount_minor: int, currency: str) -> str:
    return f"{amount_digits(amount_minor, currency)}&nbsp;{escape(currency.upper())}"


def _hidden(name: str, value: object) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(str(value), quote=True)}">'


def _form(action: str, inside: str, style: str = "") -> str:
    return f'<form method="post" action="/_sandbox/{action}" class="{style}">{inside}</form>'


def _field(name: str, label: str, kind: str = "text", value: str = "", more: str = "") -> str:
    return (
        f'<label>{escape(label)} <input name="{name}" type="{kind}" value="{escape(value, quote=True)}" {more}></label>'
    )


def _table(heads: list[str], rows: list[list[str]], empty: str) -> str:
    """Cells are markup; a head that ends in ``|`` is over numbers."""
    if not rows:
        return f"<p>{empty}</p>"
    marks = [' class="n"' if head.endswith("|") else "" for head in heads]
    top = "".join(f'<th scope="col"{mark}>{head.rstrip("|")}</th>' for head, mark in zip(heads, marks, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in rows
    ]
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _sums(sums: list[dict[str, Any]]) -> str:
    rows = [
        [
            one["currency"].upper(),
            str(one["payments"]),
            _amount(one["captured"], one["currency"]),
            str(one["refunds"]),
            _amount(one["refunded"], one["currency"]),
        ]
        for one in sums
    ]
    return "<h2>Money held</h2>" + _table(
        ["Currency", "Payments|", "Captured|", "Refunds|", "Refunded|"], rows, "No payments yet."
    )


def _payments(payments: list[dict[str, Any]]) -> str:
    rows = []
    for one in payments:
        refunds = "".join(
            f"<div><code>{escape(refund['id'])}</code> {_amount(refund['amount'], one['currency'])} "
            f"{escape(refund['status'])} {_refund_buttons(refund)}</div>"
            for refund in one["refunds"]
        )
        hidden = _hidden("payment_intent", one["payment_intent"])
        acts = (
            _form("refunds", f"{hidden}<button>Refund at the dashboard</button>")
            + _form("disputes", f"{hidden}<button>Dispute</button>")
            + _form("disputes", f"{hidden}{_hidden('inquiry', 'true')}<button>Inquiry</button>")
        )
        captured = _amount(one["captured"], one["currency"])
        rows.append([f"<code>{escape(one['payment_intent'])}</code>", captured, refunds or "none", acts])
    title = f"<h2>Payments (newest {_SHOWN_PAYMENTS})</h2>"
    new = _form(
        "payments",
        _field("account", "Key or account", value="sk_test_sandbox")
        + _field("amount", "Amount, minor units", "number", "1000", 'min="1"')
        + _field("currency", "Currency", value="gbp")
        + "<button>Make a paid payment</button>",
        "row",
    )
    return title + new + _table(["Payment", "Captured|", "Refunds", "From outside"], rows, "No payments yet.")


def _refund_buttons(refund: dict[str, Any]) -> str:
    moves = {"settle": "succeeded", "fail": "failed", "cancel": "canceled"}
    if refund["status"] == "succeeded":
        del moves["settle"]
    if refund["status"] in ("failed", "canceled"):
        return ""
    return "".join(
        _form("refunds/status", f"{_hidden('refund', refund['id'])}{_hidden('status', status)}<button>{verb}</button>")
        for verb, status in moves.items()
    )


def _disputes(disputes: list[Any]) -> str:
    rows = []
    for one in disputes:
        ends = ("warning_closed",) if one["inquiry"] else ("won", "lost")
        over = one["status"] in ("warning_closed", "won", "lost")
        buttons = [
            _form("disputes/close", f"{_hidden('dispute', one['id'])}{_hidden('outcome', end)}<button>{end}</button>")
            for end in (() if over else ends)
        ]
        if one["inquiry"] and not over:
            buttons.append(_form("disputes/escalate", f"{_hidden('dispute', one['id'])}<button>make formal</button>"))
        names = [f"<code>{escape(one[name])}</code>" for name in ("id", "payment_intent")]
        rows.append([*names, _amount(one["amount"], one["currency"]), escape(one["status"]), "".join(buttons)])
    heads = ["Dispute", "Payment", "Amount|", "Status", "End it"]
    return "<h2>Disputes</h2>" + _table(heads, rows, "No payment is disputed.")


def _faults(waiting: list[Fault]) -> str:
    groups = "".join(
        f'<optgroup label="{stage}">'
        + "".join(f'<option value="{kind}">{kind}: {escape(text)}</option>' for kind, text in kinds.items())
        + "</optgroup>"
        for stage, kinds in KINDS.items()
    )
    form = _form(
        "faults",
        f'<label>What goes wrong <select name="kind">{groups}</select></label>'
        + _field("count", "How often", "number", "1", 'min="1"')
        + _field("method", "Method", value="POST")
        + _field("path", "Path begins with", value="/v1/refunds")
        + _field("payment_intent", "Payment (any)")
        + _field("account", "Key or account (any)")
        + _field("ms", "Milliseconds", "number", "", 'min="0"')
        + _field("seconds", "Seconds", "number", "", 'min="0"')
        + _field("failure_reason", "Failure reason")
        + "<button>Queue this fault</button>",
        "row",
    )
    rows = [
        [
            fault.kind,
            str(fault.remaining),
            escape(f"{fault.method or 'any'} {fault.path or '/'}"),
            escape(fault.payment_intent or fault.charge or "any"),
            escape(", ".join(f"{name}={value}" for name, value in fault.options.items())),
            _form("faults/drop", f"{_hidden('seq', fault.seq)}<button>Drop</button>"),
        ]
        for fault in waiting
    ]
    heads = ["Fault", "Times left|", "Calls", "Payment", "Options", ""]
    return "<h2>Faults</h2>" + form + _table(heads, rows, "Nothing is queued to go wrong.")


def _clock_and_webhooks(settings: dict[str, Any], webhooks: Webhooks) -> str:
    clock = _form(
        "clock",
        _field("advance_seconds", "Advance by seconds", "number", "86400") + "<button>Move the clock</button>",
        "row",
    )
    switches = "".join(
        _field(name, name.replace("_", " "), value=str(value).lower())
        for name, value in sorted(settings.items())
        if name != "clock_offset_seconds"
    )
    changed = _form("settings", switches + "<button>Save settings</button>", "row")
    endpoints = _table(
        ["Account", "Address"],
        [[f"<code>{one['account']}</code>", escape(one["url"])] for one in webhooks.endpoints()],
        "No webhook endpoint is set.",
    )
    told = _form(
        "endpoints",
        _field("account", "Key or account", value="sk_test_sandbox")
        + _field("url", "Address", "url")
        + _field("secret", "Signing secret")
        + "<button>Send events there</button>",
        "row",
    )
    owed = len(webhooks.deliveries("waiting"))
    hurry = _form("deliveries/now", f"<button>Deliver {owed} waiting now</button>")
    return f"<h2>Clock, settings and webhooks</h2>{clock}{changed}{endpoints}{told}{hurry}"


def _calls(calls: list[dict[str, Any]]) -> str:
    rows = [
        [
            time.strftime("%H:%M:%S", time.gmtime(call["arrived"])),
            escape(f"{call['method']} {call['path']}"),
            f"<code>{escape(call['idempotency_key'] or '')}</code>",
            str(call["status"] or "none"),
            escape(call["outcome"]),
            f"<code>{call['digest'][:12]}</code>",
        ]
        for call in reversed(calls)
    ]
    title = f"<h2>Calls (newest {_SHOWN_CALLS})</h2>"
    return title + _table(["Time", "Call", "Key", "Status|", "Outcome", "Body digest"], rows, "No calls yet.")
