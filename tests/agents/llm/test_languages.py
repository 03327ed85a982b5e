"""Answers in each language: examples are right, loaders come and go, other languages have a name."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agents.llm.conftest import REFERENCE
from tests.targets.cuda.candidates import render_cuda_candidate
from tests.targets.triton.interpreted import Interpreter
from tests.targets.triton.judging import FEW, Judge

from kernelwright.agents.llm.answers import ExpectedAnswer, find_blocks, has_native_kernel, read_source
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.llm.sources import LOADER_LINE, fold, unfold
from kernelwright.core.errors import UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.core.task import Task
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.cuda.nvcc.form import CudaSource
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus
from kernelwright.targets.cuda.nvcc.read import read_cuda_source
from kernelwright.targets.cuda.nvcc.report import report_cuda
from kernelwright.targets.cuda.runtime_source import LOADER
from kernelwright.targets.registry import all_targets

TRITON, CUDA = TargetName(device="cuda", language="triton"), TargetName(device="cuda", language="cuda")
TARGETS = {"cpp": CPU_CPP, "triton": TRITON, "cuda": CUDA}
PROMPTED = {
    target.name.language: target.prompting for target in all_targets() if target.prompting is not None
}
BLOCKS = {
    language: find_blocks(told.file("example.md").read_text(encoding="utf-8"))
    for language, told in PROMPTED.items()
}
EXAMPLES = {language: unfold(blocks[1].text) for language, blocks in BLOCKS.items()}
PLAIN = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.abs()\n"
HIP = EXAMPLES["cuda"].replace("CUDA_SOURCE =", "HIP_SOURCE =")
INLINE = PLAIN.replace(
    "class", 'S = "__global__ void k(float* x) {}"\nlib = load_inline(cuda_sources=S)\nclass'
)
LAUNCH = {
    "name": "k", "kernel": "k", "grid": (4, 1, 1), "block": (256, 1, 1), "arguments": ("tensor", "int32"),
}  # fmt: skip


def outcome(source: str, target: TargetName) -> tuple[CallOutcome, str]:
    judged = read_source(f"```python\n{source}```", ExpectedAnswer(REFERENCE, target))
    return judged.outcome, judged.detail


@pytest.mark.parametrize("language", PROMPTED)
def test_every_example_is_of_the_same_module_and_is_a_usable_answer(language: str) -> None:
    assert BLOCKS[language][0].text == REFERENCE
    assert outcome(BLOCKS[language][1].text, TARGETS[language]) == (CallOutcome.OK, "")


@pytest.mark.parametrize(
    ("language", "source", "said"),
    [
        ("triton", EXAMPLES["cpp"], "written in C++; the target is cuda/triton"),
        ("triton", EXAMPLES["cuda"], "written in CUDA C++"),
        ("triton", HIP, "written in CUDA C++"),
        ("triton", INLINE, "written in CUDA C++"),
        ("triton", PLAIN, "no kernel of its own for cuda/triton"),
        ("triton", PLAIN.replace("import torch", "import torch, triton"), "no kernel of its own"),
        ("cuda", EXAMPLES["triton"], "written in Triton; the target is cuda/cuda"),
        ("cuda", EXAMPLES["cpp"], "written in C++ for the processor"),
        ("cuda", HIP, "written in HIP"),
        ("cuda", PLAIN, "no kernel of its own for cuda/cuda"),
        ("cpp", EXAMPLES["triton"], "written in Triton"),
        ("cpp", EXAMPLES["cuda"], "written in CUDA"),
    ],
)
def test_another_language_has_a_name(language: str, source: str, said: str) -> None:
    found, detail = outcome(source, TARGETS[language])
    assert found is CallOutcome.WRONG_LANGUAGE and said in detail, detail


def test_words_about_other_languages_are_no_kernels_in_them() -> None:
    source = EXAMPLES["triton"].replace(
        '"""One program', '"""As a __global__ function or a C++ loop would; one program'
    )
    assert outcome(source, TRITON) == (CallOutcome.OK, "")
    helped = EXAMPLES["triton"].replace("@triton.jit", "@triton.heuristics({})\n@triton.jit")
    assert has_native_kernel(helped, TRITON) and has_native_kernel(INLINE, CUDA)
    assert not has_native_kernel(PLAIN.replace("class", "@torch.jit.script\nclass"), TRITON)


def test_a_language_that_nobody_is_asked_for_is_one_clear_line() -> None:
    with pytest.raises(UserError, match=r"asked for kernels for cpu/cpp, .*cuda/cuda; not for 'hip/hip'"):
        prompting_of(TargetName(device="hip", language="hip"))


def test_the_loader_is_that_of_the_file_s_language() -> None:
    folded = fold(EXAMPLES["cuda"])
    assert folded == BLOCKS["cuda"][1].text and "_load_library" not in folded
    assert LOADER.strip() in EXAMPLES["cuda"] and "CPP_SOURCE" not in EXAMPLES["cuda"]
    assert EXAMPLES["triton"] == BLOCKS["triton"][1].text, "Triton needs none"
    assert fold(EXAMPLES["triton"]) == EXAMPLES["triton"]
    assert "CPP_SOURCE, *CXX_FLAGS" in EXAMPLES["cpp"] and "LAUNCHES" not in EXAMPLES["cpp"]


_NAMES = st.sampled_from(("x", "CUDA_SOURCE", "CPP_SOURCE", LOADER_LINE, "import os", "''", "\\n", "é"))


@settings(max_examples=60)
@given(code=st.lists(_NAMES, max_size=4), model=st.lists(_NAMES, max_size=3))
def test_what_is_folded_is_put_back_exactly(code: list[str], model: list[str]) -> None:
    comments = [f"# {name}" for name in model if name != LOADER_LINE]
    words = [f"// {name}" for name in code]
    source = render_cuda_candidate("\n".join(words), [LAUNCH], "\n".join([*comments, "class ModelNew: pass"]))
    folded = fold(source)
    assert LOADER_LINE in folded and "_load_library" not in folded
    assert unfold(folded) == source and fold(unfold(folded)) == folded


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed: its interpreter runs the example")
    found = Interpreter()
    yield found
    found.close()


def fewer_rows(source: str) -> str:
    """Return the example with 40 rows in place of 512: the interpreter takes a second for a hundred."""
    return source.replace("512", "40")


def test_the_example_in_triton_is_what_the_referee_wants(interpreter: Interpreter) -> None:
    judge, source = Judge(Task(name="relu_sum", source=fewer_rows(REFERENCE))), fewer_rows(EXAMPLES["triton"])
    for trial in judge.trials(FEW):
        judge.check(trial, interpreter.forward(source, judge.init, trial.state, trial.inputs))


def test_a_wrong_example_would_be_found(interpreter: Interpreter) -> None:
    judge = Judge(Task(name="relu_sum", source=fewer_rows(REFERENCE)))
    (trial,) = judge.trials(FEW[:1])
    wrong = fewer_rows(EXAMPLES["triton"]).replace("v < 0.0, 0.0, v", "v < -0.01, 0.0, v")
    with pytest.raises(AssertionError, match="out0 on as_is"):
        judge.check(trial, interpreter.forward(wrong, judge.init, trial.state, trial.inputs))


@pytest.mark.skipif(isinstance(find_cuda_compiler(), Absent), reason="needs nvcc or NVRTC")
def test_the_example_in_cuda_compiles_and_its_launch_fits(tmp_path: Path) -> None:
    form = read_cuda_source(EXAMPLES["cuda"])
    assert isinstance(form, CudaSource), form
    report = report_cuda(form, "sm_90", tmp_path)
    assert report.status is BuildStatus.BUILT, f"{report.message}\n{report.log}"
    (launch,) = report.launches
    assert launch.launch == "relu_sum" and launch.facts.get("aot.spills") == 0
    assert launch.facts.get("aot.resident_blocks") != 0
