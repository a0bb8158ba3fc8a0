"""What each mail says. Plain text, no customer, no amount, and every address in it is our own."""

from dataclasses import dataclass
from typing import Any, Final

# Of each kind the subject and the paragraphs; {shop} and the like are facts of the mail, {link} an address of the console.
_AT_ONCE: Final = "If it was not you, sign out everywhere and tell an admin of your shop at once:\n{link}"
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "new_browser": (
        "New sign-in to Onceback",
        "Somebody signed in as you from a browser that you have not used here in 90 days: {device}.",
        _AT_ONCE,
    ),
    "factor_changed": ("Your sign-in to Onceback has changed", "{what}", _AT_ONCE),
    "role_changed": (
        "Your role at {shop} has changed",
        "Two admins changed your role at {shop}: you are {role} now. Your sessions have ended; sign in again:\n{link}",
    ),
    "mentioned": ("{by} mentions you in case {case}", "{by} wrote to you in a note of case {case} at {shop}:\n{link}"),
    "assigned": ("Case {case} is yours", "{by} gave you case {case} at {shop}:\n{link}"),
    "invited": (
        "{shop} invites you to Onceback",
        "{shop} invites you, as {role}. This link works once, for {hours} hours; you choose your password there:\n{link}",
    ),
    "approved_by_key": (
        "Your passkey approved refund {refund}",
        "Your passkey approved refund {refund} at {shop}. What exactly was approved is on its page:\n{link}",
        "If it was not you, call it back there before it is sent, and tell an admin of your shop at once.",
    ),
}
_FOOT: Final = "This mail was sent by Onceback. It asks for no password and no code, and no answer to it is read.\n"


@dataclass(frozen=True)
class Text:
    """Subject in one line, and the text."""

    subject: str
    body: str


def text_of(kind: str, facts: dict[str, Any], origin: str) -> Text:
    """The mail of a kind. `facts` are as `ledger.mails` queued them, `path` among them. Raises KeyError for one that is missing."""
    named = {key: _one_line(value) for key, value in facts.items()} | {"link": origin + str(facts["path"])}
    subject, *paragraphs = _TEXTS[kind]
    whole = "\n\n".join(("Hello {name},", *paragraphs, _FOOT))
    return Text(subject.format_map(named)[:150], whole.format_map(named))


def _one_line(value: Any) -> str:
    """No line break or control character, so that no fact ends a header or begins a line."""
    return "".join(character if character.isprintable() else " " for character in str(value))
