"""Which changes of a policy let people, or the policy by itself, approve more: those bind from the next business day."""

from typing import Any

import pytest

from ledger.policy_changes import changes, raised
from tests.raises import PAIRS


@pytest.mark.parametrize(("old", "new", "more"), PAIRS)
def test_more_is_what_binds_later(old: dict[str, Any], new: dict[str, Any], more: bool) -> None:
    assert bool(raised(old, new)) is more
    assert changes(old, new)
    assert not changes(new, new)
