"""The text that names an evaluator, and what happens without the extra packages."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.core.errors import UserError
from kernelwright.remote import open_evaluator
from kernelwright.remote.client import RemoteEvaluator
from kernelwright.remote.filedrop import FileDropEvaluator


def test_an_address_or_a_folder(tmp_path: Path) -> None:
    assert isinstance(open_evaluator("http://127.0.0.1:8787"), RemoteEvaluator)
    assert isinstance(open_evaluator("https://referee.example"), RemoteEvaluator)
    dropped = open_evaluator(f"drop:{tmp_path / 'new'}")
    assert isinstance(dropped, FileDropEvaluator) and dropped.folder == tmp_path / "new"
    assert (tmp_path / "new" / "outbox").is_dir()


@pytest.mark.parametrize("text", ["", "drop:", "folder", "ftp://host", "127.0.0.1:8787"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="unknown evaluator"):
        open_evaluator(text)


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="no drop folder can be made"):
        open_evaluator(f"drop:{tmp_path / 'file'}")


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("httpx", "from kernelwright.remote import open_evaluator; open_evaluator('http://h:1')"),
        ("starlette", "import kernelwright.remote.service"),
        ("uvicorn", "import kernelwright.remote.server"),
    ],
)
def test_a_missing_package_is_one_line_with_what_to_install(package: str, code: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; {code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("kernelwright.core.errors.UserError: ")
    assert package in last and "pip install 'kernelwright[serve]'" in last


def test_opening_loads_neither_torch_nor_a_server() -> None:
    program = (
        "import sys; from kernelwright.remote import open_evaluator; open_evaluator('http://h:1'); "
        "print(sorted({'torch', 'numpy', 'starlette', 'uvicorn', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
