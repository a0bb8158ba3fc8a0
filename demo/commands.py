"""`flask demo seed`: the demo's shop with as many cases as are asked for, to see how it is to work in at that size."""

import click
from sqlalchemy.engine import make_url

from demo.__main__ import FOLDER, PROVIDER_PORT, WEB_PORT
from demo.bulk import add_cases
from demo.local_stack import DATABASE, LocalStack, StackError
from demo.seed import marker, seed
from demo.server_account import PostgresError


@click.group("demo")
def demo() -> None:
    """The demo on this machine (`make demo`)."""


@demo.command("seed")
@click.option("--cases", required=True, type=click.IntRange(1, 10_000_000), help="How many cases to add.")
def seed_command(cases: int) -> None:
    """Add cases to the demo's shop, each with order, evidence, entitlement, refund and history. Stop `make demo` first.

    Try some hundreds first: how long a million take, and how much disk, was not measured.
    """
    stack = LocalStack(FOLDER, WEB_PORT, PROVIDER_PORT, say=_say)
    try:
        stack.start_database()
        if not marker(FOLDER).exists():
            stack.start_provider()
        merchant = seed(stack, _say)
        url = make_url(stack.postgres.admin_url).set(drivername="postgresql", database=DATABASE)
        there = add_cases(url.render_as_string(hide_password=False), merchant.merchant_id, cases, _say)
    except (StackError, PostgresError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        stack.stop()
    click.echo(f"The shop has {there:,} cases. `make demo` shows them.")


def _say(line: str) -> None:
    click.echo(f"  {line} …")
