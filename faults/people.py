"""People, channels and warehouses in a process of their own: each act of the plan by the ordinary command of the ledger.

The process may be killed at any moment. Started again, it repeats the act it was at, as a person presses again; what is
done at the provider by somebody else is not repeated.
"""

import json
import os
import time
from collections.abc import Callable
from mmap import mmap
from typing import Any, Final

from pydantic import SecretStr
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from faults.guards import GUARDS, attempt
from faults.lives import Act
from faults.place import READ_SECONDS, Place
from jobs.stripe_gateway import StripeGateway
from ledger.assessment import work_out_again
from ledger.cases import ReturnRequest, open_return
from ledger.database import transaction
from ledger.errors import LedgerError
from ledger.intents import cancel_before_send
from sandbox.client import SandboxRefusedError
from tests import lives
from tests.world import World

# Done at the provider, by others: at most once.
OUTSIDE: Final = frozenset(("fault", "dashboard", "dispute", "close_dispute", "provider"))
TRIES: Final = 8


class Progress:
    """How many acts each process has done, in memory that all of them share and that outlives each."""

    def __init__(self, processes: int) -> None:
        self._shared = mmap(-1, 8 * processes)
        self._processes = processes

    def __getitem__(self, process: int) -> int:
        return int.from_bytes(self._shared[8 * process : 8 * process + 8], "little")

    def __setitem__(self, process: int, done: int) -> None:
        self._shared[8 * process : 8 * process + 8] = done.to_bytes(8, "little")

    @property
    def total(self) -> int:
        return sum(self[process] for process in range(self._processes))


