"""One region as Triton: the kernel, and the Python function that launches it on tensors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.ir.arguments import Argument, signature
from kernelwright.ir.program import Buffer, Region
from kernelwright.ir.text import wrapped
from kernelwright.targets.triton.attention import AttentionWriter
from kernelwright.targets.triton.dot import DotWriter
from kernelwright.targets.triton.kernel import KernelWriter
from kernelwright.targets.triton.schedule import Decided, decide
from kernelwright.targets.triton.stream import PartsWriter, StreamWriter
from kernelwright.targets.triton.text import PythonNames, short

IMPORTS = "import triton\nimport triton.language as tl"
WIDTH = 100
"""Characters of a line of calls."""
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int16": 2}


@dataclass(frozen=True)
class Kernel:
    """One printed kernel and how it is launched."""

    name: str
    """Of the launching function, which takes the tensors in the order of ``arguments``."""
    arguments: tuple[Argument, ...]
    text: str
    """The kernel or kernels and the launching function."""
    constants: Mapping[str, int]
    """Block sizes of the first kernel."""
    programs: int
    """Of the first kernel."""
    num_warps: int
    num_stages: int


def print_kernel(region: Region, buffers: Mapping[str, Buffer] | None = None) -> Kernel:
    """Return a region as a kernel with its launching function; shared tiles take a second kernel.

    ``buffers``: what is known of the tensors, for the traffic that the docstring names. Raises
    LoweringError for an operation or type that Triton cannot print.
    """
    decided = decide(region)
    arguments = signature(region)
    free = PythonNames([region.name])
    names = [free.new(short(a.name)) for a in arguments]
    pointers = {a.buffer: f"{name}_ptr" for a, name in zip(arguments, names, strict=True)}
    doc = _docstring(region, decided, arguments, buffers or {})
    parts = free.new("parts")
    launches = _launches(region.name, decided, pointers, f"{parts}_ptr")
    lines, launcher = list[str](), [_call(f"def {region.name}(", names, "):", "")]
    if decided.stream:
        launcher += _room_for_parts(parts, names[0], decided)
        names.append(parts)
    for launch in launches:
        lines += [*launch.definition(doc), "", ""]
        launcher.append(launch.call(names, decided))
        doc = ['    """Adds the parts of each tile that several programs worked on, and finishes it."""']
    return Kernel(
        name=region.name,
        arguments=arguments,
        text="\n".join([*lines, *launcher]) + "\n",
        constants=dict(launches[0].writer.constants),
        programs=launches[0].programs,
        num_warps=decided.num_warps,
        num_stages=decided.num_stages,
    )


@dataclass(frozen=True)
class _Launch:
    """One kernel of a region and its grid."""

    name: str
    writer: KernelWriter
    programs: int
    pointers: tuple[str, ...]

    def definition(self, doc: Sequence[str]) -> list[str]:
        """Return the kernel; this decides the constants."""
        body = self.writer.body() or ["    pass"]
        parameters = [*self.pointers, *(f"{name}: tl.constexpr" for name in self.writer.constants)]
        return ["@triton.jit", _call(f"def {self.name}(", parameters, "):", ""), *doc, *body]

    def call(self, names: Sequence[str], decided: Decided) -> str:
        """Return the statement that launches the kernel."""
        options = [f"{name}={value}" for name, value in self.writer.constants.items()]
        options += [f"num_warps={decided.num_warps}", f"num_stages={decided.num_stages}"]
        return _call(f"{self.name}[({self.programs},)](", [*names, *options], ")", "    ")


def _launches(name: str, decided: Decided, pointers: Mapping[str, str], parts: str) -> list[_Launch]:
    own = tuple(pointers.values())
    if decided.dot is not None and decided.stream:
        shared = (decided, pointers, decided.dot, parts, decided.stream)
        return [
            _Launch(f"{name}_kernel", StreamWriter(*shared), decided.stream, (*own, parts)),
            _Launch(f"{name}_parts_kernel", PartsWriter(*shared), decided.blocks, (*own, parts)),
        ]
    programs = min(decided.blocks, decided.programs or decided.blocks)
    return [_Launch(f"{name}_kernel", _writer(decided, pointers), programs, own)]


def _room_for_parts(name: str, beside: str, decided: Decided) -> list[str]:
    """Return the allocation of two parts of a tile for each program."""
    count = 2 * (decided.stream or 0) * decided.block_kept * decided.block_columns
    return [f"    {name} = torch.empty({count}, dtype=torch.float32, device={beside}.device)"]


def _writer(decided: Decided, pointers: Mapping[str, str]) -> KernelWriter:
    if decided.attention is not None:
        return AttentionWriter(decided, pointers, decided.attention)
    return DotWriter(decided, pointers, decided.dot) if decided.dot else KernelWriter(decided, pointers)


def least_traffic(arguments: tuple[Argument, ...], buffers: Mapping[str, Buffer]) -> int | None:
    """Return the bytes of all tensors that a region reads or writes, each once; None when unknown."""
    if any(a.buffer not in buffers for a in arguments):
        return None
    known = [buffers[a.buffer] for a in arguments]
    return sum(math.prod(b.shape) * _BYTES.get(b.dtype, 1) for b in known)


def megabytes(count: int) -> str:
    """Return a size in words."""
    return f"{count / 1e6:.3g} MB" if count >= 100_000 else f"{count} bytes"


def _call(head: str, parts: Sequence[str], tail: str, indent: str) -> str:
    """Return a call or definition, its arguments on lines of their own where they do not fit one."""
    return indent + wrapped(head, parts, tail, WIDTH).replace("\n    ", f"\n{indent}        ")


def _docstring(
    region: Region, decided: Decided, arguments: tuple[Argument, ...], buffers: Mapping[str, Buffer]
) -> list[str]:
    lines = [f"{region.comment or 'Generated kernel'}.", "", *_shape(decided)]
    traffic = least_traffic(arguments, buffers)
    if traffic is not None:
        lines.append(f"Floor: each tensor once, {megabytes(traffic)}.")
    text = "\n".join(lines).replace("\\", "/").replace('"""', "'''")
    return ["    " + line if line else "" for line in f'"""{text}\n"""'.splitlines()]


