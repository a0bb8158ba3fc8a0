"""Identifiers in Stripe's look: a prefix and letters and digits, unguessable enough never to meet twice."""

import hashlib
import os

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _base62(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, rest = divmod(number, 62)
        letters.append(_ALPHABET[rest])
    return "".join(letters)


def new_id(prefix: str, length: int = 22) -> str:
    """A new identifier such as ``re_3Qx…``; ``length`` counts the part after the prefix."""
    return prefix + _base62(int.from_bytes(os.urandom(18), "big"), length)


def account_id(secret: str) -> str:
    """The account a test key belongs to: the same words after ``sk_test_`` or ``rk_test_`` give the same account."""
    words = secret.split("_test_", 1)[-1]
    return "acct_" + _base62(int.from_bytes(hashlib.sha256(words.encode()).digest(), "big"), 16)
