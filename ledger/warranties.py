"""A warranty claim: the shop's own promise after the law's time for faults, worked out by the policy's `warranty` (ENTITLEMENT §5).

A case of its own kind that holds its units like a return. While the law's own time runs it pays nothing: a return does.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.assessment import reassess
from ledger.case_facts import FAULT, Stated, check_happened, insert_fact
from ledger.cases import Opened, ReturnRequest, open_return
from ledger.database import first
from ledger.errors import BadInput, WrongState
from ledger.events import lock_order_and_case
from ledger.room import read_room

_LINE: Final = """
    SELECT line_id, quantity FROM order_lines WHERE merchant_id = :m AND order_id = :o AND line_ref = :ref AND kind = 'goods'
"""


def open_warranty(
    db: Connection, merchant_id: UUID, request: ReturnRequest, failed_at: datetime, order_id: UUID
) -> Opened:
    """Opens the case of a warranty on one line, whose fault showed at `failed_at` (aware); units that an open case holds are that
    case's. Locks as `open_return`. Raises what it raises, and BadInput (line, happened_at), WrongState.
    """
    if len(request.lines) != 1:
        raise BadInput("line", "a warranty is claimed line by line")
    ((ref, _),) = request.lines
    room = read_room(db, merchant_id, order_id, [ref], lock=True, reason="faulty")
    line = room.line(ref)
    if line is None or line.kind != "goods":
        raise BadInput("line", f"this order has no goods line {ref!r}")
    if room.terms.of_line(ref).warranty.method == "none":
        raise BadInput("line", "the policy gives no warranty: open a return for the fault")
    opened = open_return(db, merchant_id, replace(request, kind="warranty", reason="faulty"))
    if opened.status == "joined":
        raise WrongState(f"Case C-{opened.number} holds these units already. Go on there.")
    case = lock_order_and_case(db, merchant_id, opened.case_id)
    check_happened(db, case, failed_at)
    row = first(db, _LINE, m=merchant_id, o=order_id, ref=ref)
    stated = Stated(FAULT, request.channel, request.actor, "showed", ref, happened_at=failed_at)
    insert_fact(db, case, stated, row, said="showed")
    reassess(db, case, request.actor)
    return opened
