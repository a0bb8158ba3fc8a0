"""`flask jobs run` and `python -m jobs run`: check what the process was given, then work."""

import os
from collections.abc import Mapping
from contextlib import ExitStack

import click
import psycopg
from pydantic import ValidationError
from pydantic_settings import SettingsError

from jobs import metrics
from jobs.logs import configure
from jobs.schedule import PERIODIC, NotQuiet, run_forever, run_job, stop_on_signals, until_quiet
from jobs.standing import FAULTS
from jobs.worker import BUSY, Worker, running_worker, standing_of
from ledger.database import connect
from ledger.database_role import WrongRole, check_role
from ledger.seals import SealVerifier
from settings import Settings

ROLE = "onceback_worker"


@click.group("jobs")
def jobs() -> None:
    """Work that runs beside the web process: sending, looking up, releasing, reading hints."""


@jobs.command("run")
@click.option("--once", type=click.Choice([periodic.name for periodic in PERIODIC]), help="Run this job once and stop.")
@click.option("--until-quiet", "quiet", is_flag=True, help="Run all jobs until nothing is due within the horizon.")
@click.option("--horizon", default=120.0, show_default=True, help="Seconds ahead that --until-quiet waits for.")
def run(once: str | None, quiet: bool, horizon: float) -> None:
    """Run the worker until it is told to stop (SIGTERM or SIGINT). Any number of workers may run."""
    configure()
    given = read_settings()
    faults = start_faults(given, os.environ)
    if faults:
        raise click.ClickException("The worker does not start.\n" + "\n".join(f"- {fault}" for fault in faults))
    with ExitStack() as held:
        try:
            worker = held.enter_context(running_worker(given))
            check_role(worker.engine, ROLE)
        except (ValueError, WrongRole) as error:
            raise click.ClickException(str(error)) from None
        except (psycopg.OperationalError, *BUSY):
            raise click.ClickException("The database does not answer: check DATABASE_URL and that it runs.") from None
        if given.metrics_port and not once:
            _serve_metrics(worker, given)
        try:
            _work(worker, once, quiet, horizon)
        except NotQuiet as error:
            raise click.ClickException(str(error)) from None


def _serve_metrics(worker: Worker, given: Settings) -> None:
    try:
        metrics.serve(worker, given.metrics_address, given.metrics_port)
    except OSError as error:
        raise click.ClickException(f"METRICS_PORT cannot be listened on: {error.strerror}.") from None


@jobs.command("begin")
def begin() -> None:
    """Make this host's mark of the database, once, on a new host of workers. Not after a restore: that is `flask recover`."""
    configure()
    given = read_settings()
    engine = connect(given.database_url.get_secret_value(), pool_size=1, name="begin")
    try:
        check_role(engine, ROLE)
        fault = standing_of(engine, given).begin()
    except (ValueError, WrongRole) as error:
        raise click.ClickException(str(error)) from None
    except BUSY:
        raise click.ClickException("The database does not answer: check DATABASE_URL and that it runs.") from None
    finally:
        engine.dispose()
    if fault:
        raise click.ClickException(f"Nothing was marked: {FAULTS[fault]}.")
    click.echo("This host has its mark: its workers send.")


def _work(worker: Worker, once: str | None, quiet: bool, horizon: float) -> None:
    if not once and not quiet:
        run_forever(worker)
        return
    stop_on_signals(worker, lambda: None)
    if once:
        counts = run_job(next(periodic for periodic in PERIODIC if periodic.name == once), worker)
    else:
        counts = until_quiet(worker, horizon)
    click.echo(" ".join(f"{name}={number}" for name, number in sorted(counts.items())) or "nothing to do")


def read_settings() -> Settings:
    """The configuration of this process. Raises ClickException that names the variables and never their values."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = [
            f"- {'.'.join(map(str, fault['loc'])).upper() or 'configuration'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_context=False, include_url=False)
        ]
        raise click.ClickException("The configuration is not complete.\n" + "\n".join(wrong)) from None
    except SettingsError as error:
        raise click.ClickException(f"The configuration cannot be read: {error}") from None


def start_faults(given: Settings, environ: Mapping[str, str]) -> list[str]:
    """Why a worker must not start with this configuration, as sentences; empty when it may (S26, S68)."""
    faults = []
    for name, key in (("SEAL_KEY", given.seal_key), ("AUTOMATIC_SEAL_KEY", given.automatic_seal_key)):
        if key is not None or name in environ or f"{name}_FILE" in environ:
            faults.append(f"{name} is given to the worker. Only the web process may seal approvals: take it away here.")
    if not given.seal_public_keys:
        faults.append("SEAL_PUBLIC_KEYS is missing. Give the public halves as printed by `flask keys new`.")
    if not given.provider_keys:
        faults.append("PROVIDER_KEYS is missing. Give one restricted key per credential name of provider_accounts.")
    if len({key.get_secret_value() for key in given.provider_keys.values()}) < len(given.provider_keys):
        faults.append("PROVIDER_KEYS names one key twice. A merchant's credential serves no other merchant.")
    if given.mail_from and not given.smtp_host:
        faults.append("MAIL_FROM is given and SMTP_HOST is not. Give both, or take MAIL_FROM away: mail is off then.")
    if given.deployment_id is None or given.generation is None:
        faults.append("DEPLOYMENT_ID or GENERATION is missing. Give both as `flask db deployment` prints them.")
    try:
        SealVerifier(given.seal_public_keys, given.automatic_seal_public)
    except ValueError as error:
        faults.append(f"SEAL_PUBLIC_KEYS or AUTOMATIC_SEAL_PUBLIC: {error}.")
    return faults
