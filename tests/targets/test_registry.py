"""Targets by name: ours, those of installed packages, and what is said of one that cannot be used."""

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.agents.llm.answers import has_native_kernel
from kernelwright.agents.llm.prompts import least_tokens
from kernelwright.agents.teams import check_team
from kernelwright.core.errors import UserError
from kernelwright.targets import registry
from kernelwright.targets.device import PROCESSOR, DeviceKind
from kernelwright.targets.for_skills import skill_targets
from kernelwright.targets.registry import (
    BUILT_IN,
    all_targets,
    device_kinds,
    find_device_kind,
    find_target,
    known_names,
)

ON_GPUS = ("cuda/triton", "hip/triton", "cuda/cuda")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    registry.forget()


def install(folder: Path, name: str, value: str, source: str) -> None:
    """Make an importable package with an entry point, as an installation would."""
    (folder / "their_target.py").write_text(source)
    info = folder / "their_target-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-target\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = {value}\n")
    importlib.invalidate_caches()
    registry.forget()


def test_ours_are_there_without_any_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    registry.forget()
    assert known_names() == tuple(BUILT_IN)
    assert [str(target) for target in all_targets()] == list(BUILT_IN)
    assert [kind.name for kind in device_kinds()] == ["cpu", "cuda", "hip"]


def test_what_is_only_inspected_can_neither_be_written_nor_run() -> None:
    for to_run in (True, False):
        with pytest.raises(UserError, match="kernelwright inspect") as raised:
            find_target("hip/hip", to_run=to_run)
        assert "cpu/cpp" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ON_GPUS)
def test_what_needs_a_gpu_runs_where_that_kind_is(text: str) -> None:
    kind = find_device_kind(text.partition("/")[0])
    assert str(find_target(text, has_device=lambda asked: asked == kind)) == text
    with pytest.raises(UserError, match=r"needs a GPU of .* to run without one: cpu/cpp"):
        find_target(text, has_device=lambda asked: asked != kind)
    target = registry.target_of(find_target(text, has_device=lambda asked: True).name)
    if target.writer is not None:
        assert find_target(text, to_run=False, has_device=lambda asked: False) is target


def test_an_unknown_one_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UserError, match="known: cpu/cpp, cuda/triton, hip/triton, cuda/cuda"):
        find_target("tpu/pallas")
    with pytest.raises(UserError, match="known: cpu, cuda, hip"):
        find_device_kind("tpu")


THEIRS = """
from kernelwright.core.target import TargetName
from kernelwright.targets.base import Target
from kernelwright.targets.device import PROCESSOR

class Theirs(Target):
    name = TargetName(device="cpu", language="LANGUAGE")
    device = PROCESSOR

    @property
    def lowering(self):
        raise NotImplementedError

TARGET = Theirs()
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (THEIRS.replace("LANGUAGE", "theirs"), ""),
        (THEIRS.replace("LANGUAGE", "other"), "gives the target 'cpu/other'"),
        ("TARGET = 3", "gives int, not a Target"),
        ("import no_such_package_at_all", "does not load: .*no_such_package_at_all"),
    ],
)
def test_an_installed_package_adds_a_target_or_is_named_as_the_one_at_fault(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_target", raising=False)
    install(tmp_path, "cpu/theirs", "their_target:TARGET", source)
    assert "cpu/theirs" in known_names()
    if not words:
        found = find_target("cpu/theirs")
        assert found in all_targets() and found.device is PROCESSOR
        assert (found.writer, found.build, found.loader, found.prompting) == (None, None, None, None)
        return
    with pytest.raises(UserError, match=words) as raised:
        find_target("cpu/theirs")
    assert "\n" not in str(raised.value)
    assert [str(target) for target in all_targets()] == list(BUILT_IN), "the others are there all the same"


def test_an_installed_package_does_not_take_the_place_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "cpu/cpp", "their_target:TARGET", "raise ValueError")
    assert type(find_target("cpu/cpp")).__module__ == "kernelwright.targets.cpp.target"


def test_a_kind_of_device_says_what_the_referee_needs() -> None:
    kinds: dict[str, DeviceKind] = {kind.name: kind for kind in device_kinds()}
    assert not PROCESSOR.is_apart and PROCESSOR.driver is None and PROCESSOR.is_here()
    for name in ("cuda", "hip"):
        assert kinds[name].is_apart and kinds[name].driver is not None and kinds[name].baselines


THEIR_GPU = """
import re
from pathlib import Path

from kernelwright.core.target import TargetName
from kernelwright.targets.base import Prompting
from kernelwright.targets.cuda.device import NVIDIA
from kernelwright.targets.gpu.prompting import GPU_FOLDER, GpuCodeFeatures
from kernelwright.targets.gpu.target import GpuTarget

class Theirs(GpuTarget):
    name = TargetName(device="cuda", language="theirs")
    device = NVIDIA
    prompting = Prompting(
        language="Theirs",
        own=re.compile("@theirs"),
        folders=(Path(__file__).parent / "prompts", GPU_FOLDER),
        features=GpuCodeFeatures,
        facts={"foreign_kernels": "is Triton"},
    )

TARGET = Theirs()
"""


def test_a_gpu_s_language_that_models_write_is_one_object_and_its_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_target", raising=False)
    install(tmp_path, "cuda/theirs", "their_target:TARGET", THEIR_GPU)
    (tmp_path / "prompts").mkdir()
    for name in ("rules", "brief", "example"):
        (tmp_path / "prompts" / f"{name}.md").write_text(f"Their {name}.\n")
    name = find_target("cuda/theirs", has_device=lambda kind: True).name
    check_team("llm", name)
    with pytest.raises(UserError, match="the expert does not write for target 'cuda/theirs'"):
        check_team("expert", name)
    assert least_tokens("coder_write", name) > 0
    assert has_native_kernel("@theirs\ndef kernel(): ...", name) and not has_native_kernel("x = 1", name)
    assert skill_targets()["cuda/theirs"].shows_host_side
