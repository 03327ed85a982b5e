"""A program as Python: the methods that allocate, call torch and launch the generated kernels."""

import keyword
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from kernelwright.core.errors import LoweringError
from kernelwright.ir.arguments import signature
from kernelwright.ir.extents import dims_in, most
from kernelwright.ir.program import Buffer, BufferRef, Call, CallArg, Program, Region
from kernelwright.targets.module_file.checks import may_negate, weight_check
from kernelwright.targets.module_file.shared_source import LARGE_BYTES

FREE_FROM_BYTES = 1 << 16
"""Temporaries of this size are released after their last use, so that the next one gets warm memory."""
_TAKEN = {
    "self",
    "torch",
    "nn",
    "tl",
    "triton",
    "device",
    "ctypes",
    "hashlib",
    "os",
    "shlex",
    "shutil",
    "subprocess",
    "tempfile",
    "math",
    "Path",
}
_ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int16": 2, "float16": 2, "bfloat16": 2}


def forward_method(
    name: str,
    program: Program,
    *,
    arguments: list[str],
    kernel_names: Mapping[str, str],
    attribute: Callable[[Buffer], str],
    device: str | None = None,
    takes_addresses: bool = False,
    extents: Sequence[str] = (),
) -> list[str]:
    """Return the lines of one workload's method.

    ``arguments``: names of forward's arguments; ``kernel_names``: region -> its function, which takes
    tensors, or addresses where ``takes_addresses``; ``attribute``: Python expression of a parameter, buffer
    or constant; ``device``: Python expression of where tensors live that are not on the processor;
    ``extents``: statements that define the extents which the program's sizes depend on.
    """
    writer = _ForwardWriter(program, kernel_names, attribute, arguments, device, takes_addresses)
    head = [f"def {name}({', '.join(['self', *arguments])}):"]
    return head + ["    " + line for line in (*extents, *writer.lines())]


def dense_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_dense(buffer: Buffer) -> bool:
    """True when the buffer's strides are those of a contiguous tensor (axes of size 1 aside)."""
    dense = dense_stride(buffer.shape)
    return all(s == d or n == 1 for n, s, d in zip(buffer.shape, buffer.stride, dense, strict=True))


