"""What the people and systems of the replay do: ask twice, book in, approve together, and pull a plug once."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from demo.local_stack import LocalStack
from demo.merchant import Merchant
from demo.people import PASSWORD
from demo.replay_http import Api, Reviewer, new_key
from demo.replay_month import Answered, Month, Part
from demo.roles import CONSOLE
from ledger.database import connect, first, rows, transaction

REVIEWERS: Final = {"desk": ("priya", "tobias"), "manager": ("jonas", "mara")}
# Every unknown outcome is looked up within seconds and settled by the second or third look.
QUIET_SECONDS: Final = 600


@dataclass
class Channels:
    """Chat, voice and warehouse."""

    chat: Api
    voice: Api
    warehouse: Api

    @classmethod
    def of(cls, stack: LocalStack, merchant: Merchant) -> Self:
        """The three systems with their tokens."""
        chat, voice, warehouse = (Api(stack.origin, merchant.tokens[name]) for name in ("chat", "voice", "warehouse"))
        return cls(chat, voice, warehouse)

    def ask_twice(self, part: Part) -> Answered:
        """Both channels ask for the same return, released together; who is asked back answers as the customer would.

        The customer knows whether this return was already taken: then it is the existing request, else a separate item.
        """
        barrier = threading.Barrier(2)
        keys = {"chat": new_key(), "voice": new_key()}

        def ask(name: str) -> tuple[int, dict[str, Any]]:
            barrier.wait()
            return self._api(name).post("/returns", keys[name], part.body(name, None))

        with ThreadPoolExecutor(2) as pool:
            answers = dict(zip(keys, pool.map(ask, keys), strict=True))
        taken = next((body["case"] for status, body in answers.values() if status in (200, 201)), None)
        for name, (status, body) in answers.items():
            if status == 409 and body.get("code") == "ask-customer":
                relation = "existing" if taken else "separate"
                answers[name] = self._api(name).post("/returns", new_key(), part.body(name, relation))
                taken = taken or answers[name][1].get("case")
        return Answered(part, taken, (_word(*answers["chat"]), _word(*answers["voice"])))

    def _api(self, name: str) -> Api:
        return self.chat if name == "chat" else self.voice


def _word(status: int, body: dict[str, Any]) -> str:
    if status in (200, 201):
        return str(body["result"])
    return str(body.get("code", status))


def book_in(channels: Channels, case: str, month: Month) -> None:
    """The warehouse reports every unit of a case as received, as new."""
    lines = month.units_of(case)
    body = {
        "case": case, "parcel": f"parcel {case}",
        "lines": [{"line": line, "received": units, "grades": [{"units": units, "grade": "A"}]} for line, units in lines.items()],
    }  # fmt: skip
    status, answer = channels.warehouse.post("/receipts", new_key(), body)
    if status not in (200, 201):
        raise RuntimeError(f"the receipt of {case} was refused: {answer}")


@dataclass
class Interruption:
    """Pulls one plug once, when a third of the refunds are decided, while requests are under way, and puts it back."""

    stack: LocalStack
    kind: str
    say: Callable[[str], None]
    thread: threading.Thread | None = None

    def maybe(self, share: float) -> None:
        """Called with the share of refunds that is decided; acts the first time it passes a third, in another thread."""
        if self.thread is None and self.kind != "none" and share >= 1 / 3:
            self.thread = threading.Thread(target=self._pull)
            self.thread.start()

    def over(self) -> bool:
        """Whether the plug is back, or there was none to pull."""
        return self.kind == "none" or (self.thread is not None and not self.thread.is_alive())

    def _pull(self) -> None:
        # Not at a seam between two requests, but somewhere inside one.
        time.sleep(0.137)
        self.say(f"Pulling the plug of the {self.kind}")
        match self.kind:
            case "worker":
                self.stack.kill("worker")
                self.stack.start_worker()
            case "web":
                self.stack.kill("web")
                self.stack.start_web()
            case "database":
                self.stack.postgres.kill_immediate()
                self.stack.postgres.start()


def approve_all(stack: LocalStack, merchant: Merchant, slug: str, interruption: Interruption) -> None:
    """For each proposed refund two reviewers open the page and press the button at the same time."""
    engine = connect(stack.role_urls[CONSOLE], pool_size=4, name="replay")
    people = {
        name: Reviewer(stack.origin, slug, f"{name}@hollowbrook.example", PASSWORD)
        for pair in REVIEWERS.values() for name in pair
    }  # fmt: skip
    proposed = _insist(lambda: _proposed(engine, merchant.merchant_id))
    for number, (intent_id, route) in enumerate(proposed, 1):
        if not _together(people, REVIEWERS[route], intent_id) and not _together(
            people, REVIEWERS["manager"], intent_id
        ):
            raise RuntimeError(f"nobody may approve {intent_id}")
        interruption.maybe(number / len(proposed))
    engine.dispose()


def _together(people: dict[str, Reviewer], names: tuple[str, ...], intent_id: UUID) -> bool:
    """Both press at once; whether it is decided. What is above the desk is handed to the managers."""
    with ThreadPoolExecutor(len(names)) as pool:
        return all(pool.map(lambda name: people[name].approve(intent_id), names))


def _proposed(engine: Engine, merchant_id: UUID) -> list[tuple[UUID, str]]:
    with transaction(engine, merchant_id, read_only=True) as db:
        found = rows(db, "SELECT intent_id, route FROM intents WHERE state = 'proposed' ORDER BY number")
    return [(row["intent_id"], row["route"]) for row in found]


def pay_out(stack: LocalStack, merchant: Merchant, interruption: Interruption) -> None:
    """Waits until no refund is under way any more. Raises RuntimeError when that takes longer than it can."""
    engine = connect(stack.role_urls[CONSOLE], pool_size=2, name="replay")
    deadline = time.monotonic() + QUIET_SECONDS
    while (left := _insist(lambda: _under_way(engine, merchant.merchant_id))) > 0 or not interruption.over():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{left} refunds are still under way after {QUIET_SECONDS} s")
        interruption.maybe(1)
        time.sleep(0.5)
    engine.dispose()


def _under_way(engine: Engine, merchant_id: UUID) -> int:
    with transaction(engine, merchant_id, read_only=True) as db:
        row = first(
            db, "SELECT count(*) AS n FROM intents WHERE state IN ('approved', 'submitting', 'unknown', 'pending')"
        )
    return int(row["n"]) if row else 0


def _insist(read: Callable[[], Any]) -> Any:
    """Reads again while the database is coming back."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return read()
        except DBAPIError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
