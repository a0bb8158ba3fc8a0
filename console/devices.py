"""Browsers a person has signed in from before: a signed cookie of 90 days, good for that person only (S2)."""

import secrets
from typing import Final
from uuid import UUID

from flask import Response, current_app, request
from itsdangerous import BadSignature, URLSafeTimedSerializer

DEVICE_COOKIE: Final = "__Host-device"
DEVICE_DAYS: Final = 90


def known_device(staff_id: UUID) -> str | None:
    """The id of this browser when this very person has signed in from it in the last 90 days."""
    shown = request.cookies.getlist(DEVICE_COOKIE)
    if len(shown) != 1:
        return None
    try:
        staff, device = _signer().loads(shown[0], max_age=DEVICE_DAYS * 86400)
    except (BadSignature, ValueError, TypeError):
        return None
    return f"{staff}:{device}" if staff == str(staff_id) else None


def remember_device(response: Response, staff_id: UUID) -> None:
    """This browser is known to belong to the person from now on."""
    text = _signer().dumps([str(staff_id), secrets.token_urlsafe(16)])
    response.set_cookie(
        DEVICE_COOKIE, str(text), max_age=DEVICE_DAYS * 86400, secure=True, httponly=True, samesite="Lax", path="/"
    )


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(current_app.config["DEVICE_KEY"], salt="device")
