"""The named people of the demo."""

from dataclasses import dataclass
from typing import Final

# Long enough for the rules, and plainly not a secret: the demo listens on this machine only.
PASSWORD: Final = "one refund and never two"  # noqa: S105 said aloud on purpose


@dataclass(frozen=True)
class DemoPerson:
    """Somebody who can sign in to the demo; `title` says what they do there."""

    email: str
    name: str
    role: str
    title: str


PEOPLE: Final = (
    DemoPerson("priya@hollowbrook.example", "Priya Raman", "desk", "returns desk"),
    DemoPerson("tobias@hollowbrook.example", "Tobias Renk", "desk", "returns desk"),
    DemoPerson("jonas@hollowbrook.example", "Jonas Okonjo", "manager", "manager"),
    DemoPerson("mara@hollowbrook.example", "Mara Velthuis", "manager", "manager"),
    DemoPerson(
        "farah@hollowbrook.example", "Farah Osei", "finance", "finance: settles with evidence, approves nothing"
    ),
    DemoPerson("noor@hollowbrook.example", "Noor El-Baz", "reader", "may look, not act"),
    DemoPerson("ada@hollowbrook.example", "Ada Lindqvist", "admin", "people and sessions"),
)
