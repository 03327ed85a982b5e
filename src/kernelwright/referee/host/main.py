"""The host: the trusted, long-lived process of a reference.

Draws inputs and weights from the seeds that the parent sends. Runs the reference as it is, compiled, and in
float64.
"""

import copy
import math
import socket
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.referee.host.float64_oracle import on_processor, run_in_double
from kernelwright.referee.host.input_distributions import change_inputs, change_state, nudge
from kernelwright.referee.worker.call_loop import CallLoop
from kernelwright.referee.worker.layouts import slots_in
from kernelwright.referee.worker.placement import use_tf32
from kernelwright.referee.worker.runner import Runner, serve
from kernelwright.referee.worker.tensors import SlotLayout, encode
from kernelwright.referee.worker.wire import Message
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

CHANGE_SEED = 0x2545F491
"""XORed to the seed for changes of a sample, so that changes and values use different random streams."""

EAGER_TF32 = "eager_tf32"
COMPILE_MODES = {"torch_compile": None, "torch_compile_max_autotune": "max-autotune"}
"""Baseline -> torch.compile's mode."""


class Host(Runner):
    """A Runner whose module is the task's reference."""

    def __init__(self, loop: CallLoop) -> None:
        super().__init__(loop)
        self.subject: Any = None

    def handlers(self) -> dict[str, Callable[[Message], Message]]:
        """Add the commands that only the reference knows."""
        return {
            **super().handlers(),
            "open": self.open,
            "size": self.size,
            "describe": self.describe,
            "write_init": self.write_init,
            "draw_inputs": self.draw_inputs,
            "nudge_inputs": self.nudge_inputs,
            "draw_state": self.draw_state,
            "oracle": self.oracle,
            "compile": self.compile,
            "check": self.check,
        }

    def open(self, message: Message) -> Message:
        """Load the task's source."""
        self.task = Task.model_validate_json(message["task"])
        self.workload = Workload.model_validate_json(message["workload"])
        self.namespace = load_namespace(self.task, self.workload)
        return {}

    def size(self, message: Message) -> Message:
        """Estimate bytes of inputs, outputs and state without allocating them; None where this fails."""
        try:
            with torch.device("meta"):
                model = construct_model(self.task, self.namespace, seed=0)
                inputs = draw_inputs(self.task, self.namespace, seed=0)
                outputs = model(*inputs)
        except (
            Exception
        ):  # an estimate only: data-dependent code cannot run on meta tensors, real errors come later
            return {"inputs": None, "outputs": None, "state": None}
        state = [*model.parameters(), *model.buffers()]
        return {"inputs": _nbytes(inputs), "outputs": _nbytes(outputs), "state": _nbytes(state)}

    def describe(self, message: Message) -> Message:
        """Construct the reference under a (public) seed; answer with all layouts."""
        model = construct_model(self.task, self.namespace, message["seed"])
        self.model = self.placement.module(model)
        self.callables["eager"] = self.model
        self.loop.use(self.model)
        layout = SlotLayout()
        found: list[torch.Tensor] = []
        args = encode(draw_inputs(self.task, self.namespace, 0), layout, found)
        self._args_layout = args
        init_layout = SlotLayout()
        self._init_tensors: list[torch.Tensor] = []
        init = encode(list(self.namespace.get_init_inputs()), init_layout, self._init_tensors)
        self._init_slots = slots_in(init)
        state_layout = SlotLayout()
        parameters = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        state = {
            name: {"slot": state_layout.place(value), "is_parameter": name in parameters}
            for name, value in self.state().items()
        }
        return {
            "args": args,
            "args_bytes": layout.size,
            "init": init,
            "init_bytes": init_layout.size,
            "state": state,
            "state_bytes": state_layout.size,
            "train": self.task.mode is Mode.TRAIN,
        }

    def write_init(self, message: Message) -> Message:
        """Write the tensors among the constructor's arguments to an arena."""
        arena = self.arenas[message["arena"]]
        for slot, value in zip(self._init_slots, self._init_tensors, strict=True):
            arena.tensor(slot).copy_(value)
        return {}

    def draw_inputs(self, message: Message) -> Message:
        """Draw one set of inputs under a secret seed and change it to its distribution."""
        layout = SlotLayout()
        found: list[torch.Tensor] = []
        values = draw_inputs(self.task, self.namespace, message["seed"])
        if encode(values, layout, found) != self._args_layout:
            raise TaskError("get_inputs() returns different shapes or literals from call to call")
        generator = torch.Generator().manual_seed(message["seed"] ^ CHANGE_SEED)
        arena = self.arenas[message["arena"]]
        for slot, value in zip(slots_in(self._args_layout), found, strict=True):
            target = arena.tensor(slot)
            target.copy_(value)
            if value.is_floating_point():
                change_inputs(target, message["family"], message["variant"], generator)
        return {}

    def nudge_inputs(self, message: Message) -> Message:
        """Move the inputs that an arena holds by a unit in the last place."""
        generator = torch.Generator().manual_seed(message["seed"])
        arena = self.arenas[message["arena"]]
        for slot in slots_in(self._args_layout):
            target = arena.tensor(slot)
            if target.is_floating_point():
                nudge(target, generator)
        return {}

    def draw_state(self, message: Message) -> Message:
        """Construct another reference under a secret seed and write its state, changed by a style."""
        model = construct_model(self.task, self.namespace, message["seed"])
        generator = torch.Generator().manual_seed(message["seed"] ^ CHANGE_SEED)
        arena = self.arenas[message["arena"]]
        own = model.state_dict()
        parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        for name, slot in message["slots"].items():
            target = arena.tensor(slot)
            target.copy_(own[name])
            if message["style"] != "constructed" and target.is_floating_point():
                change_state(target, name in parameters, message["style"], generator)
        return {}

    def oracle(self, message: Message) -> Message:
        """Run the reference in float64 on a set; write its outputs and its state after the call."""
        self._write_oracle(message)
        self.placement.release()
        return {}

    def _write_oracle(self, message: Message) -> None:
        double, outputs = self._in_double(self.sets[message["set"]])
        values = outputs if isinstance(outputs, list | tuple) else [outputs]
        arena = self.arenas[message["arena"]]
        for value, slot in zip(values, message["slots"], strict=True):
            arena.tensor(slot).copy_(value)
        own = double.state_dict()
        for name, slot in message["state_slots"].items():
            arena.tensor(slot).copy_(own[name])

    def _in_double(self, args: Any) -> tuple[nn.Module, Any]:
        """Call the reference in float64 on its device, or on the processor where the device cannot."""
        assert self.model is not None
        try:
            return run_in_double(self.model, args)
        except RuntimeError as error:  # too little memory, or a library that has no float64
            if not self.placement.is_on_gpu:
                raise
            try:
                return run_in_double(copy.deepcopy(self.model).cpu(), on_processor(args))
            except RuntimeError:
                raise error from None

    def compile(self, message: Message) -> Message:
        """Make another baseline callable; compile it, if it is compiled, by a call on a set."""
        assert self.model is not None
        name = message["name"]
        if name == EAGER_TF32:
            self.callables[name] = self.model
            return {}
        compiled = torch.compile(self.model, dynamic=False, mode=COMPILE_MODES[name])
        compiled(*self.sets[message["set"]])
        self.callables[name] = compiled
        self.placement.release()
        return {}

    def use(self, message: Message) -> Message:
        """Call the named callable from now on; the baseline ``eager_tf32`` computes products in TF32."""
        use_tf32(message["callable"] == EAGER_TF32)
        return super().use(message)

    def check(self, message: Message) -> Message:
        """Carry out one check of the task itself (referee/checkup) and answer with the flags it raised."""
        from kernelwright.referee.checkup.battery import run_check
        from kernelwright.referee.checkup.subject import CheckedTask

        if self.subject is None:
            self.subject = CheckedTask(self.task, self.workload, message["seed"])
        return {"flags": [flag.model_dump(mode="json") for flag in run_check(message["name"], self.subject)]}


def _nbytes(values: Any) -> int:
    if isinstance(values, torch.Tensor):
        return math.prod(values.shape) * values.element_size()
    if isinstance(values, list | tuple):
        return sum(_nbytes(value) for value in values)
    return 0


def main(sock: socket.socket, loop: CallLoop) -> None:
    """Serve until the parent hangs up."""
    serve(sock, Host(loop))
