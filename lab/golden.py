"""Golden files. To renew one, delete it and run its test twice."""

from pathlib import Path

import pytest


def check_golden(path: Path, text: str, request: pytest.FixtureRequest) -> None:
    """Compare with the file; a missing one is written and the test fails once, to be looked at."""
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path.name} was written anew by {request.node.name}: look at it and run again")
    assert text == path.read_text(encoding="utf-8")
