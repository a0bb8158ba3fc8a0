"""What a warehouse system found beside a grade: reason, serial and loss in value, each refused by its name when it cannot be."""

from typing import Any

import pytest

from tests.api.conftest import Caller, fact
from tests.lives import count
from tests.stack import Stack
from tests.world import World


def report(chat: Caller, warehouse: Caller, **found: Any) -> Any:
    case = fact(chat.open(("TEE", 2)))["case"]
    line = {"line": "TEE", "received": 2, "grades": [{"units": 1, "grade": "C", **found}]}
    return warehouse.post("/receipts", {"case": case, "lines": [line]})


def test_reason_serial_and_loss_in_value_are_kept(chat: Caller, warehouse: Caller, stack: Stack, world: World) -> None:
    assert report(chat, warehouse, reason_found="damaged", serial="SN-4410", assessed_bps=2500).status_code == 201
    kept = ("SELECT count(*) FROM evidence WHERE merchant_id = :m AND serial = 'SN-4410' AND reason_found = 'damaged'"
            " AND assessed_bps = 2500")  # fmt: skip
    assert count(stack.console, world, kept) == 1


@pytest.mark.parametrize(
    ("found", "field"),
    [
        ({"units": 2, "serial": "SN-1"}, "serial"),
        ({"serial": ""}, "serial"),
        ({"assessed_bps": 10_001}, "assessed_bps"),
        ({"reason_found": "magic"}, "reason_found"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name_and_nothing_is_stored(
    chat: Caller, warehouse: Caller, stack: Stack, world: World, found: dict[str, Any], field: str
) -> None:
    answer = report(chat, warehouse, **found)
    assert answer.status_code == 422
    assert field in fact(answer)["detail"]
    stored = "SELECT count(*) FROM evidence WHERE merchant_id = :m AND kind <> 'announced'"
    assert count(stack.console, world, stored) == 0
