"""Results as files: written whole, or one clear line before any work is spent."""

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from kernelwright.core.errors import UserError


def json_text(document: Any) -> str:
    """Return strict JSON: records of ours are dumped, paths become text, infinities and NaN null."""
    return json.dumps(_finite(to_jsonable_python(document, fallback=str)), indent=2, allow_nan=False) + "\n"


def json_line(document: Any) -> str:
    """Return the same on one line."""
    return json.dumps(_finite(to_jsonable_python(document, fallback=str)), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_folder(folder: Path) -> Path:
    """Create the folder for results; raises UserError before any work is spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}; name another with --out") from error
    return folder


def require_writable(path: Path) -> Path:
    """Return the path if a file can be written there; raises UserError before any work is spent.

    Folders on the way are created.
    """
    if path.is_dir():
        raise UserError(f"cannot write {path}: it is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        path.open("a", encoding="utf-8").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; name another place") from error
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a result file whole, in the place of what was there; raises UserError when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe or a terminal
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; name another place") from error
    return path


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, beside)
        os.replace(beside, path)
    except PermissionError:  # the file may be written though its folder may not
        path.write_text(text, encoding="utf-8")
    finally:
        beside.unlink(missing_ok=True)
