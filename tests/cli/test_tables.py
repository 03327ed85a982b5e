"""Tables on terminals of any width."""

from io import StringIO

import pytest
from rich.console import Console

from kernelwright.cli import output
from kernelwright.report.table import Table

TABLE = Table(
    ("run", "recipe", "result"),
    [("1qveqtys36p", "kernelwright", "4.16x")],
    is_text=True,
    spare=("recipe",),
)


@pytest.mark.parametrize(("width", "is_whole"), [(80, False), (output.WIDE, True)])
def test_spare_columns_are_left_out_of_a_narrow_terminal_and_named(
    monkeypatch: pytest.MonkeyPatch, width: int, is_whole: bool
) -> None:
    text = StringIO()
    console = Console(width=width, height=40, force_terminal=True, no_color=True, file=text)
    monkeypatch.setattr(output, "make_console", lambda is_stderr: console)
    output.print_table(TABLE)
    shown = text.getvalue()
    assert "1qveqtys36p" in shown and "4.16x" in shown
    assert ("kernelwright" in shown) == is_whole
    assert ("Not shown in 80 columns: recipe" in shown) == (not is_whole)
