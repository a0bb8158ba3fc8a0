"""The fields that every request at the counter has beside its goods: why, in which conversation, and what the customer says."""

import base64
import hashlib

from wtforms import SelectField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length

from console import words
from console.forms import ConsoleForm


class TalkForm(ConsoleForm):
    """Where it was asked."""

    conversation = StringField(
        "Conversation", description="Ticket or call, if there was one", validators=[Length(max=120)]
    )

    def talk(self) -> str:
        """The conversation's reference. Where none was typed, a short one of this form's own, such as "counter-7KQ2-9FHX":
        the same for a second submit, and another for every other form of the order."""
        return (self.conversation.data or "").strip() or f"counter-{_short(str(self.operation.data))}"


class ToldForm(TalkForm):
    """And what was said there."""

    note = TextAreaField("What the customer says", validators=[Length(max=2000)])

    def told(self) -> str:
        """What was typed of it."""
        return (self.note.data or "").strip()


def reason_field(label: str, reasons: dict[str, str], missing: str) -> SelectField:
    """One of the reasons, by its code; none is chosen beforehand."""
    options = {"": "Choose one", **{code: words.sentence(text) for code, text in reasons.items()}}
    return SelectField(label, choices=words.choices(options), validators=[InputRequired(missing)])


def reason_given(**more: str) -> SelectField:
    """Why units go back, in the customer's words; `more`: other reasons beside those of a return."""
    return reason_field("Reason given", words.REASONS | more, "Choose the reason the customer gives")


def _short(operation: str) -> str:
    code = base64.b32encode(hashlib.sha256(operation.encode()).digest()[:5]).decode()
    return f"{code[:4]}-{code[4:]}"
