"""`make demo`: one believable shop with its orders, returns and people, running on this machine until Ctrl-C.

A second run keeps what was done. `--reset` forgets it and ends.
"""

import argparse
import shutil
import signal
import sys
import threading
from pathlib import Path

from demo.local_stack import LocalStack, StackError, forget
from demo.people import PASSWORD, PEOPLE
from demo.seed import marker, seed
from demo.server_account import PostgresError

FOLDER = Path(__file__).parents[1] / "var" / "demo"
WEB_PORT = 8000
PROVIDER_PORT = 8012
# The database, the photos and thirty cases take about 150 MB; with less than this it would stop half way.
NEEDED_BYTES = 500_000_000


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; 0 after Ctrl-C, 1 with one sentence when it cannot start."""
    options = _options(arguments)
    try:
        if options.reset:
            return reset(FOLDER)
        return run(options)
    except (StackError, PostgresError) as error:
        print(f"onceback demo: {error}", file=sys.stderr)
        return 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--reset", action="store_true", help="forget what was done in the demo")
    parser.add_argument("--web-port", type=int, default=WEB_PORT)
    parser.add_argument("--provider-port", type=int, default=PROVIDER_PORT)
    return parser.parse_args(arguments)


def reset(folder: Path) -> int:
    """Removes the demo's database, provider file, secrets and logs."""
    forget(folder)
    print("The demo's data is gone. The next `make demo` starts over.")
    return 0


def run(options: argparse.Namespace) -> int:
    """Starts everything, seeds once, prints who can sign in, and waits."""
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(FOLDER.parent).free
    if free < NEEDED_BYTES:
        raise StackError(
            f"The disk has {free // 1_000_000} MB free and the demo needs {NEEDED_BYTES // 1_000_000} MB: make room."
        )
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    unfinished = FOLDER.exists() and not marker(FOLDER).exists()
    stack = LocalStack(FOLDER, options.web_port, options.provider_port, say=say)
    if unfinished:
        say("The last seeding did not end, so it starts over")
        forget(FOLDER)
        stack = LocalStack(FOLDER, options.web_port, options.provider_port, say=say)
    try:
        stack.start_database()
        stack.start_provider()
        seed(stack, say)
        stack.start_web()
        stack.start_worker()
        print(welcome(stack), flush=True)
        return wait(stack, stopping)
    finally:
        print("\nStopping", flush=True)
        stack.stop()
        print("Stopped. What you did is kept; `make demo-reset` forgets it.", flush=True)


def say(line: str) -> None:
    """Progress, a line at a time."""
    print(f"  {line} …", flush=True)


def wait(stack: LocalStack, stopping: threading.Event) -> int:
    """Until Ctrl-C, or until one of the processes ends by itself."""
    while not stopping.wait(1):
        dead = stack.dead()
        if dead is not None:
            raise StackError(f"The {dead} process ended by itself; its log {stack.log(dead)} says why.")
    return 0


def welcome(stack: LocalStack) -> str:
    """What a person needs to begin."""
    width = max(len(person.email) for person in PEOPLE)
    people = "\n".join(f"    {person.email:<{width}}  {person.name}, {person.title}" for person in PEOPLE)
    return f"""
  Onceback is running:  {stack.origin}/

  Sign in as one of these; the password of each is  {PASSWORD}
{people}

  The local payment provider, to make things go wrong:  {stack.provider_url}/_sandbox/
  Ctrl-C stops everything and keeps the data.
"""


if __name__ == "__main__":
    sys.exit(main())
