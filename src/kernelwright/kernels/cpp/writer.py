"""Indented text."""

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Lines of C++ with the indentation of the open blocks."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self._depth = depth

    def line(self, text: str) -> None:
        """Write one line; preprocessor lines are not indented."""
        self.lines.append(text if text.startswith("#") else "  " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write ``head {`` … ``}`` around what is written inside."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent what is written inside."""
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        """Return everything written."""
        return "\n".join(self.lines) + "\n"
