"""What is stated of a case, in words: what a person chooses, and what the case page and its history say of it."""

from typing import Any, Final

# By kind: what the form is called, what it is for, and what may be said.
FACTS: Final[dict[str, dict[str, Any]]] = {
    "not_delivered": {
        "do": "Where the goods are", "says": "What the shop or the carrier found. What the customer says is no finding.",
        "said": {"not_dispatched": "They were never sent", "lost": "They were lost on the way", "delivered": "They did arrive"},
    },
    "cure": {
        "do": "Repair or replacement", "says": "How it went, or why there was none.",
        "said": {"done": "It was repaired or replaced", "failed": "It was tried and did not help", "refused": "The shop refused it",
                 "impossible": "It cannot be done", "waived": "The shop leaves it to a refund"},
    },
    "fee_use": {
        "do": "Insurance or installation", "says": "Whether what the fee was for was used.",
        "said": {"used": "It was used", "unused": "It was not used"},
    },
    "collection": {
        "do": "We fetch the goods", "says": "Who offers to fetch them bears that, and the money may not wait for them.",
        "said": {"offered": "The shop offered to fetch them", "not_offered": "The customer sends them"},
    },
    "claimant": {
        "do": "Who asks", "says": "The order is its buyer’s. Whoever else asks is paid nothing for it.",
        "said": {"buyer": "The buyer asks", "other": "Somebody else asks, not the buyer"},
    },
    "fault": {"do": "Fault", "says": "", "said": {"showed": "The fault showed"}},
}  # fmt: skip
CURES: Final = {"repair": "repair", "replacement": "replacement"}


def said(kind: str, word: str) -> str:
    """A fact in words; a kind or word that this list does not know keeps its own name."""
    return str(FACTS.get(kind, {}).get("said", {}).get(word, f"{kind} {word}".replace("_", " ")))
