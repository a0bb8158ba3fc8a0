"""The local stack beside a server that somebody already uses."""

from pathlib import Path

import pytest

from demo.local_stack import LocalStack, StackError
from tests.stack import Stack


def test_a_server_that_has_the_roles_already_is_left_alone(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", stack.server.url("postgres"))
    local = LocalStack(tmp_path / "demo")
    with pytest.raises(StackError, match="may be a real one"):
        local.start_database()
    with stack.console.connect() as still_in:
        assert still_in.exec_driver_sql("SELECT current_user").scalar_one() == "onceback_console"
