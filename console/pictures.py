"""A photo as it is stored, by form or API: decoded and written anew by a child process, so nothing but pixels comes in (S58)."""

import hashlib
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from console.photo_child import SEVERAL_FRAMES, TOO_LARGE
from ledger.errors import BadInput
from ledger.evidence import add_photo

MOST_BYTES: Final = 10 * 1024 * 1024
CONTENT_TYPE: Final = "image/jpeg"
_CHILD: Final = Path(__file__).with_name("photo_child.py")
_SECONDS: Final = 10
# Each may take a gibibyte; a third photo waits.
_AT_ONCE: Final = threading.BoundedSemaphore(2)
_REFUSED: Final = {
    TOO_LARGE: "this picture has more than 40 million pixels; send a smaller one",
    SEVERAL_FRAMES: "this picture moves; send a single one",
}
_UNREAD: Final = "this file cannot be read as a JPEG, PNG or WebP picture; send another"


@dataclass(frozen=True)
class Picture:
    """A picture of ours, and the SHA-256 of what was sent."""

    content: bytes
    original_sha256: bytes


def read_picture(content: bytes) -> Picture:
    """What was sent, written anew. Raises BadInput (photo). Call it outside a transaction, as `encoded`."""
    return Picture(encoded(content), hashlib.sha256(content).digest())


def keep_picture(
    db: Connection, merchant_id: UUID, case_id: UUID, picture: Picture, caption: str, actor: str, line_id: UUID | None,
    unit: int | None,
) -> UUID:  # fmt: skip
    """Stores it as evidence; locks and errors are those of `ledger.evidence.add_photo`. `unit` counts from 0."""
    return add_photo(
        db, merchant_id, case_id, picture.content, CONTENT_TYPE, hashlib.sha256(picture.content).digest(),
        picture.original_sha256, caption, actor, line_id, unit,
    )  # fmt: skip


def encoded(content: bytes) -> bytes:
    """The picture in `content` as a JPEG of ours, without anything else the file held. Raises BadInput (photo).

    Takes a second or two: call it outside a transaction.
    """
    if len(content) > MOST_BYTES:
        raise BadInput("photo", "a photo has at most 10 MiB; send a smaller one")
    if not _AT_ONCE.acquire(timeout=_SECONDS):
        raise BadInput("photo", "other photos are being read; send it again in a moment")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-B", str(_CHILD)], input=content, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=_SECONDS, env={}, cwd="/", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BadInput("photo", _UNREAD) from error
    finally:
        _AT_ONCE.release()
    if done.returncode != 0 or not 0 < len(done.stdout) <= MOST_BYTES:
        raise BadInput("photo", _REFUSED.get(done.returncode, _UNREAD))
    return done.stdout
