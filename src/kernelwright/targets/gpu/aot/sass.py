"""NVIDIA's machine code as text: ``cuobjdump -sass`` or ``nvdisasm``."""

import re

from kernelwright.targets.gpu.aot.mix import Instruction, InstructionMix, Kind, mix_of

_FUNCTION = re.compile(r"^\s*(?:Function : (?P<cuobjdump>\S+)|\.text\.(?P<nvdisasm>[^:\s]+):)\s*$")
_LINE = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][A-Z0-9_.]*)\s*(?P<operands>[^;]*);"
)
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("LDG", "LD"), "global_load"),
    **dict.fromkeys(("STG", "ST"), "global_store"),
    **dict.fromkeys(("LDS", "STS", "LDSM", "STSM", "ATOMS"), "shared"),
    **dict.fromkeys(("LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "UTMAREDG"), "async_copy"),
    **dict.fromkeys(("LDL", "STL"), "local"),
    **dict.fromkeys(("FFMA", "FFMA2", "HFMA2", "DFMA"), "fma"),
    "MUFU": "special",
    **dict.fromkeys(("SHFL", "REDUX"), "shuffle"),
    **dict.fromkeys(("ATOM", "ATOMG", "RED", "REDG"), "atomic"),
    "BAR": "barrier",
    **dict.fromkeys(("BRA", "BRX", "JMP", "JMX"), "branch"),
}
_MATRIX = re.compile(r"(?:[HIDBQO]|[HIQB]G|UTC[HIQO])MMA")
_CONSTANT = re.compile(r"\bR\d+, -RZ, RZ,")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def parse_sass(text: str) -> dict[str, InstructionMix]:
    """Return the instruction mix by function; the padding after the code does not count.

    Text that is no SASS gives an empty dict.
    """
    functions: dict[str, list[tuple[str, Instruction]]] = {}
    current: list[tuple[str, Instruction]] | None = None
    for line in text.splitlines():
        title = _FUNCTION.match(line)
        if title is not None:
            current = functions.setdefault(title["cuobjdump"] or title["nvdisasm"], [])
            continue
        match = _LINE.match(line)
        if match is not None and current is not None:
            current.append((match["opcode"], _classify(match["opcode"], match["operands"])))
    return {name: mix_of(found for _, found in _without_padding(code)) for name, code in functions.items()}


def _classify(opcode: str, operands: str) -> Instruction:
    base, *modifiers = opcode.split(".")
    if base == "HFMA2" and _CONSTANT.search(operands):
        return "other", 0  # loads a constant
    kind: Kind = "matrix" if _MATRIX.fullmatch(base) else _KINDS.get(base, "other")
    if kind not in ("global_load", "global_store"):
        return kind, 0
    return kind, next((_WIDTHS[name] for name in modifiers if name in _WIDTHS), 4)


def _without_padding(code: list[tuple[str, Instruction]]) -> list[tuple[str, Instruction]]:
    """Drop the NOPs at the end, and the jump to itself in front of them."""
    end = len(code)
    while end and code[end - 1][0] == "NOP":
        end -= 1
    return code[: end - 1] if end and code[end - 1][0] == "BRA" else code[:end]
