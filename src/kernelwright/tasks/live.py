"""Tasks from modules that live in memory: the module is pickled, the source is a shim that loads it."""

import copy
import inspect
import io
import pickle
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.structure import UnstructuredError, take_apart_and_back
from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
from kernelwright.tasks.class_source import class_sources
from kernelwright.tasks.described import forget_classes
from kernelwright.tasks.likeness import likeness
from kernelwright.tasks.pickled import read_pickle, write_pickle

_SHIM = '''"""The live module of {artifact}: {class_name}."""

import copy
import sys

import torch
from torch import nn

from kernelwright.core.structure import flat_result, put_together, take_apart
from kernelwright.tasks.derived import Unheard
from kernelwright.tasks.pickled import read_pickle

for entry in {sys_path!r}:
    if entry not in sys.path:
        sys.path.append(entry)

with open({artifact!r}, "rb") as file:
    loaded = read_pickle(file)

workload_index = 0
call = (loaded["inputs"][workload_index], loaded["kwargs"][workload_index])
structure, tensors = take_apart(call, torch.is_tensor)


class Model(Unheard, type(loaded["module"])):
    """Same class and state as the live module; every construction is a copy of its own.

    ``forward`` takes the tensors of a call one after the other and returns a tensor or a tuple of tensors;
    whatever else the call holds is as in the example. What the module does around ``forward``, in hooks of
    its own and in ``__call__``, is no part of the task.
    """

    __call__ = nn.Module.__call__

    def __init__(self):
        nn.Module.__init__(self)
        bare = {{name: value for name, value in self.__dict__.items() if "_hooks" in name}}
        self.__dict__.update(copy.deepcopy(loaded["module"]).__dict__)
        self.__dict__.update(bare)

    def forward(self, *given):
        args, kwargs = put_together(structure, given)
        return flat_result(super().forward(*args, **kwargs), torch.is_tensor)


def get_init_inputs():
    return []


def get_inputs():
    from kernelwright.tasks.resample import resample

    return resample(tensors)


def example_call():
    """Return the call that the module was given with: positional and named arguments."""
    return copy.deepcopy(call)
'''


