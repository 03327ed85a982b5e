"""One table to show: in a terminal, in a notebook, in a page."""

from collections.abc import Collection, Sequence
from html import escape
from typing import NamedTuple


class Table(NamedTuple):
    """Cells under a header; the first column is text, the others are figures where nothing else is said."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    styles: Sequence[str] = ()
    """Of the rows, for a terminal; empty: plain."""
    is_text: bool = False
    """No column holds figures."""
    numbers: Collection[str] | None = None
    """The columns that do; None: see above."""
    spare: Collection[str] = ()
    """Columns that a narrow terminal does without."""

    def is_number(self, column: int) -> bool:
        """Tell whether a column holds figures."""
        if self.numbers is not None:
            return self.header[column] in self.numbers
        return column > 0 and not self.is_text

    def turned(self) -> "Table":
        """Return the table with a line for each column, for few rows of many figures."""
        header, *lines = zip(self.header, *self.rows, strict=True)
        return Table(header, lines)


def html_table(table: Table) -> str:
    """Return a table as HTML."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
