"""Printed Triton in Triton's own interpreter: a child process, since a wrong address kills it.

The interpreter has to be chosen before triton is imported, so the test process never imports it.
"""

import hashlib
import importlib.util
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from tests.targets.triton.printed import print_module

from kernelwright.ir.program import Region

_loaded: dict[str, ModuleType] = {}


@dataclass(frozen=True)
class Ran:
    """What one call of a candidate left behind."""

    outputs: list[torch.Tensor | None]
    strides: list[tuple[int, ...]]
    """Of the outputs, as the candidate returned them."""
    state: dict[str, torch.Tensor]
    faults: tuple[str, ...]
    """What no candidate may do, whatever its numbers are."""


class Interpreter:
    """One child process that runs printed kernels on CPU tensors."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_prepare)

    def close(self) -> None:
        """End the child."""
        self._pool.shutdown()

    def run(self, region: Region, **tensors: torch.Tensor) -> str:
        """Print a region and run it on tensors by buffer name, in place; return the source."""
        source = print_module((region,))
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        done = self._pool.submit(_run_region, source, region.name, region, arrays).result(timeout=300)
        for name, array in done.items():
            tensors[name].copy_(torch.from_numpy(array))
        return source

    def forward(
        self, source: str, init: tuple[Any, ...], state: dict[str, torch.Tensor], inputs: list[Any]
    ) -> Ran:
        """Run a candidate file once."""
        packed = {name: tensor.detach().numpy() for name, tensor in state.items()}
        given = [(x.detach().numpy(),) if isinstance(x, torch.Tensor) else x for x in inputs]
        sent = self._pool.submit(_run_candidate, source, init, packed, given)
        outputs, strides, after, faults = sent.result(timeout=600)
        made = [None if o is None else torch.from_numpy(o) for o in outputs]
        return Ran(made, strides, {n: torch.from_numpy(array) for n, array in after.items()}, faults)


def _prepare() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    torch.set_num_threads(1)
    np.seterr(all="ignore")


def _load(source: str) -> ModuleType:
    """Import a file: the interpreter reads the functions' source."""
    key = hashlib.sha256(source.encode()).hexdigest()[:16]
    if key not in _loaded:
        path = Path(tempfile.mkdtemp(prefix="printed-triton-"), f"printed_{key}.py")
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        _loaded[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(_loaded[key])
    return _loaded[key]


def _run_region(source: str, name: str, region: Region, arrays: dict[str, Any]) -> dict[str, Any]:
    # lazy: the parent prints, the child only needs the order of the arguments
    from kernelwright.ir.arguments import signature

    tensors = {key: torch.from_numpy(array.copy()) for key, array in arrays.items()}
    arguments = signature(region)
    getattr(_load(source), name)(*[tensors[a.buffer] for a in arguments])
    return {a.buffer: tensors[a.buffer].numpy() for a in arguments if a.is_written}


def _run_candidate(
    source: str, init: tuple[Any, ...], state: dict[str, Any], inputs: list[Any]
) -> tuple[list[Any], list[tuple[int, ...]], dict[str, Any], tuple[str, ...]]:
    # lazy: the parent judges, the child only looks at memory
    from kernelwright.referee.worker.tensors import is_dense

    model = _load(source).ModelNew(*init)
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in state.items()})
    values = [torch.from_numpy(x[0].copy()) if isinstance(x, tuple) else x for x in inputs]
    with torch.no_grad():
        result = model(*values)
    results = [
        None if r is None else r.detach() for r in (result if isinstance(result, list | tuple) else [result])
    ]
    after = model.state_dict()
    faults = [f"out{i} is not dense" for i, r in enumerate(results) if r is not None and not is_dense(r)]
    faults += [
        f"input {i} was written to"
        for i, (given, x) in enumerate(zip(inputs, values, strict=True))
        if isinstance(given, tuple)
        and not np.array_equal(x.numpy(), given[0], equal_nan=given[0].dtype.kind == "f")
    ]
    owned = {
        t.untyped_storage().data_ptr() for t in [*values, *after.values()] if isinstance(t, torch.Tensor)
    }
    faults += [
        f"out{i} shares memory with an input or the state"
        for i, r in enumerate(results)
        if r is not None and r.untyped_storage().data_ptr() in owned
    ]
    return (
        [None if r is None else r.numpy() for r in results],
        [() if r is None else tuple(r.stride()) for r in results],
        {name: tensor.numpy() for name, tensor in after.items()},
        tuple(faults),
    )
