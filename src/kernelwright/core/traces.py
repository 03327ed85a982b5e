"""Tracebacks for whoever mends a defect of ours."""

import tempfile
import traceback
from pathlib import Path


def write_trace(error: Exception) -> Path:
    """Write an exception's traceback to a temporary file and return where."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="kernelwright-", suffix=".traceback.txt", delete=False, encoding="utf-8"
    ) as file:
        file.writelines(traceback.format_exception(error))
    return Path(file.name)
