"""What one web process holds: its settings, its connections and the keys that seal approvals."""

from dataclasses import dataclass, field

from flask import current_app
from sqlalchemy import Engine

from ledger.seals import Sealer
from settings import Settings

NAME = "onceback"


@dataclass(frozen=True)
class Installation:
    """The sealers are of the web process only; the engine logs in as onceback_console. `policy_sealer` seals what a policy
    approves by itself; None: nothing is approved so."""

    settings: Settings
    engine: Engine = field(repr=False)
    sealer: Sealer
    policy_sealer: Sealer | None = None


def installed() -> Installation:
    """The installation of the running app."""
    found = current_app.extensions[NAME]
    if not isinstance(found, Installation):
        raise TypeError("the app was not made by create_app()")
    return found
