"""The real process with the real referee: it says what a fresh one would say."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.referee.conftest import HEAD, LINEAR
from tests.warm.conftest import eventually

from kernelwright.api.judging import run_evaluate
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.places import AsText, AtPath
from kernelwright.core.request import EvaluateRequest
from kernelwright.machine import private_folder
from kernelwright.referee.sandbox.processes import ENDED, family_of, state_of
from kernelwright.settings import Settings, load_settings
from kernelwright.targets.device import PROCESSOR
from kernelwright.warm.client import end_warm, find_warm

pytestmark = pytest.mark.slow
SAME = LINEAR.replace("class Model(", "class ModelNew(")
KERNELS = {
    "right": SAME,
    "wrong": SAME.replace("torch.relu(", "torch.tanh("),
    "raises": SAME.replace("return torch.relu", "raise ValueError(1)\n        return torch.relu"),
    "unparsed": "class ModelNew(:",
    "dead": SAME.replace("return torch.relu", "import os; os._exit(3)\n        return torch.relu"),
    "tampers": SAME + "\ntorch.relu = lambda x: x.clamp(min=0)\n",
    "compiled": SAME + "\n_forward = ModelNew.forward\nModelNew.forward = torch.compile(_forward)\n",
}


@pytest.fixture(autouse=True)
def machine() -> Iterator[None]:
    """The machine's own places: the process that is started knows no others."""
    private_folder.private_folder.cache_clear()
    yield


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A cache folder of these tests, hence a warm referee of their own."""
    cache = tmp_path_factory.mktemp("cache")
    yield replace(load_settings(), cache_dir=cache, data_dir=cache, store="")
    end_warm(cache, PROCESSOR.name)


def verdicts(where: Settings, *names: str, task: str = LINEAR, fresh: bool = False) -> list[Evaluation]:
    kernels = tuple(AsText(name=name, source=KERNELS[name]) for name in names)
    request = EvaluateRequest(task=AsText(name="linear", source=task), kernels=kernels, fresh_referee=fresh)
    return list(run_evaluate(request, settings=where, tell=print))


def has_ended(pid: int) -> bool:
    return state_of(pid) in (None, *ENDED)


def pid_of(where: Settings) -> int:
    found = find_warm(where.cache_dir, PROCESSOR.name)
    assert found is not None
    return found.pid


def test_warm_and_fresh_verdicts_agree(where: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "of the one who starts it")
    warm = verdicts(where, *KERNELS)
    fresh = verdicts(where, *KERNELS, fresh=True)
    for one, two in zip(warm, fresh, strict=True):
        words = [(e.status, e.stage, e.check, e.candidate_id, e.task_id, e.policy) for e in (one, two)]
        assert words[0] == words[1], (one.detail, two.detail)
        assert all(result.floor_ms for evaluation in (one, two) for result in evaluation.results)
    assert [e.status for e in warm][:4] == [
        Status.VERIFIED, Status.INCORRECT_NUMERICS, Status.RUNTIME_ERROR, Status.PARSE_ERROR,
    ]  # fmt: skip
    assert b"MY_SECRET" not in Path(f"/proc/{pid_of(where)}/environ").read_bytes()


def test_a_task_whose_files_change_is_not_judged_by_what_it_was(where: Settings, tmp_path: Path) -> None:
    helper = tmp_path / "scale.txt"
    task = f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return x * FACTOR
FACTOR = float(open({str(helper)!r}).read())
def get_inputs():
    return [torch.rand(16, 16)]
def get_init_inputs():
    return []
"""
    path = tmp_path / "task.py"
    path.write_text(task, encoding="utf-8")
    kernel = f"{HEAD}\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x * 2.0\n"
    request = EvaluateRequest(
        task=AtPath(path=str(path)), kernels=(AsText(name="k", source=kernel),), fresh_referee=False
    )
    found = []
    for factor in ("2.0", "3.0", "2.0 "):
        helper.write_text(factor, encoding="utf-8")
        found += [evaluation.status for evaluation in run_evaluate(request, settings=where)]
    assert found == [Status.VERIFIED, Status.INCORRECT_NUMERICS, Status.VERIFIED]


def test_a_process_that_is_killed_leaves_nothing_and_a_fresh_one_judges(where: Settings) -> None:
    assert verdicts(where, "right")[0].is_verified
    pid = pid_of(where)
    family = family_of(pid)
    assert len(family) > 2
    request = EvaluateRequest(
        task=AsText(name="linear", source=LINEAR),
        kernels=tuple(AsText(name=name, source=KERNELS[name]) for name in ("right", "wrong")),
    )
    lines: list[str] = []
    found = run_evaluate(request, settings=where, tell=lines.append)
    assert next(found).is_verified
    os.kill(pid, signal.SIGKILL)
    assert next(found).status is Status.INCORRECT_NUMERICS
    assert any("judging in a fresh referee" in line for line in lines)
    assert eventually(lambda: all(map(has_ended, family)))
    assert verdicts(where, "right")[0].is_verified and pid_of(where) != pid


def test_a_warm_referee_that_would_not_stay_is_not_started(tmp_path: Path) -> None:
    request = EvaluateRequest(
        task=AsText(name="linear", source=LINEAR),
        kernels=(AsText(name="right", source=KERNELS["right"]),),
        referee_idle=0,
    )
    where, lines = Settings(cache_dir=tmp_path, data_dir=tmp_path, store=""), list[str]()
    assert next(iter(run_evaluate(request, settings=where, tell=lines.append))).is_verified
    assert find_warm(tmp_path, PROCESSOR.name) is None and not any("warm" in line for line in lines)


def test_ending_it_ends_all_its_processes(where: Settings) -> None:
    assert verdicts(where, "right")[0].is_verified
    family = family_of(pid_of(where))
    assert end_warm(where.cache_dir, PROCESSOR.name) is not None
    assert eventually(lambda: all(map(has_ended, family)))
