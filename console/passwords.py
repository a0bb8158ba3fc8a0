"""Passwords (S1, S2): which are taken, and hashing that cannot be turned into an attack on memory."""

import re
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

SHORTEST, LONGEST = 15, 128
MEMORY_KIB: Final = 64 * 1024
PASSES: Final = 3
# 8 x 64 MiB is what one process may take for hashing, however many sign-ins arrive at once.
AT_ONCE: Final = 8
WAIT_SECONDS: Final = 5
PRODUCT_WORDS: Final = (
    "onceback",
    "refund",
    "refunds",
    "return",
    "returns",
    "console",
    "password",
    "passwort",
    "welcome",
)
# What is left of a password without the words everybody would guess has to be this long.
LEAST_OWN_CHARACTERS: Final = 8

_hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)
_slots = threading.BoundedSemaphore(AT_ONCE)

# Of lists of leaked passwords, those of 15 characters and more that head them; the rules below refuse their kin.
_LEAKED: Final = frozenset(Path(__file__).with_name("leaked_passwords.txt").read_text(encoding="ascii").split())


class Busy(Exception):
    """Too many sign-ins are being checked at this moment."""


def password_fault(password: str, words: tuple[str, ...] = ()) -> str:
    """What is wrong with a new password, as a sentence; "" when it is taken. `words`: names of person and merchant."""
    if len(password) < SHORTEST:
        return f"Use at least {SHORTEST} characters. A sentence only you would write is good."
    if len(password) > LONGEST:
        return f"Use at most {LONGEST} characters."
    plain = unicodedata.normalize("NFKC", password).casefold()
    letters = re.sub(r"[\W_]+", "", plain)
    if letters in _LEAKED or letters.rstrip("0123456789") in _LEAKED:
        return "This password is on lists of leaked passwords. Choose another."
    if len(set(plain)) < 6 or _repeats(letters) or _runs(letters):
        return "This password repeats or counts. Choose another."
    own = letters
    for word in sorted(_parts((*words, *PRODUCT_WORDS)), key=len, reverse=True):
        own = own.replace(word, "")
    if len(own) < LEAST_OWN_CHARACTERS:
        return "This password is made of names that others know: yours, your shop's or the console's. Choose another."
    return ""


def hash_password(password: str) -> str:
    """Argon2id of the password as typed. Raises Busy."""
    with _slot():
        return _hasher.hash(password)


def matches(stored: str | None, password: str) -> bool:
    """Whether `password` is the stored one. Without a stored hash it takes the same work and is False. Raises Busy."""
    with _slot():
        try:
            _hasher.verify(stored or _nobody(), password)
        except (Argon2Error, InvalidHashError):
            return False
    return stored is not None


def outdated(stored: str) -> bool:
    """Whether the hash was made with other parameters than today's."""
    return _hasher.check_needs_rehash(stored)


@contextmanager
def _slot() -> Iterator[None]:
    if not _slots.acquire(timeout=WAIT_SECONDS):
        raise Busy(Busy.__doc__)
    try:
        yield
    finally:
        _slots.release()


@cache
def _nobody() -> str:
    return _hasher.hash("no account has this password")


def prepare() -> None:
    """Makes the hash that unknown accounts are compared with, so that the first of them takes no longer."""
    _nobody()


def _parts(words: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    for text in words:
        pieces = [piece for piece in re.split(r"[\W_]+", unicodedata.normalize("NFKC", text).casefold()) if piece]
        found.update(piece for piece in [*pieces, "".join(pieces)] if len(piece) >= 3)
    return found


def _repeats(text: str) -> bool:
    """Whether the text is one short piece over and over."""
    return any(text == (text[:size] * len(text))[: len(text)] for size in range(1, len(text) // 2 + 1))


def _runs(text: str) -> bool:
    """Whether it only counts or walks the alphabet, up or down."""
    steps = {ord(b) - ord(a) for a, b in pairwise(text)}
    return len(text) > 1 and len(steps) == 1 and steps <= {1, -1}
