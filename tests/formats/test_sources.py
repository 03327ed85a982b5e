"""Strangers' sources in files of ours: what must stand at the top goes there, and Python takes the whole."""

import pytest

from kernelwright.core.errors import UserError
from kernelwright.formats.sources import moved, parsed, require_python, to_the_top


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\nfrom __future__ import annotations\n",
        "def f():\n    from math import *\n",
        "def f(:\n",
        "x = '\0'\n",
        "x = " + "(" * 9999 + ")" * 9999,
    ],
    ids=["future import", "star import", "syntax", "null byte", "nesting"],
)
def test_what_python_does_not_compile_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match="label: not Python") as caught:
        require_python(text, "label")
    assert "\n" not in str(caught.value)


def test_a_strangers_style_is_no_warning() -> None:
    text = "x = '\\d' is 3\n"
    assert require_python(text, "label") == text and parsed(text, "label").body


def test_a_source_keeps_its_text_where_nothing_goes_to_the_top() -> None:
    source = "\n# a comment\nfrom math import *\nx = 1  # another\n"
    assert moved(source, parsed(source, "label")) == ("", source.strip())


def test_future_imports_go_to_the_top_and_star_imports_out_of_functions() -> None:
    source = "from __future__ import annotations\nfrom math import *\nx = 1\n"
    tree = parsed(source, "label")
    assert moved(source, tree) == ("from __future__ import annotations\n", "from math import *\nx = 1")
    top, rest = to_the_top(tree.body, stars=True)
    assert top == "from __future__ import annotations\nfrom math import *\n" and len(rest) == 1
