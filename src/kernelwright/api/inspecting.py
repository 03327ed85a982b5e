"""What a GPU's compiler makes of a kernel, with no GPU: confined, for one GPU after the other."""

import ast
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from kernelwright.core.errors import UserError
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.referee.session.confined import confined_compiler, start_confined
from kernelwright.referee.settings import make_referee_settings
from kernelwright.settings import Settings
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.inspect.compiled import check_vendor, inspect_compiled, require_compiler
from kernelwright.targets.gpu.inspect.inspection import Inspection, KernelForm
from kernelwright.targets.gpu.inspect.run import TIMEOUT_S, find_device, inspect_candidate

BUILDS = "gpu-builds"
"""Folder in the cache for what CUDA's and HIP's compilers made."""


class Wanted(NamedTuple):
    """A GPU to build for."""

    gpu: GpuFacts
    architecture: str
    """For the compiler: with the suffix that was asked for (``sm_90a``)."""


Look = Callable[[Wanted], Inspection]


def wanted_gpu(name: str, form: str) -> Wanted:
    """Return the GPU of that name; raises UserError where there is none or it takes no such kernels."""
    gpu = find_device(name)
    check_vendor(form, gpu)
    has_suffix = form != KernelForm.TRITON and name.startswith(gpu.architecture)
    return Wanted(gpu, name if has_suffix else gpu.architecture)


@contextlib.contextmanager
def looking(
    form: str,
    source: str,
    inputs: Task | None,
    where: Settings,
    *,
    mode: Mode | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Look]:
    """Yield what inspects a candidate for one GPU, confined; everything that it needs is there.

    Args:
        form: of its kernels, see ``form_of``.
        source: of the candidate.
        inputs: the task that gives Triton's kernels their inputs; None: the candidate's own functions do.
        where: caches.
        mode: of a candidate without a task.
        timeout_s: for each GPU.

    Raises:
        UserError: a compiler is missing.
    """
    if form == KernelForm.TRITON:
        is_training = inputs.mode is Mode.TRAIN if inputs is not None else mode is not Mode.EVAL
        task_source = None if inputs is None else bound_source(inputs, inputs.workloads[0])
        start = partial(start_confined, require=where.require_sandbox)
        yield lambda one: inspect_candidate(
            source,
            one.gpu,
            task_source=task_source,
            is_training=is_training,
            timeout_s=timeout_s,
            start=start,
        )
        return
    require_compiler(form)
    with confined_compiler(make_referee_settings(where)) as compiler:
        yield lambda one: inspect_compiled(
            source,
            one.gpu,
            where.cache_dir / BUILDS,
            form=form,
            architecture=one.architecture,
            timeout_s=timeout_s,
            run=compiler.run,
            sandbox=compiler.sandbox,
        )


def bound_source(task: Task, workload: Workload) -> str:
    """Return a task's source with the workload's globals."""
    if not workload.overrides:
        return task.source
    # lazy: loads torch
    from kernelwright.tasks.namespace import bind_source

    return bind_source(task, workload)


def require_inputs(name: str, source: str) -> None:
    """Raise UserError unless a candidate that is inspected without a task gives its own inputs."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # the candidate's own failure
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing = sorted({"get_inputs", "get_init_inputs"} - functions)
    if missing:
        raise UserError(f"{name}: defines no {' and no '.join(missing)}; name the task's file after it")
