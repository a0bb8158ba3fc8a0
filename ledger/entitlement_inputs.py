"""The very documents an entitlement was derived from: what is bound in its record, stored beside it, and derived from again.

Each is canonical JSON text. A document leaves out what was not stated, so one that was stored before a field existed reads the
same for ever; terms spell every default out, so the text that was bound is kept, not written anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ledger.allocation_lines import Allocation
from ledger.canonical import canonical_bytes, digest_bytes
from ledger.entitlement_facts import Evidence, Priors, read_evidence, read_priors
from ledger.policy_terms import PolicyTerms, read_terms

TAGS: Final = {
    "allocation": "allocation@1", "evidence": "evidence@1", "priors": "priors@1", "terms": "policy-terms@1",
}  # fmt: skip
NO_TERMS: Final = "none"


@dataclass(frozen=True)
class Inputs:
    """Canonical JSON text of each input; `terms` is None where no policy decided, `cited` how the record names it."""

    allocation: str
    evidence: str
    priors: str
    terms: str | None
    cited: str = NO_TERMS

    def bound(self) -> dict[str, str]:
        """What a record binds: a digest each, and the policy's name before that of its terms."""
        return {
            "allocation": self.digest("allocation"), "evidence": self.digest("evidence"), "priors": self.digest("priors"),
            "terms": self.cited,
        }  # fmt: skip

    def digest(self, name: str) -> str:
        """The digest of one document; "none" for terms there are not."""
        text = getattr(self, name)
        return digest_bytes(text.encode(), TAGS[name]) if text is not None else NO_TERMS

    def read(self) -> tuple[Allocation, Evidence, Priors, PolicyTerms | None]:
        """What `derive` takes. Raises ValueError, TypeError or KeyError for a document that cannot be read."""
        terms = read_terms(json.loads(self.terms)) if self.terms is not None else None
        evidence, priors = read_evidence(json.loads(self.evidence)), read_priors(json.loads(self.priors))
        return _allocation(self.allocation), evidence, priors, terms


def inputs_of(allocation: Allocation, evidence: Evidence, priors: Priors, policy: PolicyTerms | None) -> Inputs:
    """The documents of what is derived from."""
    return Inputs(
        allocation.canonical,
        canonical_bytes(evidence.document()).decode(),
        canonical_bytes(priors.document()).decode(),
        policy.canonical if policy is not None else None,
        policy.cited if policy is not None else NO_TERMS,
    )


# An audit meets an order's allocation in each of its cases.
@lru_cache(maxsize=16)
def _allocation(text: str) -> Allocation:
    return Allocation.from_document(json.loads(text))
