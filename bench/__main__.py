"""`make bench`: prints the table and writes build/bench.json. `ARGS="--only F1,F6"` measures some of it."""

import argparse
import sys
from pathlib import Path

from bench.cpu import print_cpu
from bench.figures import FIGURES
from bench.measure import Result, write
from bench.work import Bench

OUT = Path("build/bench.json")


def main() -> int:
    """Runs every measure that is asked for, prints each as it is done, writes the file. Nothing fails by time."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", default=",".join(FIGURES), help="figures with commas between, as F1,F6")
    parser.add_argument(
        "--settled", type=int, default=1_000_000, help="how many settled refunds F8 looks among, and F15 compares"
    )
    parser.add_argument("--audited", type=int, default=100_000, help="how many entitlements F14 derives again")
    parser.add_argument("--cpu", action="store_true", help="only the processor time of an approval, on Linux")
    parser.add_argument(
        "--cases", type=int, default=1_000_000, help="how many cases F9, F10, F11 and F17 are asked among"
    )
    given = parser.parse_args()
    sizes = {"F8": given.settled, "F14": given.audited, "F15": given.settled}
    sizes |= dict.fromkeys(("F9", "F10", "F11", "F16", "F17"), given.cases)
    wanted = [name.strip().upper() for name in given.only.split(",")]
    if unknown := [name for name in wanted if name not in FIGURES]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    if given.cpu:
        with Bench(Path("build/bench")) as bench:
            print_cpu(bench)
        return 0
    results: list[Result] = []
    with Bench(Path("build/bench")) as bench:
        for name in wanted:
            for result in FIGURES[name](bench, sizes[name]) if name in sizes else FIGURES[name](bench):
                results.append(result)
                print(result.line(), flush=True)
            write(results, OUT)
    print(f"  written to {OUT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
