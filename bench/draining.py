"""One worker process of a benchmark: says it is ready, drains what is due when told to, and says how long it took.

`python -m bench.draining` in the environment of a worker. It runs the submitter as the schedule does, without the pauses.
"""

import json
import sys
import time
from collections import Counter

import structlog

from jobs import submitter
from jobs.worker import running_worker
from settings import Settings


def main() -> None:
    """Prints two lines of JSON: {} when ready, then what was counted, when it began and ended, and the processor time."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with running_worker(Settings()) as worker:
        while submitter.run_once(worker):
            pass
        print("{}", flush=True)
        sys.stdin.readline()
        counts: Counter[str] = Counter()
        began = ended = time.monotonic()
        used = time.process_time()
        while round_ := submitter.run_once(worker):
            counts.update(round_)
            ended = time.monotonic()
        told = {
            **counts,
            "confirmed": counts["confirmed"],
            "began": began,
            "ended": ended,
            "cpu": time.process_time() - used,
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
