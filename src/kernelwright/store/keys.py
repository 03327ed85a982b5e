"""Hashes that rows are found by. Whoever finds one compares what it stands for."""

import json

from kernelwright.core.frozen import content_hash
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec


def question_of(spec: RunSpec) -> str:
    """Return the same for runs that may have asked the same: on a task alike, by the same means."""
    task = spec.task
    asked = task.name, task.likeness or task.id, str(spec.target), spec.recipe, spec.team, str(spec.seed)
    return content_hash(*asked)


def machine_key(machine: Machine) -> str:
    """Return the same for runs on the same machine with the same programs; what was measured is left out."""
    plain = machine.model_dump(mode="json", exclude={"peaks": True, "accelerator": {"peaks"}})
    return content_hash(json.dumps(plain, sort_keys=True))


def signature_key(plan: ArchivedPlan) -> str:
    """Return the same for plans of tasks with the same signature."""
    return content_hash(json.dumps(plan.signature, sort_keys=True))
