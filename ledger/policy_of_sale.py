"""Which version decides a case: chosen by stored facts of its sale, and kept from then on (ENTITLEMENT §8).

Terms are those of the time of the sale (or of the request, where they say so), routes and signals those of today. What is
missing, over, not begun, unreadable or not the only one decides nothing: NoPolicy, and a person looks.
"""

import json
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows
from ledger.policies import NoPolicy, Policy, PolicyDocument, as_policy, of_before, policy_terms
from ledger.policy_choice import About, Candidate, choose
from ledger.policy_terms import PolicyTerms, Routes, Select, TermsOfLines


@dataclass(frozen=True)
class Asked:
    """A return whose policy is looked for. `lines` are references of its order's lines, none: all of them. It is asked for now
    where `opened_at` is None, and being opened where `case_id` is. `worth`: minor units of it on a line, which say what policy
    decides the largest part; None: all of the line."""

    merchant_id: UUID
    order_id: UUID
    placed_at: datetime
    lines: Sequence[str] = ()
    reason: str = "other"
    opened_at: datetime | None = None
    case_id: UUID | None = None
    worth: Callable[[str], int] | None = None


@dataclass(frozen=True)
class Deciding:
    """`options`: the version that decides with the terms to derive by; more with `better_of`, of which the larger sum counts. Where
    several policies decide a return by category, the version is that of its largest part and the terms have all of them.

    `today`: the versions whose routes and signals count; none: there is none, and a manager decides. `signals`: whether signs of
    risk are looked for.
    """

    options: tuple[tuple[Policy, PolicyTerms], ...]
    today: tuple[Policy, ...]
    signals: bool


# `kept` is the version that decided the case before; `kept_for` its lines, where several did.
_IN_FORCE: Final = """
    SELECT p.policy_id, p.version, p.document, p.effective @> CAST(:placed AS timestamptz) AS at_sale,
        p.effective @> coalesce(CAST(:opened AS timestamptz), now()) AS at_request, p.effective @> now() AS today,
        kept.parts IS NULL AND (p.policy_id, p.version) IS NOT DISTINCT FROM (kept.policy_id, kept.policy_version) AS kept,
        (SELECT part->'lines' FROM jsonb_array_elements(kept.parts) part
            WHERE part->>'policy' = p.policy_id || '@' || p.version) AS kept_for
    FROM policies p LEFT JOIN LATERAL (SELECT e.policy_id, e.policy_version, e.record->'policies' AS parts FROM entitlements e
        WHERE e.merchant_id = :m AND e.case_id = :c ORDER BY e.n DESC LIMIT 1) kept ON true
    WHERE p.merchant_id = :m AND (p.effective @> CAST(:placed AS timestamptz) OR p.effective @> CAST(:opened AS timestamptz)
        OR p.effective @> now() OR (p.policy_id, p.version) = (kept.policy_id, kept.policy_version)
        OR kept.parts @> jsonb_build_array(jsonb_build_object('policy', p.policy_id || '@' || p.version)))
    ORDER BY p.policy_id, p.version
"""


def policy_of_sale(db: Connection, asked: Asked) -> Deciding:
    """The version that decides a return, or decided it before; several, where its lines are of several categories. Locks nothing.
    Raises NoPolicy: nothing decides a return of which something has no policy."""
    found = rows(
        db, _IN_FORCE, m=asked.merchant_id, c=asked.case_id, placed=asked.placed_at, opened=asked.opened_at
    )  # fmt: skip
    deciding: dict[tuple[str, ...], Part] = {}
    for about, lines in _groups(db, asked, found):
        part = _deciding(db, asked, found, about, lines)
        key = (*(one.cited for one, _ in part.options), "today", *(one.cited for one in part.today))
        deciding[key] = Part((*deciding[key].lines, *lines) if key in deciding else lines, part)
    if len(deciding) == 1:
        return next(iter(deciding.values())).deciding
    return together(list(deciding.values()), asked.worth)


