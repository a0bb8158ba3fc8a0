"""What a policy document may say it approves by itself, and how a slip in it is named when it is published."""

from typing import Any, cast

import pytest

from ledger.errors import BadInput
from ledger.ids import uuid7
from ledger.policies import PolicyDocument
from ledger.policy_publishing import publish
from ledger.seals import Sealer, new_key

GOOD = {"most_minor": 2500, "day_minor": 50000}


def test_a_document_without_the_field_approves_nothing_by_itself() -> None:
    assert PolicyDocument.model_validate({}).automatic == {}
    assert PolicyDocument.model_validate({"automatic": {"GBP": GOOD}}).automatic["GBP"].day_minor == 50000


@pytest.mark.parametrize(
    ("automatic", "field", "says"),
    [
        ({"GBP": {"most_minor": 2500}}, "automatic.GBP.day_minor", "is missing"),
        ({"GBP": GOOD | {"most_minor": "2500"}}, "automatic.GBP.most_minor", "a whole number"),
        ({"GBP": GOOD | {"most_minor": 25.5}}, "automatic.GBP.most_minor", "a whole number"),
        ({"GBP": GOOD | {"most_minor": True}}, "automatic.GBP.most_minor", "a whole number"),
        ({"GBP": GOOD | {"most_minor": 0}}, "automatic.GBP.most_minor", "greater than 0"),
        ({"GBP": GOOD | {"day_minor": 2499}}, "automatic.GBP", "day_minor, the limit of a day, is below most_minor"),
        ({"GBP": GOOD | {"day_minor": 10**15}}, "automatic.GBP.day_minor", "less than or equal"),
        ({"GBP": GOOD | {"week_minor": 1}}, "automatic.GBP.week_minor", "remove it"),
        ({"gbp": GOOD}, "automatic.gbp", "not of the form"),
        ([GOOD], "automatic", "an object in braces"),
        (True, "automatic", "an object in braces"),
    ],
)
def test_a_slip_is_named_when_the_policy_is_published(automatic: Any, field: str, says: str) -> None:
    document = {"policy_id": "usual", "version": 2, "automatic": automatic}
    with pytest.raises(BadInput) as refused:
        publish(cast("Any", None), uuid7(), document, "Mara Velthuis", "Jonas Okonjo", None)
    assert str(refused.value.facts["field"]).startswith(field)
    assert says in refused.value.sentence


def test_the_seal_of_a_row_without_a_person_covers_that_there_is_none() -> None:
    sealer = Sealer.from_text(new_key("one"))
    row: dict[str, Any] = dict.fromkeys(
        ("merchant_id", "approval_id", "intent_id", "approver", "requester", "case_opener", "strength", "note", "operation_key",
         "approved_at", "expires_at", "seal_key_id", "fingerprint"), "x",
    )  # fmt: skip
    row |= {"seat": 1, "staff_id": None}
    assert sealer.seal(row) != sealer.seal(row | {"staff_id": ""})
    assert sealer.seal(row) == sealer.seal(dict(row))
