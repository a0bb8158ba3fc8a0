"""What an entitlement was derived from stands beside it, to the byte, and derives it again; and what could be stored without."""

import json
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ledger.database import rows, run, scalar, transaction
from ledger.entitlement_audit import prove
from ledger.entitlement_store import StoredRecord, read_pages
from ledger.ids import uuid7
from tests import lives
from tests.database import rows as put
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World

UNGUARDED = "ALTER TABLE entitlements DROP CONSTRAINT inputs_are_stored_as_bound"


def stored(stack: Stack, world: World) -> list[StoredRecord]:
    return [row for page in read_pages(stack.console, world.merchant_id) for row in page]


def names(stack: Stack, world: World) -> list[list[str]]:
    return [[found.name for found in prove(row)] for row in stored(stack, world)]


def test_each_entitlement_in_a_case_s_life_is_derived_again_from_what_was_stored_with_it(
    stack: Stack, world: World
) -> None:
    opened = lives.open_case(stack, world, (("TEE", 2),))
    lives.arrive(stack, world, opened.case_id, ("TEE", 2), grade="B")
    lives.propose(stack, world, (("LAMP", 1),))

    found = stored(stack, world)
    assert [row.n for row in found if row.case_number == found[0].case_number] == [1, 2]
    assert len(found) > 2
    assert [prove(row) for row in found] == [[] for _ in found]
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        sources = rows(db, "SELECT tag FROM entitlement_sources ORDER BY tag")
    assert [row["tag"] for row in sources] == ["allocation@1", "policy-terms@1"], "each is stored once"


def insert(db: Connection, world: World, **changed: Any) -> None:
    """An entitlement from empty documents, with columns replaced; `bound` replaces what its record binds."""
    minor = 2490
    record = {
        "lines": [{"minor": minor, "tax": {"minor": 0}}], "subtotals": {"goods": minor}, "tax": 0, "claimed": {"TEE": minor},
        "total": minor, "draws": [{"order_minor": minor}], "bound": put.BOUND | changed.pop("bound", {}),
    }  # fmt: skip
    values = {
        "merchant_id": world.merchant_id, "entitlement_id": uuid7(), "case_id": put.open_case(db, world), "n": 1,
        "policy_id": world.policy_id, "policy_version": 1, "evidence_digest": sha256(b"seen").digest(), "outcome": "payable",
        "currency": "GBP", "total_minor": minor, "tax_minor": 0, "payable_minor": minor, "record": json.dumps(record),
        "digest": sha256(b"record").digest(), "allocation_digest": put.source(db, world), "evidence": "{}", "priors": "{}",
        **changed,
    }  # fmt: skip
    places = ", ".join(f"CAST(:{name} AS jsonb)" if name == "record" else f":{name}" for name in values)
    run(db, f"INSERT INTO entitlements ({', '.join(values)}) VALUES ({places})", **values)  # noqa: S608 - names of this test


def test_inputs_that_are_those_bound_are_stored(db: Connection, harbour: World) -> None:
    insert(db, harbour)


@pytest.mark.parametrize(
    "changed",
    [
        {"evidence": None},
        {"priors": None},
        {"allocation_digest": None},
        {"evidence": '{"units":[]}'},
        {"priors": '{"paid":[]}'},
        {"bound": {"evidence": "sha256:" + "0" * 64}},
        {"bound": {"allocation": "sha256:" + "0" * 64}},
        {"bound": {"terms": "harbour@1 sha256:" + "0" * 64}},
        {"bound": {"terms": None}},
    ],
)
def test_an_entitlement_without_its_inputs_or_with_others_than_it_binds_is_refused(
    db: Connection, harbour: World, changed: dict[str, Any]
) -> None:
    with pytest.raises(IntegrityError, match="inputs_are_stored_as_bound"):
        insert(db, harbour, **changed)


def test_a_source_that_is_not_there_is_refused(db: Connection, harbour: World) -> None:
    nowhere = "0" * 64
    with pytest.raises(IntegrityError, match="entitlement_sources"):
        insert(db, harbour, bound={"allocation": f"sha256:{nowhere}"}, allocation_digest=bytes.fromhex(nowhere))


def test_a_source_is_stored_under_its_own_digest_only(db: Connection, harbour: World) -> None:
    with pytest.raises(IntegrityError, match="named_by_its_digest"):
        run(db, "INSERT INTO entitlement_sources (merchant_id, digest, tag, document) VALUES (:m, :d, 'allocation@1', '{ }')",
            m=harbour.merchant_id, d=bytes.fromhex(put.BOUND["allocation"][7:]))  # fmt: skip


def test_what_was_stored_before_inputs_were_stays_and_is_named(stack: Stack, world: World) -> None:
    lives.propose(stack, world)
    # As the revision finds them: rows of before, under the guard that is not asked of them.
    with stack.admin() as db:
        guard = db.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'inputs_are_stored_as_bound'"
        )
        (definition,) = guard.fetchone() or ("",)
    without(stack, UNGUARDED)
    as_administrator(
        stack, "UPDATE entitlements SET evidence = NULL, priors = NULL, allocation_digest = NULL, terms_digest = NULL"
    )
    with stack.admin() as db:
        db.execute(f"ALTER TABLE entitlements ADD CONSTRAINT inputs_are_stored_as_bound {definition}".encode())
    assert definition.endswith("NOT VALID")
    before = stored(stack, world)
    lives.propose(stack, world, (("LAMP", 1),))

    assert names(stack, world)[: len(before)] == [["inputs_not_stored"] for _ in before]
    assert not any(names(stack, world)[len(before) :])


@pytest.mark.parametrize(
    ("column", "text"), [("evidence", '\'{"case_ref":"another","units":[]}\''), ("priors", "priors || ' '")]
)
def test_inputs_that_somebody_changed_behind_the_guards_are_named(
    stack: Stack, world: World, column: str, text: str
) -> None:
    lives.propose(stack, world)
    without(stack, UNGUARDED)
    with stack.past_guards() as db:
        db.execute(f"UPDATE entitlements SET {column} = {text}".encode())  # noqa: S608 - words of this test

    assert {name for found in names(stack, world) for name in found} == {"inputs_changed"}


def test_a_page_is_cut_by_the_length_of_its_documents_and_none_is_left_out(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in ("TEE", "LAMP"):
        lives.propose(stack, world, ((line, 1),))
    whole = stored(stack, world)
    monkeypatch.setattr("ledger.entitlement_store.PAGE_BYTES", 1)

    pages = list(read_pages(stack.console, world.merchant_id))
    assert [len(page) for page in pages] == [1] * len(whole)
    assert [page[0].entitlement_id for page in pages] == [row.entitlement_id for row in whole]
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert scalar(db, "SELECT count(*) FROM entitlements") == len(whole)
