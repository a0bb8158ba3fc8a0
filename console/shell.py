"""What stands around every signed-in page: who, which merchant, the desks this role has, what waits there."""

from typing import Any, Final

from flask import current_app, g, session, url_for
from sqlalchemy import Connection

from console.access import PERMISSIONS, ROLE_TEXTS, current, reading, stated
from console.filters import shown_zone
from ledger import caps
from ledger.brakes import read_brakes
from ledger.queries.counts import MOST_COUNTED, desk_counts

# Key of the templates' `shell.links` to the endpoint behind it; one that is not there, or not allowed, is not shown.
LINKS: Final = {
    "queue": "queue.index",
    "unknown": "unknown.index",
    "by_hand": "by_hand.index",
    "outside": "outside.index",
    "disputes": "disputes.index",
    "in_question": "in_question.index",
    "caps": "caps.index",
    "brakes": "brakes.index",
    "reconciliation": "reconciliation.index",
    "trail": "trail.index",
    "exports": "exports.index",
    "measures": "measures.index",
    "policies": "policies.index",
    "people": "people.index",
    "erasures": "erasures.index",
    "counter": "counter.index",
    "goods_in": "goods_in.index",
    "receipts": "receipts.index",
    "sessions": "sessions.index",
    "factors": "factors.index",
    "settings": "settings.index",
    "sign_out": "sign_in.sign_out",
    "search": "queue.search",
}


def shell(*, whole: bool = True) -> dict[str, Any]:
    """The `shell` of base.html. With `whole` false, for a fragment, nothing is read and the status message stays."""
    person = g.person
    return {
        "shop_name": current.merchant_name,
        "zone": zone_word(shown_zone().key),
        "zone_key": shown_zone().key,
        "shop_zone": zone_word(current.zone),
        "now": person.now,
        "test_money": not current.livemode,
        "person": {
            "name": person.name,
            "initials": initials(person.name),
            "role_text": ROLE_TEXTS[current.role],
            "theme": person.theme,
            "shortcuts": person.shortcuts,
        },
        "links": _links(),
        "session": _session(),
        "status": session.pop("status", None) if whole else None,
        **(_figures() if whole else {"counts": {}, "cap_text": "", "brake": None}),
    }


def initials(name: str) -> str:
    """At most two letters: the first of the first and of the last word."""
    words = [word for word in name.split() if word[0].isalnum()]
    return "".join(word[0] for word in (words if len(words) < 2 else [words[0], words[-1]])).upper()


def zone_word(zone: str) -> str:
    """ "Europe/Berlin" as one word, "Berlin"."""
    return zone.rsplit("/", 1)[-1].replace("_", " ")


def desk_address(slug: str, role: str) -> str:
    """The first desk of this role in a merchant, for the page after sign-in."""
    links = (LINKS[key] for key in ("queue", "people", "sessions"))
    return url_for(next(endpoint for endpoint in links if _allowed(endpoint, role)), merchant_slug=slug)


def _links() -> dict[str, str]:
    return {key: url_for(endpoint) for key, endpoint in LINKS.items() if _allowed(endpoint, current.role)}


def _allowed(endpoint: str, role: str) -> bool:
    view = current_app.view_functions.get(endpoint)
    said = stated(view) if view else None
    return said is not None and said.kind == "permission" and role in PERMISSIONS[said.text]


def _session() -> dict[str, Any] | None:
    seconds = int((g.person.ends_at - g.person.now).total_seconds())
    return {"seconds_left": max(seconds, 0), "stay_url": url_for("sessions.stay")}


def _figures() -> dict[str, Any]:
    if getattr(g, "db", None) is not None:
        return _read(g.db)
    with reading() as db:
        return _read(db)


def _read(db: Connection) -> dict[str, Any]:
    counts = desk_counts(db, current.merchant_id) if current.may("see_cases") else {}
    shown = {key: str(n) if n <= MOST_COUNTED else f"{MOST_COUNTED}+" for key, n in counts.items() if n}
    return {"counts": shown, "cap_text": _cap_text(db) if current.may("see_caps") else "", "brake": _brake(db)}


# What every page says while a brake is on, the strongest first.
_BRAKE_TEXTS: Final = {
    "all": "Refunds of every shop are paused",
    "pause": "Refunds are paused",
    "stop": "Sending was stopped by an alarm",
    "shadow": "Shadow mode: nothing is sent",
}


def _brake(db: Connection) -> dict[str, Any] | None:
    now = read_brakes(db, current.merchant_id)
    on = next((brake for brake in _BRAKE_TEXTS if now.since(brake)), None)
    if on is None:
        return None
    by = {"all": now.all_paused_by, "pause": now.paused_by, "shadow": now.shadow_by}.get(on)
    return {"text": _BRAKE_TEXTS[on], "by": by or "", "since": now.since(on), "url": _links().get("brakes")}


def _cap_text(db: Connection) -> str:
    found = [cap for cap in caps.today(db, current.merchant_id) if cap.limit_minor]
    if not found:
        return ""
    fullest = max(found, key=lambda cap: cap.used_minor * 1000 // cap.limit_minor)
    return f"{fullest.currency} cap {fullest.used_minor * 100 // fullest.limit_minor} % spoken for"
