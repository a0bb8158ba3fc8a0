"""The kill matrix as a page: one table a path, a row a fault, a square a kill; red ones are listed above with what was found."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.killmatrix import Matrix
    from faults.results import Outcome

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f23; --dim: #656d76; --line: #d0d7de; --ground: #fff; --good: #2da44e;
  --none: #9fc5a8; --red: #cf222e; --card: #f6f8fa }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #8d96a0; --line: #30363d; --ground: #0d1117;
  --good: #2ea043; --none: #23512f; --red: #f85149; --card: #161b22 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); max-width: 76rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 0 .25rem } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem } p { margin: .25rem 0 1rem }
.dim { color: var(--dim) }
.totals { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0 }
.totals div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem }
.totals b { display: block; font-size: 1.4rem; font-variant-numeric: tabular-nums }
.totals .bad b { color: var(--red) }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .2rem .6rem .2rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line) }
th { font-weight: 500; white-space: nowrap; width: 14rem }
.cells { line-height: 0 }
.cells i { display: inline-block; width: 14px; height: 14px; margin: 2px; border-radius: 3px; background: var(--good) }
.cells i.none { background: var(--none) } .cells i.red { background: var(--red) }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 .3rem 0 1rem; vertical-align: -1px }
.found { border-left: 4px solid var(--red); padding: .25rem 0 .25rem 1rem; margin: .75rem 0 }
pre { white-space: pre-wrap; margin: 0 }
ol { columns: 2; padding-left: 1.5rem; margin: .25rem 0 .75rem } code { font-size: .85em }
"""


def write(matrix: Matrix, path: Path) -> None:
    """Writes the whole page, which needs nothing beside itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_page(matrix)), encoding="utf-8")


def _page(matrix: Matrix) -> list[str]:
    by_path: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for one in matrix.outcomes:
        by_path[one.cell.path][one.cell.fault].append(one)
    what = f"a sample of {matrix.sample} kills" if matrix.sample else "every point of every path"
    head = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Kill matrix</title><style>{_STYLE}</style><h1>Kill matrix</h1><p class=dim>Each square is one process killed"
        " with SIGKILL at one commit or one call to the provider, started again, and left to its jobs; then our ledger and the"
        " provider were asked. After one point and before the next nothing is written and nobody is called, so one kill is both."
        f" This is {what}; seed {matrix.seed}, commit <code>{escape(matrix.commit)}</code>,"
        f" {matrix.seconds:.0f} seconds.</p>"
    )
    key = (
        "<p class='key dim'><i style='background:var(--good)'></i>one refund, as owed<i style='background:var(--none)'></i>no"
        " refund: refused by name, called back, not approved, or a person has it<i style='background:var(--red)'></i>what may"
        " not be</p>"
    )
    parts = [head, _totals(matrix), key]
    parts += [_found(one) for one in matrix.red]
    for name, faults in by_path.items():
        parts.append(f"<h2>{escape(name)}</h2>{_points(faults)}<table>")
        for fault, outcomes in faults.items():
            squares = "".join(
                map(_square, sorted(outcomes, key=lambda one: -1 if one.cell.fatal is None else one.cell.fatal))
            )
            whole = next((one.ended for one in outcomes if one.cell.fatal is None), "")
            title = "no fault" if fault == "none" else fault.replace("_", " ")
            parts.append(f"<tr><th>{escape(title)}<td class=cells>{squares}<td class=dim>{escape(whole)}")
        unmet = [fault for path, fault in matrix.unmet if path == name]
        parts.append("</table>")
        if unmet:
            parts.append(f"<p class=dim>No call of this path meets: {escape(', '.join(sorted(unmet)))}.</p>")
    return parts


def _totals(matrix: Matrix) -> str:
    kills = [one for one in matrix.outcomes if one.cell.fatal is not None]
    figures = {
        "paths": len({one.cell.path for one in matrix.outcomes}),
        "faults met": len({one.cell.fault for one in matrix.outcomes} - {"none"}),
        "points": matrix.points,
        "kills": len(kills),
        "whole courses": len(matrix.outcomes) - len(kills),
    }
    boxes = "".join(f"<div><b>{number:,}</b>{name}</div>" for name, number in figures.items())
    bad = " class=bad" if matrix.red else ""
    return f"<div class=totals>{boxes}<div{bad}><b>{len(matrix.red):,}</b>red</div></div>"


def _points(faults: dict[str, list[Outcome]]) -> str:
    course = next(
        (one for outcomes in faults.values() for one in outcomes if one.points and one.cell.fatal is None), None
    )
    if course is None:
        return ""
    listed = "".join(f"<li><code>{escape(point)}</code>" for point in course.points)
    return f"<details><summary class=dim>{len(course.points)} points of its plain course</summary><ol>{listed}</ol></details>"


def _square(one: Outcome) -> str:
    kind = " class=red" if not one.good else " class=none" if one.ended.startswith("0 ") else ""
    at = one.cell.point or "not killed"
    told = f"{at} → {one.ended or 'no end'}" + "".join(f"\n{fault}" for fault in one.faults)
    return f'<i{kind} title="{escape(told, quote=True)}"></i>'


def _found(one: Outcome) -> str:
    where = f"{one.cell.path} · {one.cell.fault} · {one.cell.point or 'not killed'}"
    return f"<div class=found><b>{escape(where)}</b><pre>{escape(chr(10).join(one.faults))}</pre></div>"