class _OnProcessor(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes what tensors of a device hold as the processor's: readers may have no such device."""

    def reducer_override(self, obj: Any) -> Any:
        typed: Any = torch.storage.TypedStorage
        if isinstance(obj, typed):
            held = obj._untyped_storage  # the typed one warns when it is asked
            if (here := held.cpu()) is not held:
                return typed(wrap_storage=here, dtype=obj.dtype, _internal=True).__reduce__()
        return super().reducer_override(obj)


def task_from_module(
    module: nn.Module,
    example_inputs: Sequence[Any],
    *,
    name: str,
    folder: Path,
    mode: Mode | None = None,
    tolerance: TolerancePolicy = TolerancePolicy.STRICT,
    kwargs: Mapping[str, Any] | None = None,
) -> Task:
    """Make a task of a copy of ``module``; later changes to ``module`` do not reach it.

    Args:
        module: Any picklable module, in the types it is to run in. Its tensors may lie on any device; those
            of the task lie on the processor, and whoever runs it places them.
        example_inputs: A tuple of forward's positional arguments, or a list of such tuples: one
            workload each.
        name: The task's name.
        folder: Where the pickled module goes; made when missing.
        mode: None follows ``module.training``.
        tolerance: How near the candidate must be.
        kwargs: Arguments of forward by name, the same for all workloads.

    Raises:
        TaskError: no module, no inputs, or one of them cannot be copied and pickled, or is neither a tensor,
            a plain value nor a container of such.
    """
    if not isinstance(module, nn.Module):
        raise TaskError(f"{name}: {type(module).__name__} is not an nn.Module")
    named = _in_order(module, kwargs or {})
    examples = [(args, dict(named)) for args in _examples(name, example_inputs, kwargs)]
    for call in examples:
        _require_structure(name, module, call)
    forget_classes()
    artifact = write_pickle(name, folder, _pickle(name, _in_mode(name, module, mode), examples))
    chosen = mode or (Mode.TRAIN if module.training else Mode.EVAL)
    return Task(
        name=name,
        source=_SHIM.format(
            artifact=str(artifact), class_name=type(module).__qualname__, sys_path=_own_sys_path()
        ),
        workloads=_workloads(len(examples)),
        mode=chosen,
        tolerance=tolerance,
        artifact=str(artifact),
        class_source=class_sources(module),
        likeness=likeness(module, examples),
    )


def _in_order(module: nn.Module, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments by name in forward's order: kernels take the tensors of a call one after the other."""
    known = inspect.signature(module.forward).parameters
    return {name: kwargs[name] for name in known if name in kwargs} | dict(kwargs)


def _require_structure(name: str, module: nn.Module, call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Raise TaskError where ``forward`` does not take a call, or the call holds what no task can name."""
    try:
        inspect.signature(module.forward).bind(*call[0], **call[1])
        take_apart_and_back(call, torch.is_tensor)
    except UnstructuredError as error:
        raise TaskError(
            f"{name}: the example holds {error}; give tensors, numbers, texts, None, and tuples, lists, "
            "dicts and dataclasses of them"
        ) from error
    except TypeError as error:
        raise TaskError(f"{type(module).__name__}.forward: {error}") from error


def _examples(
    name: str, example_inputs: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> list[tuple[Any, ...]]:
    if kwargs and (example_inputs is None or example_inputs == ()):
        return [()]
    if isinstance(example_inputs, torch.Tensor):
        return [(example_inputs,)]
    if not isinstance(example_inputs, list | tuple) or not example_inputs:
        raise TaskError(
            f"{name}: give inputs: a tuple of forward's arguments, such as (x,), or a list of such tuples"
        )
    is_several = isinstance(example_inputs, list) and all(isinstance(item, tuple) for item in example_inputs)
    return [tuple(item) for item in example_inputs] if is_several else [tuple(example_inputs)]


def _workloads(n_examples: int) -> tuple[Workload, ...]:
    if n_examples == 1:
        return (Workload(),)
    return tuple(Workload(name=f"example{i}", overrides={"workload_index": i}) for i in range(n_examples))


def _in_mode(name: str, module: nn.Module, mode: Mode | None) -> nn.Module:
    if mode is None or module.training == (mode is Mode.TRAIN):
        return module
    try:
        return copy.deepcopy(module).train(mode is Mode.TRAIN)
    except Exception as error:  # whatever a user's __deepcopy__ raises
        raise TaskError(f"{name}: the module cannot be copied ({error!r})") from error


def _pickle(name: str, module: nn.Module, examples: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> bytes:
    content = {"module": module, "inputs": [args for args, _ in examples], "kwargs": [k for _, k in examples]}
    try:
        written = io.BytesIO()
        _OnProcessor(written).dump(content)
        data = written.getvalue()
        loaded = read_pickle(io.BytesIO(data))
    except Exception as error:  # whatever a user's __reduce__ raises
        kept = "keep open files, locks and lambdas over such things out of the module"
        if kinds := _unpicklable_types(module):
            kept = f"torch does not read tensors of {', '.join(kinds)} back from a pickle"
        raise TaskError(f"{name}: the module or its inputs cannot be pickled ({error!r}); {kept}") from error
    if loaded["module"].state_dict().keys() != module.state_dict().keys():
        raise TaskError(f"{name}: the pickled module has another state_dict than the live one")
    return data


def _unpicklable_types(module: nn.Module) -> list[str]:
    """Return the types of a module's tensors that torch writes and does not read, such as those of 8 bits."""
    found = []
    for dtype in sorted({tensor.dtype for tensor in module.state_dict().values()}, key=str):
        try:
            pickle.loads(pickle.dumps(torch.empty(1, dtype=dtype)))
        except Exception:  # whatever torch raises
            found.append(str(dtype))
    return found


def _own_sys_path() -> list[str]:
    """Entries of ``sys.path`` beyond the interpreter's own: where the user's classes are imported from."""
    own = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    entries = [str(Path(entry).resolve()) for entry in sys.path]
    return [entry for entry in dict.fromkeys(entries) if entry not in own and Path(entry).is_dir()]
