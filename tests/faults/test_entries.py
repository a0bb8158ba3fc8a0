"""Whoever adds a way into the product that commits says which path of the kill matrix it is on, or why it is on none."""

import click
import pytest
from flask import Flask
from pydantic import SecretStr

from app import command_line, create_app
from faults.entries import OFF, ON
from faults.paths import PATHS
from jobs.schedule import PERIODIC
from ledger.seals import new_key
from settings import Settings
from tests.stack import Stack

ONLY_READ = frozenset(("GET", "HEAD", "OPTIONS"))


@pytest.fixture
def app(stack: Stack) -> Flask:
    return create_app(Settings(
        environment="test", database_url=SecretStr(stack.console_url), public_origin="https://console.example",
        seal_key=SecretStr(new_key("entries-1")), cookie_key=SecretStr("Vq7-entries-only-Jx0e2LrW8sYzKd4uTn6hPb1"),
    ))  # fmt: skip


def commands(group: click.Group, *named: str) -> set[str]:
    found: set[str] = set()
    for name, one in group.commands.items():
        found |= commands(one, *named, name) if isinstance(one, click.Group) else {" ".join(("command", *named, name))}
    return found


def test_every_route_that_writes_every_job_and_every_command_is_on_a_path_or_has_a_reason(app: Flask) -> None:
    routes = {rule.endpoint for rule in app.url_map.iter_rules() if (rule.methods or set()) - ONLY_READ}
    jobs = {f"job {periodic.name}" for periodic in PERIODIC}
    there = routes | jobs | commands(command_line().cli)
    stated = ON.keys() | OFF.keys()
    assert sorted(there - stated) == [], "add it to faults/entries.py: its paths, or the reason why it has none"
    assert sorted(stated - there) == [], "it is not there any more"
    assert ON.keys() & OFF.keys() == set()


def test_every_path_that_is_named_is_one_of_the_matrix_and_every_reason_says_something() -> None:
    assert {path for paths in ON.values() for path in paths} - {path.name for path in PATHS} == set()
    assert all(ON.values())
    assert all(len(reason) > 25 for reason in OFF.values())
