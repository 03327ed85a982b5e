"""Indented Python."""

from collections.abc import Iterator
from contextlib import contextmanager

from kernelwright.ir.writer import Writer


class PythonWriter(Writer):
    """Lines of Python with the indentation of the open blocks."""

    def line(self, text: str) -> None:
        """Write one line."""
        self.lines.append(("    " * self._depth + text) if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write ``head:`` and what is written inside one step deeper."""
        self.line(f"{head}:")
        with self.indented():
            yield
