"""The host: the trusted, long-lived process of a reference.

Draws inputs and weights from the seeds that the parent sends. Runs the reference as it is, compiled, and in
float64.
"""

import contextlib
import copy
import functools
import math
import socket
from collections.abc import Callable, Sequence
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.policy import Nonfinite
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.referee.host.acceptance import Asking, Questions, Values
from kernelwright.referee.host.averages import AveragedSizes
from kernelwright.referee.host.cancelling import solve_cancelled
from kernelwright.referee.host.change import (
    ALIKE,
    RENEWED,
    AcceptedInputs,
    as_float,
    change_sample,
)
from kernelwright.referee.host.flat_weights import FLAT, SIGNED, sign
from kernelwright.referee.host.float64_oracle import on_processor, run_in_double
from kernelwright.referee.host.input_distributions import nudge, shift, shift_alike
from kernelwright.referee.host.mixing import MixingTrace
from kernelwright.referee.host.odd_rows import Keeping, kept
from kernelwright.referee.host.on_grid import solve_on_grid
from kernelwright.referee.host.open_order import OrderTrace
from kernelwright.referee.host.peers.make import make_peer
from kernelwright.referee.host.redrawn import has_few_bits
from kernelwright.referee.host.weight_draws import change_state
from kernelwright.referee.worker.call_loop import CallLoop
from kernelwright.referee.worker.layouts import Slot, extent, slots_in
from kernelwright.referee.worker.placement import use_tf32
from kernelwright.referee.worker.runner import Runner, serve
from kernelwright.referee.worker.tensors import SlotLayout, compact, encode, with_tensors
from kernelwright.referee.worker.threads import one_thread
from kernelwright.referee.worker.wire import Message
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

CHANGE_SEED = 0x2545F491
"""XORed to the seed for changes of a sample, so that changes and values use different random streams."""

ACCEPTED = TypeAdapter(AcceptedInputs)
SOLVERS = {"cancelled": solve_cancelled, "on_grid": solve_on_grid}
"""Family -> what finds its inputs by watching the reference."""

EAGER_TF32 = "eager_tf32"
COMPILE_MODES = {"torch_compile": None, "torch_compile_max_autotune": "max-autotune"}
"""Baseline -> torch.compile's mode."""


