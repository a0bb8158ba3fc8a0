"""Which case a form is about, for the line over it."""

from flask import url_for

from console import words
from ledger.queries.case import CaseHead


def case_named(head: CaseHead) -> dict[str, str]:
    """The case with its address, its order, and the customer as this role may see them."""
    return {
        "case_reference": words.case_reference(head.number), "case_url": url_for("case.show", case_id=head.case_id),
        "order_reference": head.order_ref, "customer": words.customer(head.customer),
    }  # fmt: skip
