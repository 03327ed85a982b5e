"""Run by itself, under a profiler: calls a candidate a few times on a device, after it has warmed up.

``python one_call.py FOLDER DEVICE MODE TF32 CALLS [TRACE]``: the folder holds ``task.py`` and ``kernel.py``;
TF32 is ``tf32`` where products of float32 may be rounded to it; with TRACE torch's own profiler writes there.
Profilers of NVIDIA that wait for the program's sign see those calls alone. Needs torch and nothing of ours.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

WARM_UPS = 2
"""Compiling, tuning and first allocations are over after these."""


def main() -> None:
    """Construct, warm up, call."""
    import torch

    folder, device, mode, precision = Path(sys.argv[1]), *sys.argv[2:5]
    calls, trace = int(sys.argv[5]), sys.argv[6:]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    task, kernel = _module(folder / "task.py"), _module(folder / "kernel.py")
    model = kernel.ModelNew(*task.get_init_inputs()).to(device)
    model.train(mode == "train")
    inputs = [value.to(device) if isinstance(value, torch.Tensor) else value for value in task.get_inputs()]
    with torch.no_grad():
        for _ in range(WARM_UPS):
            model(*inputs)
        _finish(device)
        if not trace:
            _signal(device, "cudaProfilerStart")
            _call(model, inputs, calls, device)
            _signal(device, "cudaProfilerStop")
            return
        with torch.profiler.profile() as profiler:
            _call(model, inputs, calls, device)
        profiler.export_chrome_trace(trace[0])


def _call(model: Any, inputs: list[Any], calls: int, device: str) -> None:
    for _ in range(calls):
        model(*inputs)
    _finish(device)


def _finish(device: str) -> None:
    import torch

    if device != "cpu":
        torch.cuda.synchronize()


def _signal(device: str, name: str) -> None:
    """Tell a profiler that waits for it where what it is to look at begins and ends."""
    import torch

    if device != "cpu" and torch.version.hip is None:
        untyped: Any = torch.cuda
        getattr(untyped.cudart(), name)()


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
