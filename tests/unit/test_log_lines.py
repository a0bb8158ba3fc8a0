"""S74, S75: every line that is written somewhere in the code, read from the code itself."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ledger.log_fields import ALLOWED

ROOT = Path(__file__).parents[2]
# A line that names a person, a token or an address is one of the security log.
PERSONAL = {"staff_id", "token_id", "address", "engineer"}


def calls() -> Iterator[tuple[str, set[str]]]:
    """(event, its fields) of each call of the log; `**more` of a call is not followed."""
    for package in ("console", "jobs", "ledger", "."):
        places = ROOT.glob("*.py") if package == "." else (ROOT / package).rglob("*.py")
        for path in sorted(places):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "log"
                    and node.func.attr in ("debug", "info", "warning", "error", "critical")
                ):
                    event = node.args[0]
                    assert isinstance(event, ast.Constant), f"{path}:{node.lineno}: an event is a constant"
                    yield str(event.value), {keyword.arg for keyword in node.keywords if keyword.arg}


def test_no_line_is_written_with_a_field_that_would_be_dropped() -> None:
    dropped = {(event, field) for event, fields in calls() for field in fields - ALLOWED}
    assert dropped == set()


# Of a refund that is known by the provider's reference alone.
WITHOUT_KEY = {"recovered"}


def test_every_line_of_a_refund_names_its_intent_and_its_key() -> None:
    """Most lines have them from `ledger.hops`, whose fields are not seen here."""
    fields = list(calls())
    assert [event for event, named in fields if "intent_id" in named] == [], "an intent is called intent"
    about = [(event, named) for event, named in fields if "intent" in named and event not in WITHOUT_KEY]
    assert {event for event, _ in about} >= {"claimed", "found", "hinted", "approved"}
    assert [event for event, named in about if "key" not in named] == []


def test_the_list_of_the_security_log_is_what_is_emitted() -> None:
    listed = set()
    for line in (ROOT / "docs" / "security-log.md").read_text().splitlines():
        if line.startswith("| `"):
            listed |= set(re.findall(r"`([a-z_]+)`", line.split("|")[1]))
    emitted: dict[str, set[str]] = defaultdict(set)
    for event, fields in calls():
        emitted[event] |= fields
    assert listed - emitted.keys() == set(), "listed and never written"
    about_people = {event for event, fields in emitted.items() if fields & PERSONAL}
    assert about_people - listed == set(), "say in docs/security-log.md what these lines are"
    assert {"signed_in", "sign_in_refused", "refused", "approved", "claimed", "alarm", "brake_pulled", "api_refused",
            "hook_refused", "person_switched_off", "token_in_address"} <= listed  # fmt: skip


def test_the_allowed_fields_hold_none_of_what_never_is_logged() -> None:
    never = {"cookie", "token", "password", "totp", "nonce", "csrf", "authorization", "signature", "body", "prompt", "note", "name",
             "contact", "email", "photo", "query"}  # fmt: skip
    assert never & ALLOWED == set()
