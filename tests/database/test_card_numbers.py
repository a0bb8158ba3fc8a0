"""S76: a card number does not get into the ledger or a log, however it is written, and by whatever door."""

from typing import Any

import pytest

from ledger.brakes import ask_release, pull
from ledger.caps import ask_raise
from ledger.card_numbers import mask_card_numbers
from ledger.database import transaction
from ledger.errors import BadInput
from ledger.evidence import Arrival, ReceivedLine, add_photo, report_arrival
from ledger.ids import uuid7
from ledger.log_fields import only_allowed
from ledger.notes import add_note
from ledger.teamwork import tag
from tests import lives
from tests.orders import TEE, sha256
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World

NUMBERS = (
    "4242424242424242",
    "378282246310005",
    "6011111111111117",
    "5555555555554444",
    "4222222222222",
    "6304000000000000000",
)
FULL_WIDTH = str.maketrans("0123456789", "".join(chr(0xFF10 + digit) for digit in range(10)))


def spellings(number: str) -> list[str]:
    fours = [number[start : start + 4] for start in range(0, len(number), 4)]
    return [number, *(sign.join(fours) for sign in (" ", "-", ".", "\u00a0", "\u2013", "\u2212")),
            number.translate(FULL_WIDTH), " ".join(fours).translate(FULL_WIDTH)]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_a_card_number_is_masked_however_it_is_spelled(number: str) -> None:
    for spelled in spellings(number):
        masked = mask_card_numbers(f"my card is {spelled}, thank you")
        assert masked == f"my card is [card number ending {number[-4:]}], thank you", spelled
        assert mask_card_numbers(masked) == masked
        line = only_allowed(None, "info", {"event": "refused", "reason": f"card {spelled}"})
        assert line["reason"] == f"card [card number ending {number[-4:]}]"


@pytest.mark.parametrize(
    "innocent",
    ["4242424242424241", "424242424242", "42424242424242424242", "order 100000000000", "01a22da0-859a-7e5e-9df0-ffd69edd7b41",
     "+49 30 1234567", "0000000000000000", "2026-11-30 18:00:00"],
)  # fmt: skip
def test_other_numbers_stay_as_they_are(innocent: str) -> None:
    assert mask_card_numbers(innocent) == innocent
    assert only_allowed(None, "info", {"event": "sent", "reason": innocent})["reason"] == innocent


def test_no_door_lets_a_card_number_into_any_table(stack: Stack, world: World) -> None:
    """Each text that a person or a channel writes freely, through the ledger itself; then every column there is, searched."""
    card, marked = "4242 4242 4242 4242", "4242424242424242"
    wish: dict[str, Any] = {"customer_text": f"text {card}", "reference": f"thread {card}"}
    opened = lives.open_case(stack, world, **wish)
    m, case = world.merchant_id, opened.case_id
    with transaction(stack.console, m) as db:
        line = ReceivedLine(TEE, 1, ((1, "A", f"found {card}"),))
        report_arrival(db, m, case, Arrival((line,), "warehouse", world.warehouse.actor, f"parcel {card}"))
        add_photo(db, m, case, b"image", "image/png", sha256(b"a"), sha256(b"b"), f"caption {card}", world.priya.actor)
        add_note(db, m, case, world.priya.staff_id, uuid7(), f"note {card}")
        with pytest.raises(BadInput):
            tag(db, m, [case], world.priya.staff_id, marked)
        ask_raise(db, m, world.mara.staff_id, "GBP", 20_000_00, f"raise {card}")
        pull(db, m, "pause", f"pause {card}", staff_id=world.priya.staff_id)
        ask_release(db, m, "pause", world.mara.staff_id, f"release {card}")
    found, masked = _search(stack, marked), _search(stack, "cardnumberending4242")
    assert found == []
    assert {"conversations", "evidence", "photos", "notes", "cap_raises", "brake_pulls", "brake_asks"} <= set(masked)


def _search(stack: Stack, wanted: str) -> list[str]:
    """Tables with a row that holds the digits, whatever stands between them."""
    tables = as_administrator(
        stack, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    hits = []
    with stack.admin() as db:
        for row in tables:
            name = row["relname"]
            seen = db.execute(
                f"SELECT 1 FROM {name} t WHERE regexp_replace(t::text, '[^0-9a-z]', '', 'g') LIKE %s LIMIT 1".encode(),  # noqa: S608
                [f"%{wanted}%"],
            ).fetchone()
            hits += [name] if seen else []
    return hits
