"""Who a process is to the database, asked of the catalogue before anything else (S39).

A process that could step round row-level security or the grants refuses to start: every guard of the ledger below the
application rests on its role.
"""

from typing import Final

from sqlalchemy import Engine

from ledger.database import first, transaction
from ledger.errors import LedgerError


class WrongRole(LedgerError):
    """The database role of this process may do more than the process needs, or is another one."""

    code = "wrong-role"


_WHO: Final = """
    SELECT current_user AS name, session_user AS signed_in_as, r.rolsuper AS superuser, r.rolbypassrls AS bypasses,
        r.rolcreaterole OR r.rolcreatedb OR r.rolreplication AS administers,
        EXISTS (SELECT 1 FROM pg_auth_members WHERE member = r.oid) AS is_member,
        EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relowner = r.oid AND n.nspname !~ '^pg_(toast|temp)') OR
        EXISTS (SELECT 1 FROM pg_proc WHERE proowner = r.oid) OR
        EXISTS (SELECT 1 FROM pg_database WHERE datdba = r.oid AND datname = current_database()) AS owns
    FROM pg_roles r WHERE r.rolname = current_user
"""
_FAULTS: Final = (
    ("superuser", "is a superuser, whom no rule binds", "make it NOSUPERUSER"),
    ("bypasses", "passes row-level security", "make it NOBYPASSRLS"),
    ("administers", "may make roles or databases, or read the replication stream", "take these rights from it"),
    ("is_member", "is a member of another role and may act as it", "revoke that membership"),
    ("owns", "owns a table, a function or the database, and may change its rules", "give it to onceback_owner"),
)


def check_role(engine: Engine, expected: str) -> None:
    """Returns when `engine` is signed in as `expected`, and that role can do nothing beyond its grants.

    Reads the catalogue in one short transaction. Raises WrongRole with one sentence that names the role, what is wrong with
    it and what to do.
    """
    with transaction(engine, read_only=True) as db:
        who = first(db, _WHO)
    if who is None or who["name"] != expected or who["signed_in_as"] != expected:
        found = "nobody known" if who is None else who["signed_in_as"]
        raise WrongRole(f"This process is signed in to the database as {found}: it has to be {expected}.")
    for fault, what, remedy in _FAULTS:
        if who[fault]:
            raise WrongRole(f"The database role {expected} {what}, so this process does not start: {remedy}.")
