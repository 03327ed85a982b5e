"""The command that starts the same run again."""

from kernelwright.core.places import AsSaved, AtPath, TaskPlace
from kernelwright.core.request import RunRequest
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task, Workload


def command_line(spec: RunSpec) -> str:
    """Return the command that starts the same run again; keys come from the environment, as they did."""
    return request_of(spec).command_line()


def request_of(spec: RunSpec) -> RunRequest:
    """Return the request for the same run, with all that was left open when the run was asked for."""
    task, asked = spec.task, spec.request
    known = {
        "recipe": spec.recipe,
        "team": spec.team,
        "target": str(spec.target),
        "seed": spec.seed,
        "budget": spec.budget,
        "models": spec.models,
        "workloads": () if task.workloads == (Workload(),) else task.workloads,
        "mode": task.mode,
        "tolerance": task.tolerance,
        "library_calls": spec.policy.library_calls,
        "weights": spec.policy.weights,
        "nonfinite": spec.policy.nonfinite,
        "peak_memory": spec.policy.peak_memory,
        "baselines": spec.baselines,
    }
    if asked is not None:
        known |= {"workloads": asked.workloads} if task.dynamic else {}
        if asked.with_backward or spec.by_blocks:  # the run's own is a part of it
            known |= {"budget": asked.budget}
        return RunRequest.model_validate({**dict(asked), **known})
    return RunRequest(task=place_of(task), cold=spec.is_cold, **known)


def place_of(task: Task) -> TaskPlace:
    """Return where a task was read from, as well as it is known."""
    if task.artifact is not None:
        return AsSaved(path=f"{task.artifact.removesuffix('.pkl')}.{task.id}.json")
    return AtPath(path=task.path or f"{task.name}.py")
