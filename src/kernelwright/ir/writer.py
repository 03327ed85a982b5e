"""Indented text."""

import re
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

    @contextmanager
    def definition(self, name: str, line: str) -> Iterator[None]:
        """Write a line that defines a name, unless nothing written inside mentions the name."""
        position = len(self.lines)
        self.line(line)
        yield
        if not any(re.search(rf"\b{name}\b", text) for text in self.lines[position + 1 :]):
            del self.lines[position]

    def text(self) -> str:
        """Return everything written."""
        return "\n".join(self.lines) + "\n"
