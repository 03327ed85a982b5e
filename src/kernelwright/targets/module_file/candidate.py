"""The candidate file: one Python source that defines ``ModelNew``, whatever language its kernels are in."""

import ast
import base64
import copy
import dataclasses
import itertools
import operator
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import nn

from kernelwright.core.errors import LoweringError
from kernelwright.core.printing import unparse
from kernelwright.core.task import Task
from kernelwright.ir.extents import Dim, dims_in, made_for
from kernelwright.ir.lower.family import dims_of
from kernelwright.ir.lowering import Programs
from kernelwright.ir.program import Buffer, Call, Program, Region
from kernelwright.targets.module_file.checks import HELPERS, MARKED, equals, fixed_values, is_alike, refusals
from kernelwright.targets.module_file.constructor import (
    NEW_NAME,
    constructor_source,
    forward_arguments,
    names_bound,
)
from kernelwright.targets.module_file.forward import check_unique, dotted, forward_method, identifier
from kernelwright.targets.module_file.shared_source import DECLARE, LAID_OUT, REUSED, UNPACK
from kernelwright.tasks.capture import Captured, Placeholder
from kernelwright.tasks.namespace import bind_source, construct_model, load_namespace

AS_VERIFIED = "torch.no_grad(), torch._C._DisableAutocast()"
"""What calls of torch run under: kernels read their results by address, as the type that was verified."""