def _deciding(
    db: Connection, asked: Asked, found: Sequence[RowMapping], about: About | None, lines: tuple[str, ...]
) -> Deciding:
    """What decides the lines of one category."""
    kept = _kept(found, lines)
    of_sale = kept or _chosen(db, asked, _of(found, "at_sale"), about)
    options = {of_sale.cited: (of_sale, policy_terms(of_sale))}
    basis = options[of_sale.cited][1].terms_basis
    if basis != "at_sale" and kept is None:
        of_request = _chosen(db, asked, _of(found, "at_request"), about)
        later = {of_request.cited: (of_request, policy_terms(of_request))}
        options = later if basis == "at_request" else options | later
    today = _today(db, asked, _of(found, "today"), options, about)
    looked_for = today is not None and ("signals" in today.document or not of_before(today.document))
    routed = tuple((one, _routed(said, one, today)) for one, said in options.values())
    return Deciding(routed, (today,) if today is not None else (), looked_for)


def pay_within(db: Connection, asked: Asked) -> timedelta:
    """From opening to the due time, of several the shortest; that of an empty policy where none decides, for somebody has to look
    by then too."""
    try:
        found = policy_of_sale(db, asked).options[0][1]
    except NoPolicy:
        return timedelta(days=PolicyDocument().pay_within_days)
    return timedelta(days=min(terms.pay_within_days for terms in found.each))


def blocks_outside_refunds(db: Connection, merchant_id: UUID, placed_at: datetime) -> bool:
    """Whether a refund made outside stops an order of then until somebody says what it was for: unless no policy of then does."""
    found = rows(db, "SELECT policy_id, version, document FROM policies WHERE merchant_id = :m"
                 " AND effective @> CAST(:at AS timestamptz)", m=merchant_id, at=placed_at)  # fmt: skip
    try:
        said = {as_policy(**row).terms.external_unallocated for row in found}
    except NoPolicy:
        return True
    return said != {"cap_only"}


def _kept(found: Sequence[RowMapping], lines: tuple[str, ...]) -> Policy | None:
    """The version these lines of the case were decided under; with `better_of` the two are compared each time."""
    row = next((row for row in found if row["kept"] or (row["kept_for"] and set(lines) <= set(row["kept_for"]))), None)
    if row is None or row["document"].get("terms_basis") == "better_of":
        return None
    return _read(row)


def _read(row: RowMapping) -> Policy:
    return as_policy(row["policy_id"], row["version"], row["document"])


# Whose routes they are where no policy is in force today: nobody named an amount, so a manager decides.
NO_ROUTES: Final = "none@0"


def _routed(terms: PolicyTerms, of_sale: Policy, today: Policy | None) -> PolicyTerms:
    if today is None:
        return terms.model_copy(update={"routes": Routes(), "signals": {}, "routes_of": NO_ROUTES})
    if today.cited == of_sale.cited:
        return terms
    now = policy_terms(today)
    return terms.model_copy(update={"routes": now.routes, "signals": now.signals, "routes_of": today.cited})


def _today(
    db: Connection, asked: Asked, found: Sequence[RowMapping], read: Container[str], about: About | None
) -> Policy | None:
    """The version in force now; None: there is none, or it cannot be read. Those in `read` can."""
    try:
        chosen = _chosen(db, asked, found, about)
        if chosen.cited not in read:
            policy_terms(chosen)
    except NoPolicy:
        return None
    return chosen


def _of(found: Sequence[RowMapping], time: str) -> list[RowMapping]:
    return [row for row in found if row[time] and row["document"].get("status", "approved") == "approved"]


def _chosen(db: Connection, asked: Asked, found: Sequence[RowMapping], about: About | None) -> Policy:
    """The one policy for a sale of this category; of every category where `about` is None."""
    candidates = [candidate_of(row) for row in found]
    if not candidates:
        raise _why_none(db, asked)
    best = [one.named for one in candidates] if about is None else choose(candidates, about)
    if len(best) != 1:
        names = sorted(one.cited for one in best)
        raise NoPolicy("tie" if best else "none_fits", policies=names, category=about.category if about else "")
    return best[0]


def _groups(
    db: Connection, asked: Asked, found: Sequence[RowMapping]
) -> Iterable[tuple[About | None, tuple[str, ...]]]:
    """The lines of each category, the largest first; all of them as one where no policy is for some sales only."""
    times = [_of(found, time) for time in ("at_sale", "at_request", "today")]
    if all(len(some) < 2 and not any(row["document"].get("select") for row in some) for some in times):
        return [(None, tuple(asked.lines))]
    return _about(db, asked) or [(None, tuple(asked.lines))]


