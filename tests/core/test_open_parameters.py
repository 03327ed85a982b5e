"""``TUNE``: what a source leaves open, closing it, and constants that are made of it."""

import ast

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kernelwright.core.errors import UserError
from kernelwright.core.open_parameters import closed, folded, open_parameters
from kernelwright.targets.cpp.build import find_cpp_source

SOURCE = '''"""ä kernel"""
X = "ö"; TUNE = {"ROWS": [4, 8],
        "MODE": ["static", "dynamic"]}  # open
CPP_SOURCE = f"#define ROWS {TUNE['ROWS'][0]}"
CXX_FLAGS = ("-O3", "-DMODE=" + TUNE["MODE"][0], str(TUNE["ROWS"][0]))
'''


def test_closing_rewrites_the_literal_and_nothing_else() -> None:
    assert open_parameters(SOURCE) == {"ROWS": (4, 8), "MODE": ("static", "dynamic")}
    one = closed(SOURCE, {"ROWS": 8})
    assert open_parameters(one) == {"ROWS": (8,), "MODE": ("static",)}
    assert one.startswith('"""ä kernel"""\nX = "ö"; TUNE = ') and "  # open\nCPP_SOURCE" in one
    assert closed("x = 1\n", {}) == "x = 1\n" and open_parameters("x = (") == {}


def test_cpp_made_of_open_parameters_is_built_ahead() -> None:
    found = find_cpp_source(closed(SOURCE, {"ROWS": 8, "MODE": "dynamic"}))
    assert found is not None
    assert found.text == "#define ROWS 8" and found.flags == ("-O3", "-DMODE=dynamic", "8")


@pytest.mark.parametrize(
    "text",
    ["TUNE = dict(A=[1])", "TUNE = {}", "TUNE = {'A': 1}", "TUNE = {'A': []}", "TUNE = {1: [2]}",
     "TUNE = {'A': [[1]]}", "TUNE = {'A': [None]}", "TUNE = [1]"],
)  # fmt: skip
def test_what_is_no_such_literal_is_one_clear_line(text: str) -> None:
    with pytest.raises(UserError, match="line 1: TUNE"):
        open_parameters(text)


@pytest.mark.parametrize("point", [{"ROWS": 5}, {"NONE": 1}])
def test_points_outside_are_refused(point: dict[str, int]) -> None:
    with pytest.raises(UserError, match="leaves no"):
        closed(SOURCE, point)


def test_numbers_made_of_open_parameters_fold() -> None:
    text = "({'grid': (4096 // TUNE['ROWS'][0], 1), 'bytes': 4 * TUNE['ROWS'][0] + 2 - 1},)"
    assert folded(ast.parse(text, mode="eval").body, {"ROWS": (4,)}) == ({"grid": (1024, 1), "bytes": 17},)


@pytest.mark.parametrize(
    "text",
    ["open('x')", "TUNE['ROWS'][1]", "f'{x}'", "TUNE['A'][0]", "str(x)", "2 ** 9999999", "'x' * 9999999",
     "1 // 0", "1 << 99", "{**{}}", "1 + 1.0"],
)  # fmt: skip
def test_only_literals_fold(text: str) -> None:
    with pytest.raises(ValueError):
        folded(ast.parse(text, mode="eval").body, {"ROWS": (4,)})


@given(st.dictionaries(
    st.from_regex(r"[A-Z]{1,5}", fullmatch=True),
    st.lists(st.integers() | st.text("aé'\"\\n", max_size=4) | st.booleans(), min_size=1, max_size=4),
    min_size=1, max_size=4,
), st.data())  # fmt: skip
def test_any_point_closes_to_itself(tune: dict[str, list[object]], data: st.DataObject) -> None:
    source = f"before = 1\nTUNE = {tune!r}\nafter = 'é'\n"
    known = open_parameters(source)
    point = {name: data.draw(st.sampled_from(values)) for name, values in known.items()}
    assert open_parameters(closed(source, point)) == {name: (value,) for name, value in point.items()}
