"""Printed Triton in Triton's own interpreter: a child process, since a wrong address kills it.

The interpreter has to be chosen before triton is imported, so the test process never imports it.
"""

import hashlib
import importlib.util
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from kernelwright.kernels.ir import Region
from kernelwright.kernels.triton.printer import print_module

_loaded: dict[str, ModuleType] = {}


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
    ) -> tuple[list[torch.Tensor | None], dict[str, torch.Tensor]]:
        """Run a candidate file once; return its outputs and its state afterwards."""
        packed = {name: tensor.detach().numpy() for name, tensor in state.items()}
        given = [(x.detach().numpy(),) if isinstance(x, torch.Tensor) else x for x in inputs]
        outputs, after = self._pool.submit(_run_candidate, source, init, packed, given).result(timeout=600)
        made = [None if o is None else torch.from_numpy(o) for o in outputs]
        return made, {name: torch.from_numpy(array) for name, array in after.items()}


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
    from kernelwright.kernels.cpp.printer import signature

    tensors = {key: torch.from_numpy(array.copy()) for key, array in arrays.items()}
    arguments = signature(region)
    getattr(_load(source), name)(*[tensors[a.buffer] for a in arguments])
    return {a.buffer: tensors[a.buffer].numpy() for a in arguments if a.is_written}


def _run_candidate(
    source: str, init: tuple[Any, ...], state: dict[str, Any], inputs: list[Any]
) -> tuple[list[Any], dict[str, Any]]:
    model = _load(source).ModelNew(*init)
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in state.items()})
    values = [torch.from_numpy(x[0].copy()) if isinstance(x, tuple) else x for x in inputs]
    with torch.no_grad():
        result = model(*values)
    results = result if isinstance(result, list | tuple) else [result]
    outputs = [None if r is None else r.detach().numpy() for r in results]
    return outputs, {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
