"""Whether a channel's word says that it knew the customer: the same to the program and to the database."""

import pytest
from sqlalchemy import Connection

from ledger.customer_known import says_who
from ledger.database import scalar

KNOWN = ("signed_in", "order_and_customer", "order_and_email", "in person", "otp", "notary", "nonce_by_mail")
DENIED = (
    "", " ", "none", "None", "no", "not_verified", "no_check", "unverified", "unknown", "guest", "guest_checkout", "anonymous",
    "failed_otp", "self_declared", "customer_says_so", "n/a", "0", "false",
)  # fmt: skip


@pytest.mark.parametrize(("way", "known"), [*((way, True) for way in KNOWN), *((way, False) for way in DENIED)])
def test_a_word_that_denies_is_no_way_of_knowing(db: Connection, way: str, known: bool) -> None:
    assert says_who(way) is known
    assert scalar(db, "SELECT says_who(:way)", way=way) is known
