"""Where the read-only inputs shared with the project lie: `ONCEBACK_SHARED`, else `../shared` beside the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shared_file(*parts: str) -> Path:
    """The path of a shared input, or a skip that says where it was looked for."""
    base = Path(os.environ.get("ONCEBACK_SHARED", ROOT.parent / "shared"))
    path = base.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not here: set ONCEBACK_SHARED to the folder of the shared inputs")
    return path