class Host(Runner):
    """A Runner whose module is the task's reference."""

    def __init__(self, loop: CallLoop) -> None:
        super().__init__(loop)
        self.subject: Any = None
        self._accepted = AcceptedInputs()

    def handlers(self) -> dict[str, Callable[[Message], Message]]:
        """Add the commands that only the reference knows."""
        return {
            **super().handlers(),
            "open": self.open,
            "size": self.size,
            "describe": self.describe,
            "write_init": self.write_init,
            "ask": self.ask,
            "tell": self.tell,
            "draw_inputs": self.draw_inputs,
            "draw_more": self.draw_more,
            "nudge_inputs": self.nudge_inputs,
            "draw_state": self.draw_state,
            "oracle": self.oracle,
            "compile": self.compile,
            "check": self.check,
            "work": self.work,
            "capture": self.capture,
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
        layout = SlotLayout(keeps_strides=True)
        found: list[torch.Tensor] = []
        args = encode(draw_inputs(self.task, self.namespace, 0), layout, found)
        self._args_layout = args
        init_layout = SlotLayout()
        self._init_tensors: list[torch.Tensor] = []
        init = encode(list(self.namespace.get_init_inputs()), init_layout, self._init_tensors)
        self._init_slots = slots_in(init)
        state_layout = SlotLayout()
        parameters = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        placed: dict[tuple[Any, ...], Slot] = {}
        state = {
            name: {"slot": _placed(placed, state_layout, value), "is_parameter": name in parameters}
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

    def ask(self, message: Message) -> Message:
        """Find out what the reference accepts as inputs, on the weights that are loaded.

        Answers with what is not tried, and why; with ``nonfinite: True`` where NaN and infinity are; with
        ``mixes: True`` where images are convolved; with the families of ``SOLVERS`` that it has something
        for; with everything for another host of the same reference (``tell``).
        """
        values, found = self._draw(message["seed"])
        drawn = [compact(x).contiguous().clone() for x in found]
        call = functools.partial(self._call, values, found)
        generator = torch.Generator().manual_seed(message["seed"] ^ CHANGE_SEED)

        def finite(outputs: Values | None) -> Values | None:
            is_finite = outputs is not None and all(bool(torch.isfinite(x).all()) for x in outputs)
            return outputs if is_finite else None

        def double(tensors: Values) -> Values | None:
            return finite(call(tensors, lambda *args: self._in_double(list(args))[1]))

        asking = Asking(
            Questions(
                run=lambda tensors: finite(call(tensors)),
                run_raw=call,
                run_told=lambda tensors, tell: call(tensors, tell=tell),
                run_double=double,
                values=drawn,
                seed=message["seed"] ^ CHANGE_SEED,
                is_on_gpu=self.placement.is_on_gpu,
                drawn_again=[compact(x).contiguous().clone() for x in self._draw(message["seed"] ^ 1)[1]],
            )
        )
        self._accepted = asking.answer(nonfinite=Nonfinite(message["nonfinite"]))
        with torch.random.fork_rng(devices=[]), MixingTrace() as trace:
            torch.manual_seed(message["seed"])
            before = torch.get_rng_state()
            call(drawn)
            draws = not torch.equal(before, torch.get_rng_state())
        self.placement.release()
        return {
            "mixes": trace.mixes,
            "draws": draws,
            "skipped": dict(self._accepted.skipped),
            "nonfinite": bool(self._accepted.nonfinite),
            "solved": [
                family
                for family in SOLVERS
                if message["solves"] and self._solve(family, values, found, drawn, generator)
            ],
            "accepted": ACCEPTED.dump_python(self._accepted, mode="json"),
        }

    def tell(self, message: Message) -> Message:
        """Take over what another host of this reference has found out."""
        self._accepted = ACCEPTED.validate_python(message["accepted"])
        return {}

    def _call(
        self, values: list[Any], found: Values, tensors: Values, model: Callable[..., Any] | None = None,
        tell: Callable[[Values], None] = lambda given: None,
    ) -> Values | None:  # fmt: skip
        """Call the reference, or another ``model``, on tensors in the places of those found in the values.

        Buffers are as before afterwards. Returns None where it refuses them; ``tell`` is told the very
        tensors that it is called with.
        """
        given = [self._like(x, new) for x, new in zip(found, tensors, strict=True)]
        buffers = dict(self._model.named_buffers())
        before = {name: buffer.clone() for name, buffer in buffers.items()}
        tell(given)
        try:
            result = (model or self._model)(*with_tensors(values, iter(given)))
        except Exception:  # the user's reference, on inputs that it may refuse
            return None
        finally:
            for name, buffer in buffers.items():
                buffer.copy_(before[name])
        outputs = result if isinstance(result, list | tuple) else [result]
        return [x.detach().cpu() for x in outputs] if all(map(torch.is_tensor, outputs)) else None

    def _solve(
        self, family: str, values: list[Any], found: Values, tensors: Values, generator: torch.Generator
    ) -> Values | None:
        """Return the inputs of a family that the reference has something for; None where it has nothing."""

        def run_told(tensors: Values, tell: Callable[[Values], None]) -> None:
            self._call(values, found, tensors, copy.deepcopy(self._model), tell)  # state may keep a graph

        solved = SOLVERS[family](run_told, tensors, generator)
        return None if solved is None else [compact(x).detach().cpu() for x in solved]

    @property
    def _model(self) -> nn.Module:
        assert self.model is not None
        return self.model

    def _like(self, drawn: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return values with the strides of a tensor as drawn, on the reference's device."""
        span = extent(drawn.shape, drawn.stride())
        tensor = torch.zeros(span, dtype=drawn.dtype).as_strided(drawn.shape, drawn.stride())
        compact(tensor).copy_(values)
        return tensor.to(self.placement.device)

    def _draw(self, seed: int) -> tuple[list[Any], list[torch.Tensor]]:
        """Draw one set of inputs; return it and the tensors in it."""
        found: list[torch.Tensor] = []
        values = draw_inputs(self.task, self.namespace, seed)
        if encode(values, SlotLayout(keeps_strides=True), found) != self._args_layout:
            raise TaskError("get_inputs() returns different shapes or literals from call to call")
        return values, found

    def draw_inputs(self, message: Message) -> Message:
        """Draw one set of inputs under a secret seed and change it to its distribution.

        ``keeping`` says what float inputs must keep of their values as drawn. Answers whether anything was
        changed, where they must keep something.
        """
        seed, family, keeping = message["seed"], message["family"], Keeping(message["keeping"])
        values, found = self._draw(seed)
        generator = torch.Generator().manual_seed(seed ^ CHANGE_SEED)
        targets = self._put(found, message["arena"])
        if family in SOLVERS:
            solved = self._solve(family, values, found, targets, generator)
            for x, new in zip(targets, solved or (), strict=bool(solved)):
                as_float(x).copy_(kept(as_float(new), keeping, as_float(x.clone())))
        else:
            codes = self._codes() if family == ALIKE else ()
            numbers = [as_float(x) for x in targets]
            with one_thread():
                change_sample(
                    numbers, family, message["variant"], keeping, generator, self._accepted, codes,
                    self._known if family == RENEWED else None,
                )  # fmt: skip
        is_changed = bool(keeping) and any(
            not torch.equal(target, compact(value).cpu())
            for target, value in zip(targets, found, strict=True)
        )
        return {"is_changed": is_changed}

    def draw_more(self, message: Message) -> Message:
        """Draw a set of inputs under each secret seed, and renew it; a set begins every ``stride`` bytes."""
        for i, seed in enumerate(message["seeds"]):
            targets = self._put(self._draw(seed)[1], message["arena"], i * message["stride"])
            if not self._accepted.renewed:
                continue
            generator = torch.Generator().manual_seed(seed ^ CHANGE_SEED)
            numbers = [as_float(x) for x in targets]
            with one_thread():
                change_sample(
                    numbers, RENEWED, 0, Keeping.NOTHING, generator, self._accepted, known=self._known
                )
        return {}

    def _put(self, drawn: Sequence[torch.Tensor], arena: str, at: int = 0) -> list[torch.Tensor]:
        """Copy tensors to their slots ``at`` so many bytes of an arena; return those, with no gaps."""
        slots = [{**slot, "offset": slot["offset"] + at} for slot in slots_in(self._args_layout)]
        targets = [compact(self.arenas[arena].tensor(slot)) for slot in slots]
        for target, value in zip(targets, drawn, strict=True):
            target.copy_(compact(value))
        return targets

    @functools.cached_property
    def _known(self) -> dict[int, torch.Tensor]:
        """Values in one draw of the inputs that are renewed in part, by the number of the input."""
        parts = [i for i, renewing in self._accepted.renewed.items() if renewing.is_partial]
        found = self._draw(0)[1] if parts else []
        return {i: as_float(compact(found[i]).cpu().contiguous().clone()) for i in parts}

    def _codes(self) -> list[torch.Tensor]:
        """Return the weights that are rows, along whichever axis, on those that are loaded.

        Parameters of one axis are none: biases and scales are no places of inputs.
        """
        found = [x.detach().cpu() for x in self._model.parameters() if x.ndim in (2, 3)]
        found += [x.cpu() if x.ndim > 1 else x.cpu()[None] for x in self._model.buffers() if 0 < x.ndim < 4]
        rows = [x.reshape(-1, x.shape[-1]) for x in found if x.is_floating_point()]
        return rows + [x.T for x in rows if len(x) > 1]

    def nudge_inputs(self, message: Message) -> Message:
        """Move the inputs that an arena holds by a unit in the last place, or by up to ``ulps`` of them.

        With -1 for ``way`` they move the other way. Values that the reference treats apart stay, and so do
        numbers of few bits where the task draws nothing else. Equal values stay equal, unless the reference
        leaves it open which of them comes first. Answers with the largest such unit, relative to a value.
        """
        generator = torch.Generator().manual_seed(message["seed"])
        arena = self.arenas[message["arena"]]
        ulps, way = message["ulps"], message["way"]
        is_open = self._leaves_order_open
        unit = 0.0
        targets = [as_float(compact(arena.tensor(slot))) for slot in slots_in(self._args_layout)]
        has_doubles = any(x.dtype is torch.float64 for x in targets)
        for i, target in enumerate(targets):
            if not target.is_floating_point() or (has_doubles and target.dtype is not torch.float64):
                continue  # beside float64, all that lower precision holds is exact
            unit = max(unit, torch.finfo(target.dtype).eps)
            special = [(value, target == value) for value in self._accepted.special.get(i, ())]
            before = target.clone() if i in self._accepted.counts and not is_open else None
            if is_open:
                shift(target, way * (ulps or 1.0), generator)
            elif not ulps:
                nudge(target, generator, way)
            else:
                shift_alike(target, way * ulps, message["seed"])
            for value, where in special:
                target[where] = value
            if before is not None:
                target.copy_(torch.where(has_few_bits(before), before, target))
        return {"is_open": is_open, "unit": unit}

    @functools.cached_property
    def _leaves_order_open(self) -> bool:
        """Whether the reference leaves it open which of equal values comes first."""
        values, found = self._draw(0)
        args = with_tensors(values, iter([self._like(x, compact(x)) for x in found]))
        with torch.no_grad(), OrderTrace() as trace:
            self._model(*args)
        return bool(trace.is_open)

    def draw_state(self, message: Message) -> Message:
        """Construct another reference under a secret seed and write its state, changed by a style.

        ``change`` is the seed of the style's choices.
        """
        model = construct_model(self.task, self.namespace, message["seed"])
        generator = torch.Generator().manual_seed(message["change"] ^ CHANGE_SEED)
        arena = self.arenas[message["arena"]]
        own = model.state_dict()
        parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        style = message["style"]
        found: dict[str, torch.Tensor] = {}
        for name, slot in message["slots"].items():
            target = arena.tensor(slot)
            target.copy_(own[name])
            numbers = as_float(target)
            if not numbers.is_floating_point():
                continue
            found[name] = numbers
            if style not in (*FLAT, *SIGNED, "constructed"):
                change_state(numbers, name in parameters, style, generator)
        found = dict({x.data_ptr(): (name, x) for name, x in found.items()}.values())  # what is tied, once
        if style in FLAT:
            FLAT[style]([x for name, x in found.items() if name in parameters], generator)
        elif style in SIGNED:
            buffers = {name: x for name, x in found.items() if name not in parameters}
            sign(buffers, generator, without=SIGNED[style])
        return {}

    def oracle(self, message: Message) -> Message:
        """Run the reference in float64 on a set; write its outputs and its state after the call.

        The reply tells how large the values are that running means average.
        """
        averaged = self._write_oracle(message)
        self.placement.release()
        return {"averaged": averaged}

    def _write_oracle(self, message: Message) -> dict[str, float]:
        sizes = AveragedSizes()
        with sizes if message["state_slots"] else contextlib.nullcontext():
            double, outputs = self._in_double(self.sets[message["set"]], message["rounding"])
        values = outputs if isinstance(outputs, list | tuple) else [outputs]
        arena = self.arenas[message["arena"]]
        for value, slot in zip(values, message["slots"], strict=True):
            arena.tensor(slot).copy_(value)
        own = double.state_dict()
        for name, slot in message["state_slots"].items():
            arena.tensor(slot).copy_(own[name])
        return {name: sizes.of(own[name]) for name in message["state_slots"]}

    def _in_double(self, args: Any, rounding: float = 0.0) -> tuple[nn.Module, Any]:
        """Call the reference in float64 on its device, or on the processor where the device cannot."""
        assert self.model is not None
        try:
            return run_in_double(self.model, args, rounding)
        except RuntimeError as error:  # too little memory, or a library that has no float64
            if not self.placement.is_on_gpu:
                raise
            try:
                return run_in_double(copy.deepcopy(self.model).cpu(), on_processor(args), rounding)
            except RuntimeError:
                raise error from None

    def compile(self, message: Message) -> Message:
        """Make another baseline callable, warmed on a set; compile it, if it is compiled."""
        assert self.model is not None
        name = message["name"]
        args = tuple(self.sets[message["set"]])
        if name == EAGER_TF32:
            made: Callable[..., Any] = self.model
        elif name in COMPILE_MODES:
            made = torch.compile(self.model, dynamic=False, mode=COMPILE_MODES[name])
            made(*args)
        else:
            made = make_peer(name, self.model, args)
        self.callables[name] = made
        self.placement.release()
        return {}

    def use(self, message: Message) -> Message:
        """Call the named callable from now on; the baseline ``eager_tf32`` computes products in TF32."""
        use_tf32(message["callable"] == EAGER_TF32)
        return super().use(message)

    def work(self, message: Message) -> Message:
        """Count the work of a task's workloads; answer with the files, too, that its code reads.

        A host of its own does this: what is imported for it must not lie in a process that is timed.
        """
        from kernelwright.tasks.watched import count_watched

        return count_watched(Task.model_validate_json(message["task"])).model_dump(mode="json")

    def capture(self, message: Message) -> Message:
        """Answer with the graph of one workload, as data; a host of its own does this."""
        from kernelwright.tasks.capture import capture_task
        from kernelwright.tasks.graph_data import graph_document

        task = Task.model_validate_json(message["task"])
        workload = Workload.model_validate_json(message["workload"])
        return {"graph": graph_document(capture_task(task, workload)).model_dump()}

    def check(self, message: Message) -> Message:
        """Carry out one check of the task itself (referee/checkup) and answer with the flags it raised."""
        from kernelwright.referee.checkup.battery import run_check
        from kernelwright.referee.checkup.subject import CheckedTask

        if self.subject is None:
            self.subject = CheckedTask(self.task, self.workload, message["seed"])
        return {"flags": [flag.model_dump(mode="json") for flag in run_check(message["name"], self.subject)]}


def _placed(placed: dict[tuple[Any, ...], Slot], layout: SlotLayout, value: torch.Tensor) -> Slot:
    """Return a slot for one tensor of the state; tied tensors share one, so they never get two values."""
    if not value.numel():
        return layout.place(value)
    memory = (value.data_ptr(), value.dtype, value.shape, value.stride())
    if memory not in placed:
        placed[memory] = layout.place(value)
    return placed[memory]


def _nbytes(values: Any) -> int:
    if isinstance(values, torch.Tensor):
        return math.prod(values.shape) * values.element_size()
    if isinstance(values, list | tuple):
        return sum(_nbytes(value) for value in values)
    return 0


def main(sock: socket.socket, loop: CallLoop) -> None:
    """Serve until the parent hangs up."""
    serve(sock, Host(loop))
