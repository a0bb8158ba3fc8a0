"""Steps of a refund's life, done as the processes do them: real ledger commands, each in its own transaction."""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, RowMapping

from ledger import brakes
from ledger.approvals import Decision, Seen, approve
from ledger.cases import Opened, ReturnRequest, open_return
from ledger.database import first, rows, transaction
from ledger.errors import LedgerError
from ledger.evidence import Arrival, ReceivedLine, report_arrival
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.outbox import Claimed, claim_due
from ledger.passkey_proof import Party
from ledger.recording import record_outcome
from ledger.seals import Sealer, SealVerifier, new_key
from ledger.settlement import Outcome
from ledger.strength import Proof
from tests.orders import Order
from tests.stack import Stack
from tests.world import Person, World

WORKER = 4711
# Whom passkeys are for, as the web process and the workers of tests are configured.
ORIGIN = "https://console.example"


@cache
def sealer() -> Sealer:
    return Sealer.from_text(new_key("test-1"))


@cache
def policy_sealer() -> Sealer:
    """Seals what policies approve by themselves."""
    return Sealer.from_text(new_key("test-automatic-1"))


@cache
def verifier() -> SealVerifier:
    return SealVerifier([sealer().public_text()], [policy_sealer().public_text()], Party.of(ORIGIN))


def request(world: World, lines: tuple[tuple[str, int], ...], **changes: Any) -> ReturnRequest:
    """Ilse asks in the chat to return `lines` of her order."""
    usual = {"order_ref": world.order.external_ref, "lines": lines, "reason": "size", "channel": "chat",
             "reference": "chat-1", "actor": world.chat.actor}  # fmt: skip
    return ReturnRequest(**{**usual, **changes})


def open_case(stack: Stack, world: World, lines: tuple[tuple[str, int], ...] = (("TEE", 1),), **changes: Any) -> Opened:
    with transaction(stack.console, world.merchant_id) as db:
        return open_return(db, world.merchant_id, request(world, lines, **changes))


def arrive(stack: Stack, world: World, case_id: UUID, *lines: tuple[str, int], grade: str = "A") -> None:
    """The warehouse books units in and grades each of them."""
    reported = tuple(ReceivedLine(ref, count, ((count, grade, ""),)) for ref, count in lines)
    with transaction(stack.console, world.merchant_id) as db:
        report_arrival(db, world.merchant_id, case_id, Arrival(reported, "warehouse", world.warehouse.actor))


def intents(stack: Stack, world: World, case_id: UUID) -> list[RowMapping]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return rows(
            db,
            "SELECT * FROM intents WHERE merchant_id = :m AND case_id = :c ORDER BY number",
            m=world.merchant_id,
            c=case_id,
        )


def propose(
    stack: Stack,
    world: World,
    lines: tuple[tuple[str, int], ...] = (("TEE", 1),),
    *,
    order: Order | None = None,
    **changes: Any,
) -> RowMapping:
    """A return opened and received: its one proposed intent."""
    if order is not None:
        changes["order_ref"] = order.external_ref
    opened = open_case(stack, world, lines, **changes)
    arrive(stack, world, opened.case_id, *lines)
    return intents(stack, world, opened.case_id)[-1]


def see(stack: Stack, world: World, intent_id: UUID, note: str = "looked at") -> Seen:
    """What the confirm page renders for this intent now."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        intent = read_intent(db, world.merchant_id, intent_id)
        assert intent is not None
        shown = fingerprint(intent, evidence_digest(db, world.merchant_id, intent["case_id"]))
    return Seen(shown, secrets.token_hex(16), note)


def approve_as(
    stack: Stack,
    world: World,
    person: Person,
    intent_id: UUID,
    seen: Seen | None = None,
    window: int = 0,
    proof: Proof | None = None,
) -> Decision:
    seen = seen or see(stack, world, intent_id)
    with transaction(stack.console, world.merchant_id) as db:
        return approve(
            db, world.merchant_id, intent_id, person.staff_id, seen, sealer(), cancel_window_seconds=window, last=True,
            proof=proof,
        )  # fmt: skip


def claim(stack: Stack, world: World, batch: int = 16) -> list[Claimed]:
    with transaction(stack.worker, world.merchant_id) as db:
        return claim_due(db, world.merchant_id, WORKER, verifier(), batch)


def record(stack: Stack, claimed: Claimed, outcome: Outcome) -> bool:
    with transaction(stack.worker, claimed.merchant_id) as db:
        return record_outcome(db, claimed.merchant_id, claimed.intent_id, claimed.attempt_no, WORKER, outcome)


def start_again(stack: Stack, world: World, brake: str = "pause") -> bool:
    """A manager asks to take a brake off and finance does; False when it is not on."""
    with transaction(stack.console, world.merchant_id) as db:
        if brakes.read_brakes(db, world.merchant_id).since(brake) is None:
            return False
        asked = brakes.ask_release(db, world.merchant_id, brake, world.jonas.staff_id, "It is right again")
    with transaction(stack.console, world.merchant_id) as db:
        return brakes.answer_release(db, world.merchant_id, asked, world.farah.staff_id, granted=True)


def state(stack: Stack, world: World, intent_id: UUID) -> str:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = first(
            db, "SELECT state FROM intents WHERE merchant_id = :m AND intent_id = :i", m=world.merchant_id, i=intent_id
        )
    return str(row["state"]) if row else "absent"


@dataclass(frozen=True)
class Raced:
    """What two callers released together got: results in order, or the exceptions that refused them."""

    results: list[Any]
    refusals: list[BaseException]


def race(*calls: Callable[[], Any]) -> Raced:
    """Releases the calls together from a barrier, each on its own thread (and so on its own connection)."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = []
    refusals: list[BaseException] = []

    def run(call: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results.append(call())
        except (LedgerError, Exception) as refused:  # noqa: BLE001 the test looks at whatever refused
            refusals.append(refused)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Raced(results, refusals)


def count(engine: Engine, world: World, sql: str, **values: Any) -> int:
    """One number from the database as it is now."""
    with transaction(engine, world.merchant_id, read_only=True) as db:
        row = first(db, sql, m=world.merchant_id, **values)
    return int(next(iter(row.values()))) if row else 0
