"""KernelBench's form of CUDA: sources that torch's ``load_inline`` would compile when it is called."""

import ast
import re
from dataclasses import dataclass
from typing import Any

from kernelwright.targets.cuda.nvcc.device_part import take_device_part
from kernelwright.targets.cuda.nvcc.form import ALLOWED_FLAG, DEFAULT_FLAGS
from kernelwright.targets.cuda.nvcc.host_launches import HostLaunch, host_launches, known_numbers
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt

_POSITIONS = ("name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags")
"""load_inline's parameters in their order, as far as we read them."""
_HEADERS = (
    "cuda_runtime.h", "algorithm", "cfloat", "climits", "cmath", "cstdint", "limits", "type_traits",
    "utility",
)  # fmt: skip
"""What device code is used to get through torch/extension.h."""
_NESTING = 8
"""Of names that stand for other names; each step may double the text."""
_FLAGS_OF_TORCH = (
    "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__", "--expt-relaxed-constexpr",
)  # fmt: skip
"""What it compiles every CUDA source with (torch 2.x, utils/cpp_extension.py, COMMON_NVCC_FLAGS)."""
_NUMBERED = re.compile(r"\b(?:sm|compute)_(\d+[af]?)\b")
LONGEST_SOURCE = 100_000
_NEEDS_TORCH = re.compile(r"\b(?:torch|at|c10)::[\w:]+")


@dataclass(frozen=True)
class InlineCuda:
    """The device code of a candidate, ready for nvcc without torch's headers."""

    text: str
    flags: tuple[str, ...]
    launches: tuple[HostLaunch, ...]
    functions: tuple[str, ...]
    """What the candidate asks to have bound."""
    notes: tuple[str, ...]
    """What was assumed or left out."""
    architectures: tuple[str, ...] = ()
    """What its flags ask to be compiled for, ``sm_90a``; torch adds no architecture of its own then."""

    @property
    def needs_torch(self) -> str | None:
        """Return the first name of torch's that the device code uses."""
        found = _NEEDS_TORCH.search(self.text)
        return found[0] if found else None


def read_load_inline(candidate: str) -> InlineCuda | NotBuilt | None:
    """Return the CUDA that a candidate hands to ``load_inline``, None when it hands over none.

    NotBuilt when a source is put together at run time. Of several calls the sources are joined. ``scalar_t``
    of ``AT_DISPATCH_...`` is taken as float.
    """
    try:
        tree = ast.parse(candidate)
    except (SyntaxError, ValueError) as error:
        return NotBuilt(BuildStatus.NOT_THE_FORM, f"the candidate is no Python: {error}")
    names = _assigned(tree)
    calls = [_arguments(node) for node in ast.walk(tree) if _is_call(node)]
    calls = [call for call in calls if "cuda_sources" in call]
    sources, flags, functions = list[str](), list[str](), list[str]()
    for call in calls:
        given = _strings(call["cuda_sources"], names)
        if given is None:
            words = ast.unparse(call["cuda_sources"])[:80]
            return NotBuilt(
                BuildStatus.NOT_THE_FORM, f"cuda_sources is no literal, nor a name of one: {words}"
            )
        sources += given
        flags += _strings(call.get("extra_cuda_cflags"), names) or []
        functions += _strings(call.get("functions"), names) or []
    source = "\n".join(sources)
    if len(source) > LONGEST_SOURCE:
        words = f"cuda_sources of {len(source)} characters; read are up to {LONGEST_SOURCE}"
        return NotBuilt(BuildStatus.NOT_THE_FORM, words)
    return _prepared(source, flags, functions) if source.strip() else None


def _prepared(source: str, flags: list[str], functions: list[str]) -> InlineCuda:
    part = take_device_part(source)
    launches = host_launches(part.host, part.device)
    notes = []
    if "scalar_t" in part.device or "scalar_t" in part.host:
        notes.append("scalar_t taken as float")
    architectures = dict.fromkeys(f"sm_{found}" for flag in flags for found in _NUMBERED.findall(flag))
    own = [flag for flag in flags if flag and not (architectures and _is_of_architecture(flag))]
    used, left_out = _compiled_with(own)
    if left_out:
        notes.append(f"compiled without {' '.join(left_out)}")
    lines = [f"#include <{header}>" for header in _HEADERS]
    lines += ['#line 1 "kernel.cu"', part.device, *_uses(launches, part.host, part.device), ""]
    return InlineCuda(
        text="\n".join(lines),
        flags=used,
        launches=launches,
        functions=tuple(functions),
        notes=tuple(notes),
        architectures=tuple(architectures),
    )


def _is_of_architecture(flag: str) -> bool:
    """Return what torch too takes for a sign that it need name none (``_get_cuda_arch_flags``)."""
    return "arch" in flag or flag == "-gencode"


def _compiled_with(flags: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the flags to compile with, ours and torch's before the candidate's, and which are left out."""
    undone = {flag for flag in flags if f"-D{flag.removeprefix('-U')}" in _FLAGS_OF_TORCH}
    of_torch = [flag for flag in _FLAGS_OF_TORCH if f"-U{flag.removeprefix('-D')}" not in undone]
    left_out = [flag for flag in flags if flag not in undone and not ALLOWED_FLAG.fullmatch(flag)]
    kept = [flag for flag in flags if ALLOWED_FLAG.fullmatch(flag)]
    return tuple(dict.fromkeys((*DEFAULT_FLAGS, *of_torch, *kept))), left_out


def _uses(launches: tuple[HostLaunch, ...], host: str, device: str) -> list[str]:
    """Return host functions that name the kernels that are templates, which is what makes them exist."""
    local = {name: value for name, value in known_numbers(host).items() if name not in known_numbers(device)}
    numbers = "".join(f" constexpr int {name} = {value};" for name, value in local.items())
    wanted = dict.fromkeys((launch.kernel, launch.types) for launch in launches if launch.types)
    return [
        f"const void* kernelwright_use_{number}() {{ using scalar_t = float;{numbers}"
        f" return reinterpret_cast<const void*>(&{kernel}<{types}>); }}"
        for number, (kernel, types) in enumerate(wanted)
    ]


def _is_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "load_inline"


def _arguments(node: Any) -> dict[str, ast.expr]:
    given = dict(zip(_POSITIONS, node.args, strict=False))
    found = given | {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    return {name: value for name, value in found.items() if ast.unparse(value) != "None"}


def _assigned(tree: ast.Module) -> dict[str, ast.expr | None]:
    """Return what names stand for; None for one that is assigned twice."""
    found: dict[str, ast.expr | None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                found[target.id] = None if target.id in found else node.value
    return found


def _strings(value: ast.expr | None, names: dict[str, ast.expr | None], depth: int = 0) -> list[str] | None:
    """Return the strings that an expression of literals, names, lists and sums stands for."""
    if value is None or depth > _NESTING:
        return None
    if isinstance(value, ast.Constant):
        return [value.value] if isinstance(value.value, str) else None
    if isinstance(value, ast.Name):
        return _strings(names.get(value.id), names, depth + 1)
    if isinstance(value, ast.List | ast.Tuple):
        parts = [_strings(element, names, depth + 1) for element in value.elts]
        return None if None in parts else [text for part in parts for text in part or []]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        left, right = _strings(value.left, names, depth + 1), _strings(value.right, names, depth + 1)
        if left is None or right is None:
            return None
        is_text = len(left) == len(right) == 1
        return [left[0] + right[0]] if is_text else [*left, *right]
    return None
