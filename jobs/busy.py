"""What is worth trying again: a lock held too long, a deadlock, a lost race, a server that restarts."""

from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

BUSY = (OperationalError, InterfaceError, PoolTimeout)


def sqlstate(error: SQLAlchemyError) -> str:
    """The five characters that say what the database refused; its text stays out of the log."""
    return str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
