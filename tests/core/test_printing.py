"""Programs are printed alike by every Python, and each can read what another printed."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core import printing, source
from kernelwright.core.printing import unparse

TEXT = st.text(st.sampled_from("ab'\"\\{} \n\té"), max_size=8)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("f\"-D={T['E'][0]}\"", "f\"-D={T['E'][0]}\""),
        ("f'{x!r:>{w}} {d[\"a\"]}'", "f\"{x!r:>{w}} {d['a']}\""),
        ("f'''a\nb{x}'''", "f'a\\nb{x}'"),
        ("f'{a}' 'b' \"c's\"", 'f"{a}bc\'s"'),
        ("f\"{'a' if x else 'b'}\"", "f\"{('a' if x else 'b')}\""),
        (
            "f'{(x, y) if c else z}{(yield)}{(v := 1)}{-x}'",
            "f'{((x, y) if c else z)}{(yield)}{(v := 1)}{-x}'",
        ),
        ("f'{ {1: 2}[1] }{{}}'", "f'{ {1: 2}[1]}{{}}'"),
        ("f'{f\"{x}\"}'", "f\"{f'{x}'}\""),
        ("['\ue0000\ue000', f'{x}']", "['\\ue0000\\ue000', f'{x}']"),
    ],
)
def test_quotes_of_an_f_string_do_not_recur_inside(written: str, printed: str) -> None:
    assert unparse(ast.parse(written)) == printed
    assert ast.dump(ast.parse(printed)) == ast.dump(ast.parse(written))


@given(TEXT, TEXT, st.sampled_from(["x", "x!s", "x:>4", "d['k']", "(lambda: 1)()"]))
def test_text_around_a_value_stays_as_it_is(before: str, after: str, value: str) -> None:
    def constant(text: str) -> list[ast.expr]:
        return [ast.Constant(text)] if text else []

    field = ast.parse(f'f"{{{value}}}"', mode="eval").body
    assert isinstance(field, ast.JoinedStr)
    tree = ast.Expression(ast.JoinedStr([*constant(before), *field.values, *constant(after)]))
    try:
        text = unparse(ast.fix_missing_locations(tree))
    except ValueError as error:
        assert "quotes" in str(error)
        return
    assert ast.dump(ast.parse(text, mode="eval")) == ast.dump(tree)


@pytest.mark.parametrize("module", [printing, source])
def test_a_module_of_ours_is_printed_as_it_was_read(module: object) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))  # type: ignore[attr-defined]
    assert ast.dump(ast.parse(unparse(tree))) == ast.dump(tree)


def test_what_cannot_stand_in_an_f_string_of_python_3_11_is_an_error() -> None:
    backslash = ast.JoinedStr([ast.FormattedValue(ast.Constant("\\"), -1)])
    with pytest.raises(ValueError, match="backslash"):
        unparse(ast.Expression(backslash))
