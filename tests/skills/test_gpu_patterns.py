"""The worked patterns for GPUs are code: nvcc takes the CUDA, clang or g++ the HIP, Triton its own."""

import importlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.marks import each_nth

from kernelwright.skills.lint import patterns
from kernelwright.skills.load import load_skills
from kernelwright.targets.cuda.nvcc.find import Absent
from kernelwright.targets.hip.hipcc.find import find_hip_compiler
from kernelwright.targets.hip.hipcc.report import SHIM as HIP_SHIM

SKILLS = {name: skill for name, skill in load_skills().items() if "cpu/cpp" not in skill.targets}
SHIM = Path(__file__).parent / "hip_shim.h"


def one_file(language: str, names: Iterable[str] = SKILLS) -> str:
    """All patterns of a language in one source, each in a namespace, with the includes in front."""
    includes, parts = set[str](), list[str]()
    for name, skill in ((name, SKILLS[name]) for name in names):
        for number, code in enumerate(patterns(skill, language)):
            includes |= set(re.findall(r"^#include .+$", code, re.MULTILINE))
            body = re.sub(r"^#include .+$", "", code, flags=re.MULTILINE)
            space = f"{name.replace('-', '_')}_{number}"
            parts.append(f'#line 1 "{name}.md"\nnamespace {space} {{\n{body}\n}}')
    return "\n".join([*sorted(includes), *parts])


OLDER = {"sm_80": ["mma-fragments", "register-tile", "stream-k"], "sm_89": ["block-scaled-fp8"]}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("architecture", ["sm_90a", *OLDER])
def test_cuda_patterns_become_machine_code(architecture: str, tmp_path: Path) -> None:
    """PTX holds inline assembly as it was written; only the assembler reads it."""
    source = tmp_path / "patterns.cu"
    source.write_text(one_file("cuda", OLDER.get(architecture, SKILLS)), encoding="utf-8")
    command = ["nvcc", "-std=c++17", f"-arch={architecture}", "-cubin", "-o", str(tmp_path / "out.cubin")]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


HIP_COMPILER = find_hip_compiler()
NEEDS_ROCM = {"occupancy-fit"}
"""``erff`` comes with ROCm's libraries."""


@pytest.mark.slow
def test_hip_patterns_compile_for_cdna(tmp_path: Path) -> None:
    if isinstance(HIP_COMPILER, Absent):
        pytest.skip(HIP_COMPILER.reason)
    source = tmp_path / "patterns.hip"
    alone = HIP_COMPILER.kind == "clang"
    names = [name for name in SKILLS if not (alone and name in NEEDS_ROCM)]
    source.write_text(one_file("hip", names), encoding="utf-8")
    command = [str(HIP_COMPILER.path), "-std=c++17", "-O2", "-x", "hip", "--offload-arch=gfx942", "-S"]
    command += ["--cuda-device-only", "-o", str(tmp_path / "out.s")]
    command += ["-nogpulib", "-nogpuinc", "-include", str(HIP_SHIM)] if alone else []
    done = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assembly = (tmp_path / "out.s").read_text(encoding="utf-8")
    for instruction in ("v_mfma_f32_32x32x8_f16", "v_mfma_f32_16x16x4_f32", "row_bcast:31"):
        assert instruction in assembly


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_hip_patterns_have_sound_syntax_and_types(tmp_path: Path) -> None:
    source = tmp_path / "patterns.cpp"
    source.write_text(one_file("hip"), encoding="utf-8")
    flags = ["-std=c++17", "-fsyntax-only", "-w", "-include", str(SHIM)]
    done = subprocess.run(["g++", *flags, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


TRITON = [name for name, skill in SKILLS.items() if patterns(skill, "triton")]
FLOATS = {"eps", "scale"}
POINTERS = {
    "_e4m3_ptr": "*fp8e4nv",
    "_u8_ptr": "*u8",
    "_half_ptr": "*fp16",
    "_bf16_ptr": "*bf16",
    "_i32_ptr": "*i32",
    "_ptr": "*fp32",
}


@pytest.mark.parametrize("name", TRITON)
def test_triton_patterns_are_python_with_a_kernel(name: str) -> None:
    for code in patterns(SKILLS[name], "triton"):
        compile(code, f"{name}.md", "exec")
        assert "@triton.jit" in code


@pytest.mark.parametrize("name", each_nth(TRITON, 4))
def test_triton_patterns_compile_ahead_of_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    for number, code in enumerate(patterns(SKILLS[name], "triton")):
        module = load(tmp_path / f"pattern_{number}.py", code)
        for kernel in vars(module).values():
            if isinstance(kernel, triton.JITFunction) and not kernel.fn.__name__.startswith("_"):
                ahead_of_time(kernel, SKILLS[name].targets)


def load(file: Path, code: str) -> ModuleType:
    """Import the code from a real file, since Triton reads its own source."""
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ahead_of_time(kernel: Any, targets: tuple[str, ...]) -> None:
    """Compile with types from the arguments' names, and constants from their defaults."""
    triton = importlib.import_module("triton")
    gpu = importlib.import_module("triton.backends.compiler").GPUTarget
    source = importlib.import_module("triton.compiler").ASTSource
    constants = {p.name: p.default for p in kernel.params if p.is_constexpr}
    signature = {name: "constexpr" if name in constants else kind(name) for name in kernel.arg_names}
    attributes = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(kernel.arg_names)
        if signature[name] not in ("constexpr", "fp32")
    }
    target = gpu("cuda", 90, 32) if "cuda/triton" in targets else gpu("hip", "gfx942", 64)
    compiled = triton.compile(source(kernel, signature, constants, attributes), target=target)
    assert "cubin" in compiled.asm or "hsaco" in compiled.asm


def kind(name: str) -> str:
    if name in FLOATS:
        return "fp32"
    return next((type_ for end, type_ in POINTERS.items() if name.endswith(end)), "i32")


HOST_SIDE = {
    "graph-replay",
    "leave-to-library",
    "library-with-epilogue",
    "overlapped-kernels",
    "padded-leading-dimension",
}
"""Skills about what the host does: the same Python whatever the kernels are written in."""


def test_every_skill_shows_code_for_each_of_its_languages() -> None:
    for skill in SKILLS.values():
        languages = {target.partition("/")[2] for target in skill.targets}
        shown = {language for language in languages if patterns(skill, language)}
        assert shown == (set() if skill.name in HOST_SIDE else languages), skill.name
        assert bool(patterns(skill, "python")) == (skill.name in HOST_SIDE), skill.name


def test_a_replayed_graph_is_not_that_of_other_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    (code,) = patterns(SKILLS["graph-replay"], "python")
    scope: dict[str, Any] = {}
    exec(compile(code, "graph-replay.md", "exec"), scope)
    captures = []

    class Graph:
        def replay(self) -> None: ...

    def capture(self: Any, inputs: Any) -> Any:
        captures.append(inputs)
        return Graph(), [x.clone() for x in inputs], inputs[0]

    monkeypatch.setattr(scope["Replayed"], "capture", capture)
    module, x = torch.nn.Linear(2, 2), torch.rand(3, 2)
    replayed = scope["Replayed"](module, module)
    replayed(x), replayed(x + 1)
    assert len(captures) == 1
    kept, module.weight = module.weight, torch.nn.Parameter(module.weight + 1)
    replayed(x)
    replayed(x[:2])
    assert len(captures) == 3 and kept is not module.weight
