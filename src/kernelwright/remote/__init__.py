"""Candidates judged elsewhere: over HTTP, or by whoever answers files in a folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.core.errors import UserError
from kernelwright.settings import TOKEN_VARIABLE, load_secret

if TYPE_CHECKING:
    from kernelwright.runs.evaluator import Evaluator

__all__ = ["open_evaluator"]

DROP = "drop:"


def open_evaluator(text: str) -> "Evaluator":
    """Return the evaluator that ``http://host:port``, ``https://...`` or ``drop:FOLDER`` names.

    The bearer token of a service comes from the environment, variable ``KERNELWRIGHT_SERVE_TOKEN``.
    Nothing is sent before a task is opened.

    Raises:
        UserError: the text names no evaluator, or what it needs is not installed.
    """
    if text.startswith(DROP) and text != DROP:
        # lazy: most programs never need it
        from kernelwright.remote.filedrop import FileDropEvaluator

        return FileDropEvaluator(Path(text.removeprefix(DROP)))
    if text.startswith(("http://", "https://")):
        # lazy: needs httpx, which only the extra "serve" brings
        from kernelwright.remote.client import RemoteEvaluator

        return RemoteEvaluator(text, load_secret(TOKEN_VARIABLE))
    raise UserError(f"unknown evaluator {text!r}; use http://HOST:PORT, https://HOST:PORT or drop:FOLDER")