class _ForwardWriter:
    def __init__(
        self,
        program: Program,
        kernel_names: Mapping[str, str],
        attribute: Callable[[Buffer], str],
        arguments: list[str],
        device: str | None,
        takes_addresses: bool,
    ) -> None:
        self.program = program
        self.address = ".data_ptr()" if takes_addresses else ""
        self.device = device
        self.kernel_names = kernel_names
        self.arguments = arguments
        self.buffers = {b.name: b for b in program.buffers}
        helpers = {s.target for s in program.steps if isinstance(s, Call) and s.helper}
        self.names = {b.name: _python_name(b.name, helpers) for b in program.buffers}
        self.allocated: set[str] = set()
        self.touched = {a.buffer for s in program.steps if isinstance(s, Region) for a in signature(s)}
        self.given = {b.name: attribute(b) for b in self._bound() if b.kind != "input"}
        held = [str(self.buffers[name].source) for name, text in self.given.items() if _is_held(text)]
        targets = [target for target, _ in program.mutations]
        self.owners = owner_variables([*held, *targets], {*self.names.values(), *arguments})

    def lines(self) -> list[str]:
        """Return the body."""
        lines = [f"device = {self.device}"] if self.device else []
        lines += self._sources()
        last_uses = self._last_uses()
        for position, step in enumerate(self.program.steps):
            lines += self._region(step) if isinstance(step, Region) else self._call(step)
            done = [self.names[b] for b, last in last_uses.items() if last == position]
            if done:
                lines.append(f"del {', '.join(done)}")
        return [*lines, *self._mutations(), self._return()]

    def _mutations(self) -> list[str]:
        """Write what the module keeps, several tensors in one call."""
        pairs = [(self._held(target), self.names[buffer]) for target, buffer in self.program.mutations]
        if len(pairs) < 2:
            return [f"{target}.copy_({value})" for target, value in pairs]
        targets, values = zip(*pairs, strict=True)
        return [f"torch._foreach_copy_([{', '.join(targets)}], [{', '.join(values)}])"]

    def _held(self, path: str) -> str:
        """Return the expression of a tensor of the module."""
        owner, expression = "", "self"
        for prefix, variable in self.owners.items():
            if path.startswith(f"{prefix}.") and len(prefix) > len(owner):
                owner, expression = prefix, variable
        return dotted(expression, path[len(owner) :].lstrip("."))

    def _bound(self) -> list[Buffer]:
        """Return the buffers that are there before the first step."""
        used = self._used()
        return [b for b in self.program.buffers if b.kind != "temporary" and b.name in used]

    def _sources(self) -> list[str]:
        """Bind inputs, parameters and constants to their buffers' names; weights are looked at first."""
        bound, laid_out = [], []
        for prefix, variable in self.owners.items():
            bound.append(f"{variable} = {self._held(prefix)}")
        for buffer in self._bound():
            name = self.names[buffer.name]
            is_input = buffer.kind == "input"
            source = self.arguments[int(buffer.source or 0)] if is_input else self.given[buffer.name]
            is_held = not is_input and _is_held(source)
            if source != name:
                bound.append(f"{name} = {self._held(str(buffer.source)) if is_held else source}")
            if is_held:
                bound += weight_check(name, buffer, "device" if self.device else None)
            if buffer.name in self.touched or is_input:
                laid_out.append(f"{name} = {_laid_out(name, buffer)}")
        return [*bound, *laid_out]

    def _used(self) -> set[str]:
        used = {o for o in self.program.outputs if o} | {b for _, b in self.program.mutations}
        for step in self.program.steps:
            used |= _reads(step)
        return used

    def _last_uses(self) -> dict[str, int]:
        """Return, for large temporaries that may go, the step after which nothing reads them."""
        last: dict[str, int] = {}
        n_views = {r for s in self.program.steps if isinstance(s, Call) and s.is_view for r in s.results}
        for position, step in enumerate(self.program.steps):
            for name in sorted(_reads(step)):  # the text must be the same in every process
                last[name] = position
        staying = {*self.program.outputs, *(b for _, b in self.program.mutations), *n_views}
        for step in self.program.steps:
            if isinstance(step, Call) and step.is_view:
                staying |= _reads(step)
        return {
            name: position
            for name, position in last.items()
            if name not in staying
            and self.buffers[name].kind == "temporary"
            and n_bytes(self.buffers[name]) >= FREE_FROM_BYTES
            and position < len(self.program.steps) - 1
        }

    def _region(self, region: Region) -> list[str]:
        lines = []
        arguments = signature(region)
        for argument in arguments:
            buffer = self.buffers[argument.buffer]
            is_new = argument.is_written and buffer.name not in self.allocated
            if is_new and buffer.kind == "temporary":
                self.allocated.add(buffer.name)
                lines.append(f"{self.names[buffer.name]} = {_empty(buffer, on_device=bool(self.device))}")
        given = [f"{self.names[a.buffer]}{self.address}" for a in arguments]
        given += [dim.variable for dim in dims_in(region)]
        lines.append(f"{self.kernel_names[region.name]}({', '.join(given)})")
        return lines

    def _call(self, call: Call) -> list[str]:
        arguments = [self._argument(a) for a in call.args]
        arguments += [f"{key}={self._argument(value)}" for key, value in call.kwargs]
        text = f"{call.target}({', '.join(arguments)})"
        self.allocated |= {r for r in call.results if r}
        if call.returns_list:
            targets = ", ".join("_" if r is None else self.names[r] for r in call.results)
            lines = [f"({targets},) = {text}" if len(call.results) == 1 else f"{targets} = {text}"]
        else:
            lines = [text if call.results[0] is None else f"{self.names[call.results[0]]} = {text}"]
        return lines + [line for r in call.results if r for line in self._checked_layout(r)]

    def _checked_layout(self, name: str) -> list[str]:
        """A kernel counts elements with the captured strides: make sure the result has them."""
        buffer = self.buffers[name]
        if name not in self.touched and name not in self.program.outputs:
            return []
        variable = self.names[name]
        if is_dense(buffer):
            return [f"{variable} = {variable}.contiguous()"]
        return [f"{variable} = _laid_out({variable}, {buffer.stride})"]

    def _argument(self, value: CallArg) -> str:
        if isinstance(value, BufferRef):
            return self.names[value.buffer]
        if isinstance(value, tuple):
            return f"[{', '.join(self._argument(v) for v in value)}]"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return value if isinstance(value, str) else repr(value)

    def _return(self) -> str:
        values = ["None" if o is None else self.names[o] for o in self.program.outputs]
        if not self.program.returns_tuple:
            return f"return {values[0]}"
        return f"return ({', '.join(values)}{',' if len(values) == 1 else ''})"


