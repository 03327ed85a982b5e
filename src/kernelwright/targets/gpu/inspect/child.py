"""The process in which a candidate is looked at: runs it on tensors without values, tells what it launches.

``python -m kernelwright.targets.gpu.inspect.child FD``: the request comes as JSON on standard input;
answers go to the descriptor, one JSON document a line. A candidate may have made it say anything.
"""

import importlib.util
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

FILE_BYTES = 1 << 28
DATA_BYTES = 16 << 30
DESCRIPTORS = 1024


class TaskFailed(Exception):
    """The task's own code raised: the user's fault, not the candidate's."""


def main() -> None:
    """Answer one request."""
    channel = int(sys.argv[1])
    request = json.load(sys.stdin)
    _limit(request["cpu_s"])

    def tell(message: dict[str, Any]) -> None:
        os.write(channel, json.dumps(message).encode() + b"\n")

    try:
        ended = _inspect(request, tell)
    except TaskFailed as error:
        ended = {"task_failed": str(error)}
    tell(ended)
    sys.stdout.flush()
    os._exit(0)  # nothing of the candidate's runs any more


def _limit(cpu_s: int) -> None:
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_DATA, DATA_BYTES),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
    ):
        _, hard = resource.getrlimit(kind)
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (ceiling, ceiling))


def _inspect(request: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    # lazy: limits first; torch and Triton are loaded while nobody else's code has run
    import torch
    import triton

    from kernelwright.targets.gpu.facts import GpuFacts
    from kernelwright.targets.gpu.inspect.recorder import Recorder
    from kernelwright.targets.gpu.inspect.stand_in import OnDevice, install

    tell({"versions": {"torch": str(torch.__version__), "triton": str(triton.__version__)}})
    gpu = GpuFacts.model_validate(request["device"])
    install(gpu, Recorder(gpu, tell))
    folder = Path(tempfile.mkdtemp())
    torch.manual_seed(0)
    with OnDevice(), torch.no_grad():
        task = _task(folder, request["task_source"])
        try:
            kernel = _import(folder / "kernel.py", request["source"])
            task = task or kernel
            model = _construct(kernel, task, request["is_training"])
        except TaskFailed:
            raise
        except BaseException as error:
            return {"ended": "not_loaded", "detail": _where(error)}
        inputs = _inputs(task)
        try:
            model(*inputs)
        except BaseException as error:
            return {"ended": "not_run", "detail": _where(error)}
    return {"ended": "ran"}


def _import(path: Path, source: str) -> ModuleType:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _task(folder: Path, source: str | None) -> ModuleType | None:
    if source is None:
        return None
    try:
        return _import(folder / "task.py", source)
    except Exception as error:
        raise TaskFailed(f"importing it raised {_where(error)}") from error


def _construct(kernel: ModuleType, task: ModuleType, is_training: bool) -> Any:
    """Construct ``ModelNew`` without memory for its weights; with it, where a constructor needs values."""

    def make() -> Any:
        return kernel.ModelNew(*_of_task(task, "get_init_inputs"))

    model = _without_values(make)
    model = model.cuda()
    return model if is_training else model.eval()


def _inputs(task: ModuleType) -> list[Any]:
    # lazy: see _inspect
    import torch

    values = _without_values(lambda: _of_task(task, "get_inputs"))
    return [value.cuda() if isinstance(value, torch.Tensor) else value for value in values]


def _of_task(task: ModuleType, name: str) -> list[Any]:
    try:
        return list(getattr(task, name)())
    except NotImplementedError:
        raise  # a value was asked for
    except Exception as error:
        raise TaskFailed(f"{name}() raised {_where(error)}") from error


def _without_values(make: Callable[[], Any]) -> Any:
    # lazy: see _inspect
    import torch

    torch.set_default_device("meta")
    try:
        return make()
    except Exception:
        torch.set_default_device(None)
        return make()
    finally:
        torch.set_default_device(None)


def _where(error: BaseException) -> str:
    """Return the error on one line, with the line of the candidate's or the task's file that raised it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name in _FILES]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}{place}"


_FILES = ("kernel.py", "task.py")

if __name__ == "__main__":
    main()
