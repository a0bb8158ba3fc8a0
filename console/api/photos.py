"""`POST /api/v1/photos`: one picture of what comes back. It is read and written anew as the console's own form does (S58)."""

import base64
import binascii
from typing import Final
from uuid import UUID

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.bodies import MAX_PHOTO_BODY_BYTES, PhotoBody, read_body
from console.api.idempotency import answered_before
from console.api.reports import carry_on, named_case, reported
from console.api.tokens import scoped, working
from console.pictures import Picture, keep_picture, read_picture
from ledger.api_tokens import Channel
from ledger.errors import BadInput
from ledger.events import LockedCase, lock_order_and_case
from ledger.queries.orders import lines_at_bench

_OPERATION: Final = "add_a_photo"


@scoped("evidence:write")
def add_a_photo(channel: Channel) -> Response:
    """201 stored, once for each key."""
    body = read_body(PhotoBody, channel, limit=MAX_PHOTO_BODY_BYTES)
    answered = answered_before(channel, _OPERATION, body)
    if answered is not None:
        carry_on(channel, answered)
        return answered
    # Reading a picture takes a second: nobody makes us do it for a case that is not theirs, and nothing is held meanwhile.
    with working(channel, read_only=True) as db:
        _place(db, channel, named_case(db, channel, body, own=True), body)
    picture = _read(body.photo)

    def record(db: Connection, case_id: UUID) -> LockedCase:
        place = _place(db, channel, case_id, body)
        keep_picture(db, channel.merchant_id, case_id, picture, body.caption.strip(), channel.actor, *place)
        return lock_order_and_case(db, channel.merchant_id, case_id)

    return reported(channel, _OPERATION, body, record, own=True)


def _place(db: Connection, channel: Channel, case_id: UUID, body: PhotoBody) -> tuple[UUID | None, int | None]:
    """The line and unit, from 0, that the photo is of. Raises BadInput for units that the case does not hold."""
    if body.line is None:
        if body.unit is not None:
            raise BadInput("unit", "name the line of this unit")
        return None, None
    line = next((one for one in lines_at_bench(db, channel.merchant_id, case_id) if one.line_ref == body.line), None)
    if line is None:
        raise BadInput("line", "this case holds no units of that line")
    if body.unit is None:
        return line.line_id, None
    if not any(a < body.unit <= b for a, b in line.held):
        raise BadInput("unit", "this case does not hold that unit of the line")
    return line.line_id, body.unit - 1


def _read(text: str) -> Picture:
    try:
        return read_picture(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise BadInput("photo", "is not base64: send the file's bytes in the alphabet of RFC 4648, padded") from None


def add_to(blueprint: Blueprint) -> None:
    """Adds the route of photos."""
    blueprint.add_url_rule("/photos", "add_a_photo", add_a_photo, methods=["POST"], provide_automatic_options=False)