class People:
    """One process's acts. `tell` writes a line of what came of each, whole or not at all."""

    def __init__(self, place: Place, tell: int) -> None:
        self.place, self.world = place, place.world
        keys = {self.world.slug: SecretStr(place.sandbox.secret_key)}
        self.gateway = StripeGateway(keys, place.sandbox.base_url, 1, READ_SECONDS)
        self._tell = tell
        self._acts: dict[str, Callable[..., str]] = {
            "fault": self.fault, "ask": self.ask, "arrive": self.arrive, "approve": self.approve, "withdraw": self.withdraw,
            "again": self.again, "dashboard": self.dashboard, "dispute": self.dispute, "close_dispute": self.close_dispute,
            "provider": self.provider, "rogue": self.rogue,
        }  # fmt: skip

    def go(self, acts: list[Act], progress: Progress, process: int) -> None:
        """From where this process was."""
        while (at := progress[process]) < len(acts):
            act = acts[at]
            if act.name in OUTSIDE:
                progress[process] = at + 1
            self.do(act)
            progress[process] = at + 1

    def do(self, act: Act) -> None:
        """One act; a database that is busy or cut off is asked again."""
        for tried in range(TRIES):
            try:
                told = self._acts[act.name](act, **act.wishes)
                break
            except LedgerError as refused:
                told = type(refused).__name__
                break
            except SandboxRefusedError:
                told = "refused there"
                break
            except (DBAPIError, PoolTimeout):
                time.sleep(0.05 * 2**tried)
        else:
            told = "gave up"
        os.write(self._tell, json.dumps({"act": act.name, "told": told, **self._more(act)}).encode() + b"\n")

    @staticmethod
    def _more(act: Act) -> dict[str, Any]:
        return {key: act.wishes[key] for key in ("kind", "guard") if key in act.wishes}

    # Channels and warehouses

    def ask(self, act: Act, channel: str, lines: list[list[Any]], relation: Any = None) -> str:
        """A customer asks in a channel."""
        asked = ReturnRequest(
            order_ref=_ref(act), lines=tuple((ref, count) for ref, count in lines), reason="size", channel=channel,
            reference=f"{channel}-{act.life}", actor=self.world.chat.actor, relation=relation,
        )  # fmt: skip
        with transaction(self.place.stack.console, self.world.merchant_id) as db:
            return open_return(db, self.world.merchant_id, asked).status

    def arrive(self, act: Act, lines: list[list[Any]]) -> str:
        """The parcel comes in, for the newest case of the order."""
        cases = self._cases(act)
        if not cases:
            return "no case"
        lives.arrive(self.place.stack, self.world, cases[-1]["case_id"], *((ref, count) for ref, count in lines))
        return "arrived"

    # Staff

    def approve(self, act: Act, people: list[str], window: int) -> str:
        """All of them have the same sheets open and press at once."""
        waiting = self._intents(act, "proposed")
        won = 0
        for row in waiting:
            try:
                seen = [lives.see(self.place.stack, self.world, row["intent_id"]) for _ in people]
            except AssertionError:
                continue
            raced = lives.race(*(
                lambda person=person, shown=shown, intent=row["intent_id"]: lives.approve_as(
                    self.place.stack, self.world, person, intent, shown, window
                )
                for person, shown in zip(map(self._person, people), seen, strict=True)
            ))  # fmt: skip
            busy = [one for one in raced.refusals if not isinstance(one, LedgerError)]
            if busy and not raced.results:
                raise busy[0]
            won += len(raced.results)
        return f"approved {won} of {len(waiting)}"

    def withdraw(self, act: Act, person: str) -> str:
        """Somebody calls it back; the worker may be quicker."""
        called = 0
        for row in self._intents(act, "approved", "held"):
            with transaction(self.place.stack.console, self.world.merchant_id) as db:
                cancel_before_send(db, self.world.merchant_id, row["intent_id"], self._person(person).actor, "not_yet")
            called += 1
        return "called back" if called else "too late"

    def again(self, act: Act, person: str) -> str:
        """Somebody asks for what is still owed."""
        for case in self._cases(act):
            if case["closed_at"] is None:
                with transaction(self.place.stack.console, self.world.merchant_id) as db:
                    work_out_again(db, self.world.merchant_id, case["case_id"], self._person(person).actor)
        return "worked out"

    # The provider, its dashboard and the bank

    def fault(self, act: Act, kind: str, options: dict[str, Any]) -> str:
        self.place.sandbox.fault(kind, path="/v1/refunds", payment_intent=self._payment(act), **options)
        return "queued"

    def dashboard(self, act: Act, minor: int) -> str:
        self.place.sandbox.dashboard_refund(self._payment(act), minor)
        return "made"

    def dispute(self, act: Act, *, inquiry: bool) -> str:
        self.place.sandbox.open_dispute(self._payment(act), inquiry=inquiry)
        return "opened"

    def close_dispute(self, act: Act, outcome: str) -> str:
        dispute = self._disputes().get(self._payment(act))
        if dispute is None:
            return "there is none"
        inquiry = dispute["status"].startswith("warning")
        self.place.sandbox.close_dispute(dispute["id"], "warning_closed" if inquiry else outcome)
        return "closed"

    def provider(self, act: Act, status: str) -> str:
        """A refund of this payment comes to another end: settles, or is sent back by the bank."""
        refunds = self.place.sandbox.money(self._payment(act))["refunds"]
        ours = [
            one for one in refunds if one["metadata"] and one["status"] in ("pending", "requires_action", "succeeded")
        ]
        if not ours or ours[-1]["status"] == status:
            return "nothing to change"
        self.place.sandbox.change_refund(ours[-1]["id"], status)
        return status

    # The second writer

    def rogue(self, act: Act, guard: str) -> str:
        """A build with a fault looks for an intent it likes, of this life first."""
        of = GUARDS[guard]
        found = self.place.as_administrator(
            "SELECT i.* FROM intents i JOIN orders o USING (merchant_id, order_id) WHERE i.state = ANY(%s)"
            " ORDER BY o.external_ref <> %s, i.number DESC LIMIT 1", list(of.wants), _ref(act),
        )  # fmt: skip
        if not found:
            return "found nothing"
        return attempt(of, self.place, self.gateway, found[0])

    # What is so

    def _person(self, name: str) -> Any:
        world: World = self.world
        return getattr(world, name)

    def _cases(self, act: Act) -> list[dict[str, Any]]:
        return self.place.as_administrator(
            "SELECT c.* FROM cases c JOIN orders o USING (merchant_id, order_id) WHERE o.external_ref = %s ORDER BY c.number",
            _ref(act),
        )

    def _intents(self, act: Act, *states: str) -> list[dict[str, Any]]:
        return self.place.as_administrator(
            "SELECT i.* FROM intents i JOIN orders o USING (merchant_id, order_id) WHERE o.external_ref = %s"
            " AND i.state = ANY(%s) ORDER BY i.number", _ref(act), list(states),
        )  # fmt: skip

    def _payment(self, act: Act) -> str:
        (row,) = self.place.as_administrator(
            "SELECT c.payment_intent_ref AS ref FROM captures c JOIN orders o USING (merchant_id, order_id)"
            " WHERE o.external_ref = %s", _ref(act),
        )  # fmt: skip
        return str(row["ref"])

    def _disputes(self) -> dict[str, dict[str, Any]]:
        """The disputes at the provider that are open, by payment."""
        url = f"{self.place.sandbox.base_url}/v1/disputes?limit=100"
        listed = self.place.sandbox._session.get(url, auth=(self.place.sandbox.secret_key, ""), timeout=10).json()[
            "data"
        ]
        return {one["payment_intent"]: one for one in listed if one["status"] not in ("won", "lost", "warning_closed")}


def _ref(act: Act) -> str:
    return f"LIFE-{act.life}"
