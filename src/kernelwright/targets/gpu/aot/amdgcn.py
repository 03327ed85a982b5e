"""AMD's assembly, as LLVM's AMDGPU back end writes it: instructions and the metadata at its end."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from kernelwright.targets.gpu.aot.mix import Instruction, InstructionMix, Kind, mix_of
from kernelwright.targets.gpu.aot.resources import KernelResources

_METADATA = re.compile(r"^\s*\.amdgpu_metadata\s*$(.*?)^\s*\.end_amdgpu_metadata", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^(?P<name>[A-Za-z_$][\w$.]*):")
_END = re.compile(r"^\.Lfunc_end\d+:")
_OPCODE = re.compile(r"^\s+(?P<opcode>(?:s|v|ds|global|flat|buffer|scratch)_[a-z0-9_]+)(?P<operands>[^;]*)")
_REMARK = re.compile(r"^; Occupancy: (\d+)", re.MULTILINE)
_DWORDS = re.compile(r"_dword(?:x(\d))?$")
_NARROW = {"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2}
_PATTERNS: dict[str, Kind] = {
    r"(global|flat|buffer)_atomic_": "atomic",
    r"ds_(bpermute|permute|swizzle)": "shuffle",
    r"v_(readlane|readfirstlane|writelane|permlane\w*|mov_b32_dpp|\w+_dpp)": "shuffle",
    r"ds_\w*(read|write|load|store|add|min|max|cmpst)": "shared",
    r"scratch_": "local",
    r"(global|flat|buffer)_load_": "global_load",
    r"(global|flat|buffer)_store_": "global_store",
    r"v_(mfma|smfmac|wmma|swmmac)_": "matrix",
    r"v_(pk_)?(fma|fmac|fmamk|fmaak|mac|mad)_(mix_|legacy_)?(f16|f32|f64|bf16)": "fma",
    r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_": "special",
    r"s_barrier": "barrier",
    r"s_(cbranch|branch|setpc)": "branch",
}
"""Beginning of an opcode -> kind; the first that matches counts."""
_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in _PATTERNS.items())


def parse_amdgcn(text: str) -> dict[str, InstructionMix]:
    """Return the instruction mix by function; text without any gives an empty dict."""
    return {name: mix_of(_classify(*line) for line in code) for name, code in _functions(text) if code}


def _functions(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    name, code = "", list[tuple[str, str]]()
    for line in text.splitlines():
        label, instruction = _LABEL.match(line), _OPCODE.match(line)
        if _END.match(line):
            yield name, code
            name, code = "", []
        elif label is not None and not code:
            name = label["name"]
        elif instruction is not None and name:
            code.append((instruction["opcode"], instruction["operands"]))


def _classify(opcode: str, operands: str) -> Instruction:
    if re.match(r"(global|buffer)_load_lds_", opcode) or re.search(r"\blds\b", operands):
        return "async_copy", 0
    kind: Kind = next((kind for pattern, kind in _KINDS if pattern.match(opcode)), "other")
    return kind, _width(opcode) if kind in ("global_load", "global_store") else 0


def _width(opcode: str) -> int:
    dwords = _DWORDS.search(opcode)
    if dwords is not None:
        return 4 * int(dwords[1] or 1)
    return next((width for name, width in _NARROW.items() if f"_{name}" in opcode), 4)


def parse_amd_metadata(text: str) -> dict[str, KernelResources]:
    """Return the resources by kernel, from the metadata that every AMDGPU assembly file carries.

    Metadata that is missing or no YAML gives an empty dict. The ``Occupancy`` remark is used where the file
    holds a single kernel.
    """
    block = _METADATA.search(text)
    try:
        data: Any = yaml.safe_load(block[1]) if block else None
    except yaml.YAMLError:
        return {}
    kernels = data.get("amdhsa.kernels", []) if isinstance(data, dict) else []
    remarks = _REMARK.findall(text)
    waves = int(remarks[0]) if len(kernels) == 1 and remarks else None
    complete = [k for k in kernels if isinstance(k, dict) and {".name", ".vgpr_count"} <= k.keys()]
    return {kernel[".name"]: _resources(kernel, waves) for kernel in complete}


def _resources(kernel: dict[str, Any], waves: int | None) -> KernelResources:
    return KernelResources(
        kernel=kernel[".name"],
        registers=kernel[".vgpr_count"],
        scalar_registers=kernel.get(".sgpr_count"),
        spills=kernel.get(".vgpr_spill_count"),
        local_bytes=kernel.get(".private_segment_fixed_size"),
        static_shared_bytes=kernel.get(".group_segment_fixed_size", 0),
        reported_waves=waves,
    )