def dotted(root: str, path: str) -> str:
    """Return the Python expression of a dotted name; parts that are numbers need ``getattr``."""
    text = root
    for part in path.split("."):
        is_plain = part.isidentifier() and not keyword.iskeyword(part)
        text = f"{text}.{part}" if is_plain else f"getattr({text}, {part!r})"
    return text


def owner_variables(paths: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return a variable for each submodule through which several tensors are read, outermost first.

    Each step to a submodule is a call of Python's.

    Args:
        paths: dotted names of the tensors.
        taken: names that are no new variables.
    """
    members: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split(".")
        for n in range(1, len(parts)):
            members.setdefault(".".join(parts[:n]), set()).add(parts[n])
    found: dict[str, str] = {}
    for prefix in (prefix for prefix, parts in members.items() if len(parts) > 1):
        name = f"in_{identifier(prefix)}"
        while name in taken or name in found.values():
            name += "_"
        found[prefix] = name
    return found


def _is_held(source: str) -> bool:
    """True for what the module holds, which may be another tensor in the next call."""
    return source.startswith(("self.", "getattr(self"))


def _laid_out(name: str, buffer: Buffer) -> str:
    """Return the expression of a tensor that lies in memory as kernels count its elements."""
    positive = f"{name}.resolve_neg()" if may_negate(buffer) else name
    return f"{positive}.contiguous()" if is_dense(buffer) else f"_laid_out({positive}, {buffer.stride})"


def _python_name(name: str, helpers: Collection[str]) -> str:
    """Return a variable for a buffer that hides neither a keyword nor a helper function."""
    clean = identifier(name)
    if not clean.isidentifier():
        clean = f"v_{clean}"
    is_taken = clean in _TAKEN or clean in helpers or keyword.iskeyword(clean)
    return f"{clean}_" if is_taken else clean


def identifier(name: str) -> str:
    """Return a name with an underscore for all that no variable may hold."""
    return "".join(c if c.isalnum() else "_" for c in name)


def _empty(buffer: Buffer, *, on_device: bool) -> str:
    if not on_device and n_bytes(buffer) >= LARGE_BYTES:
        return f"_reused({buffer.shape}, {buffer.stride}, torch.{buffer.dtype})"
    device = "device" if on_device else '"cpu"'
    dtype = f"dtype=torch.{buffer.dtype}, device={device}"
    if is_dense(buffer):
        return f"torch.empty({buffer.shape}, {dtype})"
    return f"torch.empty_strided({buffer.shape}, {buffer.stride}, {dtype})"


def n_bytes(buffer: Buffer) -> int:
    """Return the bytes of a buffer's elements; at most so many where its shape varies."""
    return most(math.prod(buffer.shape)) * _ITEM_BYTES.get(buffer.dtype, 1)


def _reads(step: Call | Region) -> set[str]:
    """Return the buffers that a step needs."""
    if isinstance(step, Region):
        return {a.buffer for a in signature(step)}
    found: set[str] = set()
    pending: list[CallArg] = [*step.args, *(v for _, v in step.kwargs)]
    while pending:
        value = pending.pop()
        if isinstance(value, BufferRef):
            found.add(value.buffer)
        elif isinstance(value, tuple):
            pending.extend(value)
    return found


def check_unique(programs: Mapping[str, Program]) -> None:
    """Raise LoweringError when two regions of a program share a name."""
    for workload, program in programs.items():
        names = [s.name for s in program.steps if isinstance(s, Region)]
        if len(set(names)) != len(names):
            raise LoweringError(f"workload {workload!r}: two regions share a name: {sorted(names)}")
