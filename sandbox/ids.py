"""Identifiers in Stripe's look: a prefix and letters and digits, unguessable enough never to meet twice."""

import hashlib
import os

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


_LETTERS = bytes(ord(_ALPHABET[number % len(_ALPHABET)]) for number in range(256))


def new_id(prefix: str, length: int = 22) -> str:
    """A new identifier such as ``re_3Qx…``; ``length`` counts the part after the prefix."""
    return prefix + os.urandom(length).translate(_LETTERS).decode()


def account_id(secret: str) -> str:
    """The account a test key belongs to: the same words after ``sk_test_`` or ``rk_test_`` give the same account."""
    words = secret.split("_test_", 1)[-1]
    return "acct_" + hashlib.sha256(words.encode()).digest()[:16].translate(_LETTERS).decode()
