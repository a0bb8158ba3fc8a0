"""Work done in a process of its own, which may be killed: what it said until then, and how it ended."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ended:
    """What a child said, line by line (JSON), and whether it was killed. `error` is the traceback of one that raised."""

    said: list[Any]
    killed: bool
    error: str


Say = Callable[[Any], None]


def in_child(work: Callable[[Say], Any]) -> Ended:
    """Runs `work` in a fork of this process and waits for its end; what it returns is said last.

    The caller has no thread but its own.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        be_silent()
        _be_the_child(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    said = [json.loads(line) for line in lines]
    error = "".join(one["error"] for one in said if isinstance(one, dict) and "error" in one)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and not error and status != 0:
        error = f"the child ended with status {status}"
    return Ended(said, killed, error)


def be_silent(*outputs: int) -> None:
    """This process prints nothing more (default: on standard output): the log of one about to be killed is nobody's."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in outputs or (1,):
        os.dup2(nowhere, output)
    os.close(nowhere)


def _be_the_child(work: Callable[[Say], Any], writing: int) -> None:
    def say(what: Any) -> None:
        # One write of less than a pipe's atomic size: whole, or not at all when the kill comes first.
        os.write(writing, json.dumps(what).encode() + b"\n")

    status = 0
    try:
        say(work(say))
    except BaseException:  # noqa: BLE001 - told to the parent, which decides
        say({"error": traceback.format_exc()[-3000:]})
        status = 1
    finally:
        # No handler of the parent's runs here, and no connection of the parent's is closed.
        os._exit(status)
