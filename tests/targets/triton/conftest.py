"""One interpreter for all tests of the Triton printer."""

import importlib.util
from collections.abc import Iterator

import pytest
from tests.targets.triton.interpreted import Interpreter


@pytest.fixture(scope="package")
def interpreter() -> Iterator[Interpreter]:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed: its interpreter runs the printed kernels")
    found = Interpreter()
    yield found
    found.close()