class CandidateWriter(ABC):
    """Writes candidate files; a language says what generated kernels are and how they are called.

    Args:
        task: Its reference provides the constructor; its mode and workloads are not looked at.
        programs: One per workload; ``forward`` tells them apart by the shapes of its inputs.
        note: The plan in words, for the docstring.

    Raises:
        LoweringError: the reference's source has no plain ``class Model``, or two regions share a name.
    """

    laid_out = LAID_OUT
    """Source of the function that gives a tensor other strides."""
    device: str | None = None
    """Python expression of the device in ``forward``; None: all tensors are the processor's."""
    takes_addresses = False
    """Kernels are given where tensors lie; False: the tensors."""

    def __init__(self, task: Task, programs: Programs, note: str) -> None:
        check_unique({name: program for name, (_, program) in programs.items()})
        self.task = task
        self.note = note
        self.programs = {
            identifier(name): (
                _sized(captured, program),
                _renamed(program, identifier(name), len(programs)),
            )
            for name, (captured, program) in programs.items()
        }
        workload = next(w for w in task.workloads if w.name in programs)
        self.source = bind_source(task, workload)
        self.is_live = task.artifact is not None
        self.live = construct_model(task, load_namespace(task, workload), seed=0) if self.is_live else None
        """A live module's; a file's code is not run to print a candidate for it."""
        self._held = frozenset[str]().union(*(_held(captured) for captured, _ in programs.values()))
        self.arguments = self._arguments()
        self.constants: dict[str, str] = {}
        """Module-level constant -> its defining text."""

    def text(self) -> str:
        """Return the whole file.

        Raises:
            LoweringError: the kernels depend on dynamic extents in a way that the language cannot print.
        """
        own = self._text()
        dims = dims_in(tuple(program for _, program in self.programs.values()))
        given = self.programs
        for values in _other_values(dims):
            self.programs = {
                name: (_sized(captured, changed), changed)
                for name, (captured, program) in given.items()
                for changed in (made_for(program, values),)
            }
            try:
                other = self._text()
            finally:
                self.programs = given
            if other != own:
                raise LoweringError(_depends(own, other, dims))
        return own

    def _text(self) -> str:
        regions = [s for _, p in self.programs.values() for s in p.steps if isinstance(s, Region)]
        model = self._model_class()
        parts = [self._docstring(), self.imports(bool(regions))]
        parts += self.generated(regions)
        parts += self._helpers(model)
        parts.append(model)
        return "\n\n".join(part for part in parts if part) + "\n"

    # -- parts -------------------------------------------------------------------------------------

    def _docstring(self) -> str:
        lines = [f"{self.task.name}: a drop-in for the reference ``Model``, as ``ModelNew``."]
        for name, (_, program) in self.programs.items():
            lines += ["", f"Workload {name}:" if len(self.programs) > 1 else "Steps:"]
            lines += [f"  {_described(step)}" for step in program.steps]
            lines += self.facts_of(program)
        if self.note.strip():
            lines += ["", "Plan:", *(f"  {line}" for line in self.note.strip().splitlines())]
        text = "\n".join(lines).replace("\\", "/").replace('"""', "'''")
        return f'"""{text}\n"""'

    def facts_of(self, program: Program) -> list[str]:
        """Return lines for the docstring about what a workload's kernels must do at least."""
        return []

    @abstractmethod
    def generated(self, regions: list[Region]) -> list[str]:
        """Return the kernels and what makes them callable, part by part."""

    @abstractmethod
    def imports(self, has_kernels: bool) -> str:
        """Return the import statements."""

    @property
    def needs_base64(self) -> bool:
        """True when the file holds constants as text."""
        return any("_unpack(" in line for line in self.constants.values())

    def _helpers(self, model: str) -> list[str]:
        texts = [HELPERS.strip()]
        texts += [self.laid_out.strip()] if "_laid_out(" in model else []
        texts += [REUSED.strip()] if "_reused(" in model else []
        texts += [MARKED.strip()] if "_marked(" in model else []
        steps = [s for _, p in self.programs.values() for s in p.steps if isinstance(s, Call)]
        texts += list(dict.fromkeys(s.helper.strip() for s in steps if s.helper))
        texts += [UNPACK.strip()] if self.needs_base64 else []
        texts += ["\n".join(self.constants.values())] if self.constants else []
        return texts

    # -- the class ---------------------------------------------------------------------------------

    def _model_class(self) -> str:
        forward = self._forward()
        if self.is_live:
            return "\n".join([DECLARE.strip(), "", "", *self._live_head(), "", *forward])
        needed, model = constructor_source(self.source)
        model.body = [item for item in model.body if not isinstance(item, ast.Pass)] or [ast.Pass()]
        text = unparse(ast.fix_missing_locations(model))
        return "\n\n".join(part for part in (needed, text) if part) + "\n\n" + "\n".join(forward)

    def _live_head(self) -> list[str]:
        """A constructor that declares what the live module's state_dict holds."""
        seen: dict[int, str] = {}
        entries = []
        assert self.live is not None
        for name, tensor in self.live.state_dict(keep_vars=True).items():
            if not isinstance(tensor, torch.Tensor):
                continue  # extra state, which is the module's own matter
            same_as = seen.setdefault(id(tensor), name)
            first = None if same_as == name else same_as
            is_parameter = isinstance(tensor, nn.Parameter)
            entries.append(
                f'            "{name}": ({first!r}, {tuple(tensor.shape)}, {tensor.dtype}, {is_parameter}),'
            )
        return [
            f"class {NEW_NAME}(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            "        _declare(self, {",
            *entries,
            "        })",
        ]

    def _forward(self) -> list[str]:
        """``forward``, which finds the workload, and one method per workload."""
        lines = [f"    def forward({', '.join(['self', *self._parameters()])}):"]
        checks = []
        for captured, _ in self.programs.values():
            checks += _extent_lines(captured, self.arguments)
        for name, (captured, program) in self.programs.items():
            call = f"self._forward_{name}({', '.join(self.arguments)})"
            condition = self._condition(captured)
            checks.append(f"if {condition}:" if condition else "if True:")
            if _needs_no_grad(program):
                checks += [f"    with {AS_VERIFIED}:", f"        return {call}"]
            else:
                checks.append(f"    return {call}")
        tensors = sorted(
            {self.arguments[int(p.source)] for c, _ in self.programs.values() for p in inputs_of(c)}
        )
        fixed = dict.fromkeys(name for c, _ in self.programs.values() for name in self._fixed(c))
        got = ", ".join([f"{{_told({n})}}" for n in tensors] + [f"{n}={{_told({n})}}" for n in fixed])
        known = "; ".join(self._shapes(captured) for captured, _ in self.programs.values())
        checks.append(f'raise ValueError(f"made for {known}; got {got}")')
        lines += ["        " + line for line in (*refusals(tensors, self._again()), *checks)]
        for name, (_, program) in self.programs.items():
            kernels = {s.name: self.function_name(s) for s in program.steps if isinstance(s, Region)}
            method = forward_method(
                f"_forward_{name}",
                program,
                arguments=self.arguments,
                kernel_names=kernels,
                attribute=partial(self.attribute, program),
                device=self.device,
                takes_addresses=self.takes_addresses,
                extents=_extent_lines(self.programs[name][0], self.arguments),
            )
            lines += ["", *("    " + line for line in method)]
        return lines

    def _condition(self, captured: Captured) -> str:
        terms = [f"{dim.low} <= {dim.variable} <= {dim.high}" for dim in dims_of(captured.axes)]
        for placeholder in inputs_of(captured):
            name = self.arguments[int(placeholder.source)]
            terms.append(is_alike(name, placeholder, self.device))
        terms += [equals(name, text) for name, text in self._fixed(captured).items()]
        return " and ".join(terms)

    def _fixed(self, captured: Captured) -> Mapping[str, str]:
        """Return what arguments that are no tensors must equal."""
        declared = None if self.is_live else forward_arguments(self.source)
        known = frozenset() if declared is None else names_bound(self.source)
        return fixed_values(captured, self.arguments, declared, known)

    def _shapes(self, captured: Captured) -> str:
        shapes = ", ".join(f"{p.shape} {p.dtype!s}" for p in inputs_of(captured)) or "no inputs"
        shapes += "".join(f", {name}={text}" for name, text in self._fixed(captured).items())
        ranges = "".join(f", {d.variable} from {d.low} to {d.high}" for d in dims_of(captured.axes))
        return shapes + ranges

    def _again(self) -> str | None:
        """Text of forward's call with what it was given; None where the model has no parameters."""
        if not any(p.kind == "parameter" for c, _ in self.programs.values() for p in c.placeholders):
            return None
        given = ast.parse(f"def forward({', '.join(self._parameters())}): pass").body[0]
        assert isinstance(given, ast.FunctionDef)
        names = [a.arg for a in (*given.args.posonlyargs, *given.args.args)]
        names += [f"{a.arg}={a.arg}" for a in given.args.kwonlyargs]
        return f"self.forward({', '.join(names)})"

    def _parameters(self) -> list[str]:
        """Text of forward's parameters with their defaults."""
        found = None if self.is_live else forward_arguments(self.source)
        if found is None or found.vararg or found.kwarg:
            return list(self.arguments)
        plain = copy.deepcopy(found)
        for argument in (*plain.posonlyargs, *plain.args, *plain.kwonlyargs):
            argument.annotation = None
        plain.args = plain.args[1:] if not plain.posonlyargs else plain.args
        return [unparse(plain)]

    def _arguments(self) -> list[str]:
        """Names of forward's positional arguments."""
        found = None if self.is_live else forward_arguments(self.source)
        n_inputs = 1 + max(
            (int(p.source) for c, _ in self.programs.values() for p in inputs_of(c)), default=-1
        )
        if found is not None and not found.vararg:
            names = [a.arg for a in (*found.posonlyargs, *found.args)][1:]
            if len(names) >= n_inputs:
                return names
        return [f"x{i}" for i in range(n_inputs)]

    def function_name(self, region: Region) -> str:
        """Return the function that carries out a region."""
        return region.name

    def attribute(self, program: Program, buffer: Buffer) -> str:
        """Python expression of a parameter, buffer or constant."""
        name = str(buffer.source)
        tensor = program.constants.get(name)
        is_own = name in self._held
        if self.live is not None:
            is_own = name in self.live.state_dict()
            tensor = _tensor_of(self.live, name, tensor)
        if is_own:
            return dotted("self", name)
        if not isinstance(tensor, torch.Tensor):
            raise LoweringError(f"the program reads {name!r}, which the module does not hold")
        return self._constant(name, tensor.detach())

    def _constant(self, name: str, tensor: torch.Tensor) -> str:
        variable = "_CONSTANT_" + identifier(name).upper()
        if tensor.numel() <= 16:
            values = str(tensor.tolist()).replace("inf", 'float("inf")').replace("nan", 'float("nan")')
            text = f'torch.tensor({values}, dtype={tensor.dtype}, device="cpu")'
        else:
            data = base64.b64encode(tensor.contiguous().view(torch.uint8).numpy().tobytes()).decode()
            lines = textwrap.wrap(data, 100)
            body = "\n".join(f'    "{line}"' for line in lines)
            text = f"_unpack(\n{body},\n    {tensor.dtype},\n    {tuple(tensor.shape)},\n)"
        self.constants[variable] = f"{variable} = {text}"
        return variable


def _held(captured: Captured) -> frozenset[str]:
    """Return the names of all tensors that the module has as attributes."""
    return captured.held | {str(p.source) for p in captured.placeholders if p.kind in ("parameter", "buffer")}


def _tensor_of(module: nn.Module, name: str, otherwise: object) -> object:
    """Return a tensor attribute by its dotted name."""
    try:
        found = operator.attrgetter(name)(module)
    except AttributeError:
        return otherwise
    return found if isinstance(found, torch.Tensor) else otherwise


def inputs_of(captured: Captured) -> list[Placeholder]:
    """Return the arguments of forward that are tensors."""
    return [p for p in captured.placeholders if p.kind == "input"]


def _needs_no_grad(program: Program) -> bool:
    return bool(program.mutations) or any(isinstance(step, Call) for step in program.steps)


def _sized(captured: Captured, program: Program) -> Captured:
    """Return the graph with its inputs' sizes as the program has them: those that vary as extents."""
    if not captured.axes:
        return captured
    placeholders = tuple(
        dataclasses.replace(p, shape=buffer.shape, stride=buffer.stride)
        for p in captured.placeholders
        for buffer in (program.buffer(p.node),)
    )
    return dataclasses.replace(captured, placeholders=placeholders)


def _other_values(dims: Sequence[Dim]) -> Iterator[dict[str, int]]:
    """Yield values of dims that a text for all of them must not depend on: the corners of the ranges.

    What is decided by comparing sizes, and the same at both ends of a range, is the same between them.
    """
    if dims:
        for corner in itertools.product(*((dim.low, dim.high) for dim in dims)):
            yield {dim.name: value for dim, value in zip(dims, corner, strict=True)}


def _depends(one: str, other: str, dims: Sequence[Dim]) -> str:
    """Say where texts for two extents differ."""
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    line = next((a.strip() for a, b in pairs if a != b), "")
    return (
        f"a kernel for one size of {', '.join(d.name for d in dims)} is none for all of them: {line[:120]!r}"
    )


def _extent_lines(captured: Captured, arguments: Sequence[str]) -> list[str]:
    """Return the statements that read extents off the inputs."""
    lines = []
    for axis, dim in zip(captured.axes, dims_of(captured.axes), strict=True):
        position, number = axis.axes[0]
        lines.append(f"{dim.variable} = {arguments[int(position)]}.shape[{number}]")
    return lines


def _renamed(program: Program, workload: str, n_workloads: int) -> Program:
    """Give regions of several workloads names of their own."""
    if n_workloads == 1:
        return program
    steps = tuple(
        dataclasses.replace(s, name=f"{s.name}_{workload}") if isinstance(s, Region) else s
        for s in program.steps
    )
    return dataclasses.replace(program, steps=steps)


def _described(step: Region | Call) -> str:
    if isinstance(step, Call):
        return f"{step.name}: {step.target}"
    return f"{step.name}: {step.comment or 'generated kernel'}"
