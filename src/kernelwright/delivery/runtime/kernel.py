"""The verified program: loaded once, then made into one instance for each module that it serves."""

import contextlib
import copy
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import torch
from torch import nn

from .calls import OPERATOR_CALLS
from .contract import Case, Contract, constants_of
from .described import description_of
from .randomness import kept_random_state
from .structure import put_together, take_apart

LIBRARIES = "KERNELWRIGHT_BUILD_CACHE"
"""Variable under which a program looks for what was compiled ahead."""
SEED = 0
"""Under which a file's original is constructed, with its arguments, and its kernel's ``ModelNew``."""
NOTHING: Mapping[str, torch.Tensor] = MappingProxyType({})
_loading = threading.RLock()


class VerifiedKernel:
    """A program that the referee verified, and the contract under which it may run. Shared by all copies.

    Args:
        program: the source that defines ``ModelNew``, exactly as it was judged.
        contract: what must hold.
        libraries: folder of compiled libraries for this machine; None: the program compiles, or finds what it
            compiled before.
        origin: source of the original's class, where no import finds it.
        backward: computes the gradients that the contract names; None: the original does.
        drawn: values of the tensors that ``ModelNew`` makes by itself; those that are not named are as its
            constructor makes them.
    """

    def __init__(
        self,
        program: str,
        contract: Contract,
        libraries: Path | None = None,
        origin: str | None = None,
        backward: "VerifiedKernel | None" = None,
        drawn: Mapping[str, torch.Tensor] = NOTHING,
    ) -> None:
        self.program = program
        self.contract = contract
        self.libraries = libraries
        self.origin = origin
        self.backward = backward
        self._drawn = drawn

    @property
    def drawn(self) -> dict[str, torch.Tensor]:
        """Tensors that ``ModelNew`` makes by itself: no weights, which each module gives it."""
        return {name: tensor for name, _, _, tensor in constants_of(self._template)}

    @property
    def operator_calls(self) -> int:
        """Calls through the custom operator, of all modules of the process that have it together."""
        return OPERATOR_CALLS[self.digest]

    def count_operator_call(self) -> None:
        """Count one more."""
        OPERATOR_CALLS[self.digest] += 1

    @property
    def backward_calls(self) -> int:
        """Calls of the backward kernel, of all modules that have it together."""
        return 0 if self.backward is None else self.backward.operator_calls

    @cached_property
    def digest(self) -> str:
        """Names the kernel's operator and its namespace."""
        text = self.program + json.dumps(self.contract.to_data(), sort_keys=True)
        text += json.dumps([*self.contract.weights])  # in the order in which the operator takes them
        text += self.backward.digest if self.backward is not None else ""
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def namespace(self) -> ModuleType:
        """The program's own module, found in ``sys.modules`` under a name that every process gives it."""
        name = f"kernelwright_kernel_{self.digest}"
        with _loading:
            if name not in sys.modules:
                sys.modules[name] = self._run(ModuleType(name))
        return sys.modules[name]

    def _run(self, module: ModuleType) -> ModuleType:
        before = os.environ.get(LIBRARIES)
        if self.libraries is not None:
            os.environ[LIBRARIES] = str(self.libraries)
        try:
            exec(compile(self.program, f"<{module.__name__}>", "exec"), module.__dict__)
        finally:
            if self.libraries is not None:
                os.environ.pop(LIBRARIES)
                if before is not None:
                    os.environ[LIBRARIES] = before
        return module

    @cached_property
    def _template(self) -> nn.Module:
        """An instance without weights; what it draws is what the original draws."""
        made = constructed(self.namespace.ModelNew, self.contract.init, self.contract.seed)
        for holder, leaf in self._slots(made):
            holder[leaf] = None
        for name, _, _, tensor in constants_of(made):
            if name in self._drawn and not torch.equal(tensor, self._drawn[name]):
                tensor.data.copy_(self._drawn[name])  # another machine, or version of torch, draws others
        training = self.contract.parts[""].attributes.get("training", False)
        made.train(bool(training))
        return made

    def _slots(self, instance: nn.Module) -> list[tuple[dict[str, Any], str]]:
        """Return where an instance holds each of the contract's weights, in their order."""
        slots: list[tuple[dict[str, Any], str]] = []
        for name in self.contract.weights:
            *path, leaf = name.split(".")
            part: Any = instance
            for step in path:
                part = part._modules[step]
            slots.append((part._parameters if leaf in part._parameters else part._buffers, leaf))
        return slots

    def make(self) -> "KernelInstance":
        """Return an instance of its own for a module."""
        with _loading:
            instance = copy.deepcopy(self._template)
        return KernelInstance(instance, self._slots(instance))

    def arguments(self, case: Case, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Return what the kernel's forward takes, by position, given the tensors of a call."""
        if self.contract.is_flat:
            return list(tensors)
        values = {name: put_together(value, tensors) for name, value in case.arguments.items()}
        spread = values.pop(self.contract.spread, ())
        return [*values.values(), *spread]

    def __deepcopy__(self, memo: dict[int, Any]) -> "VerifiedKernel":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        back = self.backward
        content = (
            self.program,
            self.contract.to_data(),
            self.contract.init,
            self.origin,
            None if back is None else (back.program, back.contract.to_data()),
            self.drawn,
        )
        _known.setdefault(_key(*content), self)
        return restored, content


class KernelInstance:
    """``ModelNew`` of a program, reading the weights that it was last given."""

    def __init__(self, module: nn.Module, slots: list[tuple[dict[str, Any], str]]) -> None:
        self.call = module.forward
        self._slots = slots
        self._memory: list[torch.UntypedStorage] = []

    def take(self, weights: Sequence[torch.Tensor]) -> None:
        """Let it read these weights, in the contract's order."""
        for (holder, leaf), tensor in zip(self._slots, weights, strict=True):
            holder[leaf] = tensor

    def hold(self, tensors: Iterable[torch.Tensor]) -> None:
        """Keep the memory of tensors that are told by their addresses, so that no other memory has these."""
        self._memory = [tensor.untyped_storage() for tensor in tensors]

    def call_with(self, weights: Sequence[torch.Tensor], *args: Any) -> Any:
        """Call it with weights that it lets go of afterwards."""
        self.take(weights)
        try:
            return self.call(*args)
        finally:
            for holder, leaf in self._slots:
                holder[leaf] = None


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a kernel's result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    return take_apart(value, lambda part: isinstance(part, torch.Tensor))[1]


_known: dict[str, VerifiedKernel] = {}
"""Kernels of this process that were pickled, by content: a pickle gives back the same one."""


def _key(*content: Any) -> str:
    return description_of(list(content)) or hashlib.sha256(repr(content).encode()).hexdigest()


def restored(
    program: str,
    contract: dict[str, Any],
    init: tuple[Any, ...],
    origin: str | None,
    backward: tuple[str, dict[str, Any]] | None = None,
    drawn: Mapping[str, torch.Tensor] = NOTHING,
) -> VerifiedKernel:
    """Return a kernel from a pickle; one object for all modules of a process that have it."""
    key = _key(program, contract, init, origin, backward, drawn)
    if key not in _known:
        if origin is not None:
            load_origin(origin)
        back = None if backward is None else VerifiedKernel(backward[0], Contract.from_data(backward[1]))
        known = Contract.from_data(contract, init)
        _known[key] = VerifiedKernel(program, known, origin=origin, backward=back, drawn=drawn)
    return _known[key]


def constructed(kind: Callable[..., nn.Module], init: Sequence[Any], seed: int) -> nn.Module:
    """Return an instance made under a seed; the random state of the process stays as it is."""
    with _seeded(seed):
        return kind(*copy.deepcopy(tuple(init)))


def init_of(origin: str) -> tuple[Any, ...]:
    """Return the constructor's arguments that a reference's source gives, the same in every process."""
    with _seeded(SEED):
        return tuple(load_origin(origin).get_init_inputs())


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw under a seed, one thread at a time; then put the generators back."""
    with _loading, kept_random_state():
        torch.manual_seed(seed)
        yield


def load_origin(source: str) -> ModuleType:
    """Return the module of a reference's source, found in ``sys.modules`` under a name made of its text."""
    name = f"kernelwright_original_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    with _loading:
        if name not in sys.modules:
            module = ModuleType(name)
            sys.modules[name] = module  # classes in it look themselves up
            try:
                exec(compile(source, f"<{name}>", "exec"), module.__dict__)
            except BaseException:
                del sys.modules[name]
                raise
    return sys.modules[name]
