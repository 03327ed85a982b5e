"""Run by itself, under a profiler: calls a candidate, or the task's own module, a few times.

``python one_call.py FOLDER DEVICE MODE CALLS [TRACE]``: the folder holds ``task.py`` and maybe ``kernel.py``;
with TRACE torch's own profiler writes there. What follows the warm-ups lies between the start and the stop
that profilers can be told to wait for. Needs torch alone.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WARM_UPS = 3


def main() -> None:
    """Construct, warm up, call."""
    import torch

    folder, device, mode, calls = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    task = _module(folder / "task.py")
    kernel = folder / "kernel.py"
    kind = _module(kernel).ModelNew if kernel.exists() else task.Model
    model = kind(*task.get_init_inputs()).to(device)
    model.train(mode == "train")
    inputs = [value.to(device) if isinstance(value, torch.Tensor) else value for value in task.get_inputs()]
    with torch.no_grad():
        for _ in range(WARM_UPS):
            model(*inputs)
        _finish(device)
        if len(sys.argv) < 6:
            with _watched(device):
                _call(model, inputs, calls, device)
            return
        with torch.profiler.profile() as profiler:
            _call(model, inputs, calls, device)
        profiler.export_chrome_trace(sys.argv[5])


@contextlib.contextmanager
def _watched(device: str) -> Iterator[None]:
    """Tell the driver's profilers when to begin and to end; not every version has the call."""
    import torch

    if device != "cpu":
        with contextlib.suppress(Exception):
            torch.cuda.profiler.start()
    yield
    if device != "cpu":
        with contextlib.suppress(Exception):
            torch.cuda.profiler.stop()


def _call(model: Any, inputs: list[Any], calls: int, device: str) -> None:
    for _ in range(calls):
        model(*inputs)
    _finish(device)


def _finish(device: str) -> None:
    import torch

    if device != "cpu":
        torch.cuda.synchronize()


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