def _shape(decided: Decided) -> list[str]:
    """Return in words which part of the work one program does."""
    kept, inner = decided.kept_points, decided.loop_points
    if decided.attention is not None:
        batches, rows, keys, depth = decided.attention.sizes
        tile = (
            f"{decided.block_kept} of {rows} rows a program, {decided.block_inner} of {keys} keys at a time"
        )
        return [f"{batches} heads of {depth}: {tile}, {decided.precision}."]
    if decided.dot is not None:
        down, across = decided.size_of(decided.dot.rows), decided.size_of(decided.dot.columns)
        tile = f"{decided.block_kept} by {decided.block_columns}"
        unit = "tile" if decided.stream else "program"
        work = f"{tile} of {down} by {across} values a {unit}, {inner} products each, {decided.precision}."
        steps = f"{decided.blocks * decided.steps} steps of {decided.blocks} tiles"
        return [work] if not decided.stream else [work, f"{steps}, shared by {decided.stream} programs."]
    axes = "one after another" if decided.form == "flat" else "in registers"
    if decided.form != "flat" and inner > decided.block_inner:
        axes = f"{decided.block_inner} at a time"
    own = {"row": "One program per row", "flat": f"{decided.block_kept} points a program"}
    first = own.get(decided.form, f"{decided.block_kept} rows a program")
    unit = "points" if inner == 1 or decided.form == "flat" else "rows"
    tail = "" if inner == 1 else f", {inner} inner points each, {axes}"
    grid = f"; {decided.programs} programs take the blocks in turn" if decided.programs else ""
    return [f"{first}: {kept} {unit}{tail}{grid}."]