def candidate_of(row: RowMapping) -> Candidate[Policy]:
    """A stored version, and for which sales it is. Raises NoPolicy for a document that cannot be read."""
    document: dict[str, Any] = row["document"]
    policy, priority = _read(row), document.get("priority", 0)
    try:
        select = Select.model_validate_json(json.dumps(document.get("select", {})))
    except ValidationError as error:
        raise NoPolicy("unreadable", policy=policy.cited) from error
    if type(priority) is not int:
        raise NoPolicy("unreadable", policy=policy.cited)
    return Candidate(policy, select, priority)


_ABOUT: Final = """
    SELECT g.slug, NULLIF(o.region, '') AS region, NULLIF(o.channel, '') AS channel,
        o.allocation->'sale'->>'sale_mode' AS sale_mode,
        (SELECT c.tender FROM captures c WHERE c.merchant_id = o.merchant_id AND c.order_id = o.order_id
            ORDER BY c.order_minor DESC, c.position LIMIT 1) AS payment_method,
        (SELECT jsonb_agg(jsonb_build_array(of_one.category, of_one.lines) ORDER BY of_one.gross DESC, of_one.place) FROM (
            SELECT l->'attributes'->>'category' AS category, jsonb_agg(l->>'line_id' ORDER BY place) AS lines,
                sum((l->>'gross_minor')::bigint) AS gross, min(place) AS place
            FROM jsonb_array_elements(o.allocation->'lines') WITH ORDINALITY every (l, place)
            WHERE cardinality(CAST(:lines AS text[])) = 0 OR l->>'line_id' = ANY(:lines) GROUP BY 1) of_one) AS categories
    FROM orders o JOIN merchants g ON g.id = o.merchant_id WHERE o.merchant_id = :m AND o.order_id = :o
"""


def _about(db: Connection, asked: Asked) -> list[tuple[About, tuple[str, ...]]]:
    """The facts of the sale, once for each category among the lines, and those lines."""
    row = first(db, _ABOUT, m=asked.merchant_id, o=asked.order_id, lines=list(asked.lines))
    if row is None:
        return []
    sale = (row["region"], row["payment_method"], row["channel"], row["sale_mode"])
    return [
        (About(row["slug"], category, asked.reason, *sale), tuple(lines))
        for category, lines in row["categories"] or [(None, asked.lines)]
    ]


_AROUND: Final = """
    SELECT max(upper(effective)) FILTER (WHERE upper(effective) <= :at) AS ended,
        min(lower(effective)) FILTER (WHERE lower(effective) > :at) AS begins FROM policies WHERE merchant_id = :m
"""


def _why_none(db: Connection, asked: Asked) -> NoPolicy:
    row = first(db, _AROUND, m=asked.merchant_id, at=asked.placed_at)
    for reason in ("ended", "begins"):
        if row is not None and row[reason] is not None:
            return NoPolicy(reason, at=row[reason].isoformat())
    return NoPolicy("missing")


@dataclass(frozen=True)
class Part:
    """Lines of a return, and what decides them."""

    lines: tuple[str, ...]
    deciding: Deciding


# With `better_of` each part has two, and all of them are worked out; nobody's return is of so many.
MOST_OPTIONS: Final = 16


def together(parts: list[Part], worth: Callable[[str], int] | None) -> Deciding:
    """Several policies as one: the largest part's version, with the terms of the others for their lines. Raises NoPolicy."""
    if worth is not None:
        parts = sorted(parts, key=lambda part: -sum(worth(line) for line in part.lines))
    choices = list(product(*(part.deciding.options for part in parts)))
    if len(choices) > MOST_OPTIONS:
        raise NoPolicy("several", policies=sorted(one.cited for part in parts for one, _ in part.deciding.options))
    options = []
    for (policy, terms), *others in choices:
        rest = zip(parts[1:], others, strict=True)
        beside = tuple(TermsOfLines(lines=part.lines, terms=theirs) for part, (_, theirs) in rest)
        options.append((policy, terms.model_copy(update={"parts": beside})))
    today = [one for part in parts for one in part.deciding.today]
    whole = all(part.deciding.today for part in parts)
    return Deciding(tuple(options), tuple(today) if whole else (), any(part.deciding.signals for part in parts))
