"""The blocks of the README do what it says, pasted in order; in a file, so in a process, of their own."""

import shutil
from pathlib import Path

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import REFERENCE, PlayingModel
from tests.docs.test_blocks import OURS, README, ROOT, blocks, paste, scripts


@pytest.mark.slow
def test_every_block_of_the_readme_runs(tmp_path: Path) -> None:
    """make says what it would do, pip does nothing, and a scripted model on loopback answers for OpenAI.

    The example is smaller: timing its own sizes takes minutes.
    """
    work = tmp_path / "work"
    shutil.copytree(ROOT / "examples", work / "examples")
    example = work / "examples" / "gelu_layernorm.py"
    small = example.read_text().replace("tokens = 4096", "tokens = 64")
    assert "tokens = 64" in small
    example.write_text(small)
    (work / "model.py").write_text(REFERENCE)
    (work / "module_in_memory.py").write_text("".join(blocks(README, "python")))
    (work / ".venv" / "bin").mkdir(parents=True)
    (work / ".venv" / "bin" / "activate").touch()
    stand_ins = {"make": f'exec {shutil.which("make")} -C "{ROOT}" -n "$@"', "pip": 'echo pip "$@"'}
    with BadServer(answers(PlayingModel())) as server:
        said = paste(
            [*blocks(README), "python module_in_memory.py"],
            work,
            scripts(tmp_path / "bin", OURS | stand_ins),
            {
                "KERNELWRIGHT_DATA": str(tmp_path / "data"),
                "KERNELWRIGHT_BASE_URL": server.url,
                "KERNELWRIGHT_API_KEY": "none",
                "KERNELWRIGHT_BUDGET_EVALUATIONS": "2",
                "KERNELWRIGHT_BASELINE": "eager",
            },
        )
        assert server.requests, "the model's block must have asked the model"
    assert "out/demo.html" in said and "pytest" in said
    reports = ("gelu_layernorm_report.html", "model_report.html", "report.html")
    assert all((work / name).exists() for name in reports)
