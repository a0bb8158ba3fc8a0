"""Canonical JSON (RFC 8785) and the SHA-256 digests made from it.

Two documents with the same content give the same bytes on every machine. Refused with `CanonicalError`, naming the
place: whole numbers beyond ±(2^53−1), which other readers would round; floats, because money is never one; lone
surrogates, which are not text; and anything that is not JSON.

Amounts in a *fingerprint* (what a person approves) are strings, so that no reader can round them. That is the caller's
duty: this module cannot know which numbers are amounts. Derivation records carry amounts as whole numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785

MAX_SAFE = 2**53 - 1


class CanonicalError(ValueError):
    """The document cannot be written as canonical JSON; the message names the place and what to give instead."""


def canonical_bytes(document: Mapping[str, Any] | list[Any]) -> bytes:
    """RFC 8785 bytes of a document of dict, list, str, int, bool and None; `CanonicalError` for anything else."""
    _refuse_foreign(document, "")
    try:
        return rfc8785.dumps(document)
    except rfc8785.CanonicalizationError as error:
        raise CanonicalError(f"not canonical JSON: {error}") from error


def digest(document: Mapping[str, Any] | list[Any], tag: str = "") -> str:
    """ "sha256:" and the hex SHA-256 of the canonical bytes; a `tag` keeps digests of different kinds apart."""
    return digest_bytes(canonical_bytes(document), tag)


def digest_bytes(content: bytes, tag: str = "") -> str:
    """ "sha256:" and the hex SHA-256 of `tag`, a zero byte and `content`; without a tag, of `content` alone."""
    prefix = tag.encode() + b"\0" if tag else b""
    return "sha256:" + hashlib.sha256(prefix + content).hexdigest()


def _refuse_foreign(value: object, place: str) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii():  # type: ignore[attr-defined]
            _refuse_surrogates(value, place)  # type: ignore[arg-type]
    elif kind is int:
        if not -MAX_SAFE <= value <= MAX_SAFE:  # type: ignore[operator]
            raise CanonicalError(f"{place or 'the number'} is beyond 2^53-1: give it as text")
    elif kind is dict:
        for key, member in value.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                raise CanonicalError(f"{place or 'the document'} has a key that is not text")
            _refuse_surrogates(key, place)
            _refuse_foreign(member, f"{place}.{key}" if place else key)
    elif kind is list or kind is tuple:
        for index, member in enumerate(value):  # type: ignore[arg-type]
            _refuse_foreign(member, f"{place}[{index}]")
    elif value is not None and kind is not bool:
        raise CanonicalError(f"{place or 'the document'} holds a {kind.__name__}: give whole numbers or text")


def _refuse_surrogates(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        where = place or "a key"
        raise CanonicalError(f"{where} holds a lone surrogate, which is not text: send it as UTF-8") from None
