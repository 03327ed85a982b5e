"""The blocks of the tutorial do what it says, pasted in order; ``test_readme.py`` has those of the README."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import PlayingModel

ROOT = Path(__file__).parents[2]
README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"
BLOCK = r"^(`{3,})%s\n(.*?)^\1\n"
FLEET = "--workers ray"
"""In the block that needs Ray; ``tests/remote/fleet/test_ray_commands.py`` runs it."""
VERDICT = "kernelwright evaluate "
"""In blocks that may end with 1: on a busy machine a check by clocks may refuse a small honest kernel."""
LIMIT_S = 1800
"""For a block that hangs; it says nothing of how long one takes."""


def blocks(page: Path, language: str = "sh") -> list[str]:
    found = re.findall(BLOCK % language, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [body for _, body in found]


def scripts(folder: Path, lines: Mapping[str, str]) -> Path:
    """Write a program of one shell line for each name."""
    folder.mkdir()
    for name, line in lines.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return folder


def paste(texts: Iterable[str], work: Path, programs: Path, more: Mapping[str, str]) -> str:
    """Run blocks in a folder; return what they printed."""
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"} | more
    said = ""
    for block in texts:
        done = subprocess.run(
            ["bash", "-e", "-c", block], cwd=work, env=environment, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        told = f"{block}\n{done.stdout}\n{done.stderr}"
        is_refused = VERDICT in block and done.returncode == 1 and "rejected" in done.stdout
        assert done.returncode == 0 or is_refused, told
        said += done.stdout
    return said


OURS = {
    "python": f'exec "{sys.executable}" "$@"',
    "kernelwright": f'exec "{sys.executable}" -m kernelwright "$@"',
}


def test_blocks_are_found_whole_and_other_fences_are_not(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\none\n```\n```text\ntwo\n```\n````sh\n```cpp\nthree\n```\n````\n")
    assert blocks(page) == ["one\n", "```cpp\nthree\n```\n"]
    assert len(blocks(TUTORIAL)) >= 6 and len(blocks(README)) >= 3


INSTALL = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from lab.example_target import install
if sys.argv[2].startswith("."):
    install(Path({site!r}), Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_every_block_of_the_tutorial_runs(tmp_path: Path) -> None:
    """pip leaves folders where they are found and fetches nothing; a scripted model on loopback answers."""
    work, packages = (tmp_path / name for name in ("work", "site"))
    for folder in (work, packages):
        folder.mkdir()
    shutil.copytree(ROOT / "examples", work / "examples")
    (tmp_path / "pip.py").write_text(INSTALL.format(root=str(ROOT), site=str(packages)))
    texts = [block for block in blocks(TUTORIAL) if FLEET not in block]
    assert not blocks(TUTORIAL, "text"), "a block that no test runs"
    with BadServer(answers(PlayingModel())) as server:
        said = paste(
            texts,
            work,
            scripts(tmp_path / "bin", OURS | {"pip": f'exec "{sys.executable}" "{tmp_path}/pip.py" "$@"'}),
            {
                "PYTHONPATH": os.pathsep.join(
                    filter(None, [str(packages), os.environ.get("PYTHONPATH", "")])
                ),
                "KERNELWRIGHT_DATA": str(tmp_path / "data"),
                "KERNELWRIGHT_BASE_URL": server.url,
                "KERNELWRIGHT_BUDGET_EVALUATIONS": "2",
                "KERNELWRIGHT_BASELINE": "eager",
            },
        )
        assert server.requests, "the model's block must have asked the model"
    assert "same answer: True" in said and "keep-rows-together" in said
    assert (work / "tail_report.html").exists()
