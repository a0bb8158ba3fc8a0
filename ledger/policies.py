"""Policy documents: which version decides a case, and what it says. Missing or unreadable never decides (ENTITLEMENT §8)."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection

from ledger.canonical import canonical_bytes
from ledger.database import rows, run, scalar
from ledger.errors import BadInput, LedgerError

Minor = dict[str, int]


class Routes(BaseModel):
    """From which amount, by currency, a manager decides; a currency that is not listed is always a manager's."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    manager_from_minor: Minor = Field(default_factory=dict)


class Connect(BaseModel):
    """What a refund on a platform takes along: the seller's transfer, and the platform's fee. See `fingerprint.connect_flags`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    reverse_transfer: bool = False
    refund_application_fee: bool = False


class Window(BaseModel):
    """What one person may approve in an hour or a day of one currency: how many, and how much in minor units."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    count: int = Field(ge=0)
    minor: int = Field(ge=0)


class Windows(BaseModel):
    """A person's hour, and day where it is limited too."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    hour: Window
    day: Window | None = None


class PolicyDocument(BaseModel):
    """The fields of a policy this version of the engine reads; the rest of the document is kept and not interpreted."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    refund_trigger: Literal["announced", "received", "inspected"] = "inspected"
    pay_within_days: int = Field(default=14, ge=1, le=90)
    shipping: Literal["on_last_unit", "none"] = "none"
    external_unallocated: Literal["block", "cap_only"] = "block"
    grade_bps: dict[str, int] = Field(default_factory=dict)
    routes: Routes = Field(default_factory=Routes)
    connect: Connect = Field(default_factory=Connect)
    # By role and currency; the policy in force now counts. A currency that is not named has nothing to give, and a document
    # without limits has the defaults (`reviewer_limits` in the database, which is what decides).
    limits: dict[Literal["desk", "manager"], dict[str, Windows]] | None = None


@dataclass(frozen=True)
class Policy:
    """One version, as it stands in its row."""

    policy_id: str
    version: int
    terms: PolicyDocument
    document: dict[str, Any]

    @property
    def pay_within_days(self) -> int:
        """Calendar days from opening to the due time of a case."""
        return self.terms.pay_within_days

    def route(self, currency: str, amount_minor: int, *, exception: bool) -> Literal["desk", "manager"]:
        """Who decides an amount: exceptions, unlisted currencies and amounts from the limit up are a manager's."""
        limit = self.terms.routes.manager_from_minor.get(currency)
        return "manager" if exception or limit is None or amount_minor >= limit else "desk"


class NoPolicy(LedgerError):
    """No policy was in force when this order was placed. A manager has to publish one before anything is decided."""

    code = "no-policy"


_EFFECTIVE: Final = """
    SELECT policy_id, version, document FROM policies WHERE merchant_id = :m AND effective @> CAST(:at AS timestamptz)
    ORDER BY policy_id, version DESC
"""


def effective_policy(db: Connection, merchant_id: UUID, placed_at: datetime) -> Policy:
    """The one version in force when the order was placed (terms_basis at_sale). Raises NoPolicy for none or several."""
    found = rows(db, _EFFECTIVE, m=merchant_id, at=placed_at)
    if len(found) != 1:
        raise NoPolicy(
            NoPolicy.__doc__ if not found else "Several policies were in force at once. A manager has to settle which."
        )
    row = found[0]
    try:
        terms = PolicyDocument.model_validate(row["document"])
    except ValidationError as error:
        raise NoPolicy(f"The policy {row['policy_id']}@{row['version']} cannot be read.") from error
    return Policy(row["policy_id"], row["version"], terms, row["document"])


def read_policy(db: Connection, merchant_id: UUID, policy_id: str, version: int) -> Policy:
    """One version by name. Raises NoPolicy."""
    found = rows(
        db, "SELECT document FROM policies WHERE merchant_id = :m AND policy_id = :p AND version = :v",
        m=merchant_id, p=policy_id, v=version,
    )  # fmt: skip
    if not found:
        raise NoPolicy
    return Policy(policy_id, version, PolicyDocument.model_validate(found[0]["document"]), found[0]["document"])


def publish(
    db: Connection,
    merchant_id: UUID,
    document: Any,
    author: str,
    approver: str,
    since: datetime | None,
    until: datetime | None = None,
) -> None:
    """Inserts the version that `document` names, in force for orders placed in [since, until). By the owner's connection.

    Raises BadInput: a field that cannot be read, author and approver the same, a range that overlaps another's or a version
    that exists (both are refused by constraint too).
    """
    named = _read(document)
    if author.strip().casefold() == approver.strip().casefold():
        raise BadInput("approver", "author and approver are two people")
    fee_alone = named.connect.refund_application_fee and not named.connect.reverse_transfer
    if fee_alone and scalar(db, _ON_DESTINATION, m=merchant_id):
        raise BadInput("connect.refund_application_fee", "goes back on destination charges only with reverse_transfer")
    text = canonical_bytes(document)
    taken = scalar(db, _TAKEN, m=merchant_id, p=named.policy_id, v=named.version, since=since, until=until)
    if taken:
        raise BadInput(
            "since", f"{taken} is in force in that time, or is that version: choose another range or version"
        )
    run(
        db, "INSERT INTO policies (merchant_id, policy_id, version, effective, document, digest, author, approver) VALUES"
        " (:m, :p, :v, tstzrange(:since, :until), CAST(:doc AS jsonb), :digest, :author, :approver)", m=merchant_id,
        p=named.policy_id, v=named.version, since=since, until=until, doc=text.decode(),
        digest=hashlib.sha256(text).digest(), author=author.strip(), approver=approver.strip(),
    )  # fmt: skip


_ON_DESTINATION: Final = (
    "SELECT 1 FROM provider_accounts WHERE merchant_id = :m AND charge_type = 'destination' LIMIT 1"
)


class _Named(PolicyDocument):
    policy_id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
    version: Annotated[int, Field(ge=1)]


# One policy decides an order, so ranges of different policies do not overlap either.
_TAKEN: Final = """
    SELECT policy_id || '@' || version FROM policies WHERE merchant_id = :m
        AND (effective && tstzrange(CAST(:since AS timestamptz), CAST(:until AS timestamptz)) OR (policy_id = :p AND version = :v))
    LIMIT 1
"""


def _read(document: Any) -> _Named:
    if not isinstance(document, dict):
        raise BadInput("document", "give one JSON object")
    try:
        return _Named.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(".".join(str(part) for part in first["loc"]), first["msg"]) from error
