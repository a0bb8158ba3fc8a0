"""Templates are compiled once for all web processes of a test run: each process of its own would do it all again."""

from types import CodeType

from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class _Compiled(BytecodeCache):
    """Keeps code under the name of its template and the digest of its source."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._code[bucket.key, bucket.checksum] = bucket.code


_compiled = _Compiled()


def keep_compiled(app: Flask) -> Flask:
    """The same application, whose templates other applications may have compiled."""
    app.jinja_env.bytecode_cache = _compiled
    return app
