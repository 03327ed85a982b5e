"""Records of input samples: layouts, weight samples, inputs and the outputs expected on them."""

import math
import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.referee.checks.tolerance import EVEN, ExpectedOutput, Slack, is_float
from kernelwright.referee.session.shared_memory import ITEM_BYTES, TensorMemory, slot_nbytes
from kernelwright.referee.worker.layouts import Slot

CHANGEABLE = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""Types of weights of which one element is changed at times."""
LIKE_SHARE = 1 / 16
"""A parameter of which so many elements do not depend on the seed has a structure that trained ones lack."""
AROUND = 0xFF
"""Byte that fills the memory around inputs: NaN for code that reads beyond an input."""


@dataclass(frozen=True)
class OutputSpec:
    """Contract of one output tensor."""

    dtype: str
    shape: tuple[int, ...]
    may_share: bool
    """The reference returns a view of an input or of its state, so a candidate may do so too."""
    must_be_dense: bool
    device: str = "cpu"
    """Torch's name for the kind of device on which the reference returns this output."""
    overlaps: frozenset[int] = frozenset()
    """Numbers of the reference's earlier outputs that share memory with this one."""

    @property
    def nbytes(self) -> int:
        """Bytes of the row-major tensor."""
        return slot_nbytes({"dtype": self.dtype, "shape": self.shape})


@dataclass(frozen=True)
class SampleLayout:
    """Where arguments, constructor arguments and state of one workload lie in memory."""

    args: Any
    """Encoded forward arguments; see worker/tensors.py."""
    arg_slots: tuple[Slot, ...]
    args_bytes: int
    init: Any
    """Encoded constructor arguments."""
    state: Mapping[str, Slot]
    parameters: frozenset[str]
    state_bytes: int
    is_train: bool

    @property
    def has_float_inputs(self) -> bool:
        """True when input distributions other than ``as_is`` change anything."""
        return any(is_float(slot["dtype"]) for slot in self.arg_slots)

    @property
    def n_float_inputs(self) -> int:
        """Number of inputs whose values are changed as floats."""
        return sum(is_float(slot["dtype"]) for slot in self.arg_slots)

    @property
    def has_rows(self) -> bool:
        """True when a float input has more than one axis."""
        return any(is_float(slot["dtype"]) and len(slot["shape"]) > 1 for slot in self.arg_slots)

    @property
    def has_images(self) -> bool:
        """True when a float input has more than two axes, so that rows may lie along a middle one."""
        return any(is_float(slot["dtype"]) and len(slot["shape"]) > 2 for slot in self.arg_slots)

    @property
    def has_twins(self) -> bool:
        """True when inputs can be alike: floats with rows of one length, or integers.

        Labels, too, can agree with scores whose shape has one axis more, and rows with those of weights.
        """
        shapes = [(slot["dtype"], tuple(slot["shape"])) for slot in self.arg_slots]
        floats = [(dtype, shape) for dtype, shape in shapes if is_float(dtype)]
        integers = [(dtype, shape) for dtype, shape in shapes if dtype.startswith(("int", "uint"))]
        rows = [(dtype, shape[-1:] if len(shape) > 1 else shape) for dtype, shape in floats]
        labelled = {shape[:i] + shape[i + 1 :] for _, shape in floats for i in range(len(shape))}
        codes: set[int] = set()
        for name, slot in self.state.items():
            *leading, width = slot["shape"] or [0]
            is_rows = 0 < len(leading) < 3 or (not leading and name not in self.parameters)
            if is_rows and is_float(slot["dtype"]):
                codes |= {width, math.prod(leading)} if leading else {width}
        return (
            any(len(set(forms)) < len(forms) for forms in (floats, rows))
            or len(integers) > 1
            or any(shape in labelled for _, shape in integers)
            or any(shape[-1] in codes for _, shape in floats if len(shape) > 1)
        )

    @property
    def has_weight_twins(self) -> bool:
        """True when two parameters have one form and memory of their own, so that they can be alike."""
        floats = [slot for slot in self.parameter_slots if is_float(slot["dtype"])]
        forms = {(slot["dtype"], tuple(slot["shape"]), slot.get("offset")) for slot in floats}
        return len({form[:2] for form in forms}) < len(forms)

    @property
    def has_weights(self) -> bool:
        """True when a second weight sample changes anything."""
        return any(is_float(slot["dtype"]) for slot in self.state.values())

    @property
    def flat_weights(self) -> list[str]:
        """Return which of ``FLAT_WEIGHTS`` change anything."""
        found = [ZERO_WEIGHTS, SMALL_WEIGHTS] * bool(self.parameters) + [
            ALIKE_WEIGHTS
        ] * self.has_weight_twins
        return found + [SIGNED_BUFFERS] * any(is_float(slot["dtype"]) for slot in self.buffers().values())

    @property
    def changeable(self) -> list[Slot]:
        """Return parameters and buffers of which one element can be changed alone."""
        ordinary = (slot for slot in self.state.values() if slot["dtype"] in CHANGEABLE)
        return [slot for slot in ordinary if math.prod(slot["shape"]) > 0]

    @property
    def longest_reduction(self) -> int:
        """Most elements of an input on which one statistic may depend: all that share a place on one axis.

        A batch norm reduces all axes but the channels, a softmax one axis. Axes of length 1 do not count.
        """
        shapes = [[n for n in slot["shape"] if n > 1] for slot in self.arg_slots]
        return max((max(math.prod(s) // min(s), max(s)) for s in shapes if s), default=1)

    @property
    def n_input_elements(self) -> int:
        """Number of elements of all inputs and weights."""
        slots = [*self.arg_slots, *self.state.values()]
        return sum(math.prod(slot["shape"]) for slot in slots)

    @property
    def parameter_slots(self) -> list[Slot]:
        """Return the slots of the state that are parameters."""
        return [slot for name, slot in self.state.items() if name in self.parameters]

    def buffers(self) -> dict[str, Slot]:
        """Return the slots of the state that are not parameters."""
        return {name: slot for name, slot in self.state.items() if name not in self.parameters}


@dataclass(frozen=True)
class WeightState:
    """One sample of all parameters and buffers."""

    name: str
    style: str
    """``constructed``, or a style of ``host/weight_draws.change_state``."""
    memory: TensorMemory

    def is_like(self, other: "WeightState", slot: Slot) -> bool:
        """Tell whether many elements of a tensor are the same in two constructions, bit by bit."""
        size = ITEM_BYTES[slot["dtype"]]
        ours, theirs = (state.memory.slot_bytes(slot).reshape(-1, size) for state in (self, other))
        return ours.size > 0 and float((ours == theirs).all(axis=1).mean()) >= LIKE_SHARE


UNEVEN = Slack(reference=2.0, floor=2.0)
"""Where large and small values mix, honest float32 sums differ more by their order, and the reference's own
error says less about that difference."""
EQUAL_TERMS = Slack(floor=3.0)
"""Where many terms are equal, their rounding errors are equal too and do not average out."""
BY_ROW = Slack(reference=4.0, floor=32.0, is_by_row=True)
"""Among odd rows only gross errors count: ordinary samples judge precision."""
MILD_FAMILIES = ("mild_rows", "mild_elements")
"""Rows or elements are odd within the range of the values as drawn."""
CHANNELS, IMAGES = 2, (3, 4)
"""Variants of ``odd_rows`` whose rows are channels or columns, and samples of a batch or images."""
ACROSS = 1
"""Variant of ``mild_rows`` whose rows lie along middle axes."""
ODD_FAMILIES = ("odd_rows", "few_odd_rows", "odd_elements", *MILD_FAMILIES, "mixed")
"""Families in which most values are ordinary."""
FOLLOWING = ("odd_elements", "mixed")
"""Families of samples that are called right after what they were before they were changed."""
RENEWED = "renewed"
"""Not a sample's family: as drawn, but inputs that the task always draws alike are others."""
NONFINITE = "nonfinite"
SMALL = 2
"""Variant of ``scaled``: all inputs are small, and what a kernel leaves of its results may be rounding."""
ALIKE = "alike"
"""Inputs of one shape are nearly the same."""
CANCELLED = "cancelled"
"""Sums of several inputs are zero, or nearly."""
ON_GRID = "on_grid"
"""What is rounded is an integer already, on some elements."""
SOLVED = (CANCELLED, ON_GRID)
"""Families whose inputs are found by watching the reference; it says whether there is anything to find."""
FLAT_FAMILIES = ("zeros", "flat", ALIKE, CANCELLED)
"""Every input is the same everywhere: zero, or another constant; or it is like another input, or like a sum
of others. Outputs may be zero there."""
SLACK = {
    "sparse_spikes": UNEVEN,
    "heavy_tail": UNEVEN,
    "coarse": EQUAL_TERMS,
    NONFINITE: BY_ROW,
    "sorted": BY_ROW,
    "far": BY_ROW,
    ON_GRID: BY_ROW,
    **dict.fromkeys((*ODD_FAMILIES, *FLAT_FAMILIES), BY_ROW),
}


CONSTRUCTED, TOUCHED, RANDOMISED, FRESH = "constructed", "touched", "randomised", "fresh"
"""Weights as constructed under a secret seed; the same but for one element of every tensor; others; and those
of one evaluation only."""
ODD_WEIGHTS = "odd"
"""Weights as constructed, but some elements of parameters are large, tiny or zero, and some of buffers are
tiny."""
ZERO_WEIGHTS, SMALL_WEIGHTS, ALIKE_WEIGHTS, SIGNED_BUFFERS = FLAT_WEIGHTS = (
    "zero",
    "small",
    "alike",
    "signed",
)
"""All parameters are zero everywhere, or small; those of one form are nearly the same; signs of buffers are
others. Outputs may be zero there."""
ONE_ELEMENT = "one element"
"""Weights as constructed but for one element of one tensor."""
ALONE = tuple(f"{ONE_ELEMENT} {number}" for number in range(1, 5))
"""Several such in a session: whoever looks at some of all elements before it trusts what it has kept may have
looked at one that moved, and does not look at all of those that move."""

TRADED = ALONE[2:]
"""In these, two elements trade places. They follow each other, so what is kept until a sum or a largest value
changes is wrong in the second."""


@dataclass(frozen=True)
class SampleKey:
    """Names a sample: which inputs, on which weights."""

    family: str
    variant: int = 0
    state: str = CONSTRUCTED

    @property
    def label(self) -> str:
        """Name in messages."""
        weights = "" if self.state == CONSTRUCTED else f", {self.state} weights"
        return f"{self.family}{weights}"

    @property
    def slack(self) -> Slack:
        """How much more error is allowed than on ordinary inputs."""
        return BY_ROW if self.state in (ODD_WEIGHTS, *FLAT_WEIGHTS) else SLACK.get(self.family, EVEN)

    @property
    def may_vanish(self) -> bool:
        """Whether outputs may be zero, and what a kernel leaves of them rounding."""
        is_small = (self.family, self.variant) == ("scaled", SMALL)
        return is_small or self.family in FLAT_FAMILIES or self.state in FLAT_WEIGHTS


@dataclass(frozen=True)
class InputSample:
    """One set of inputs and what reference and oracle computed from it."""

    key: SampleKey
    state: WeightState
    inputs: TensorMemory
    outputs: tuple[ExpectedOutput, ...]
    changed: Mapping[str, ExpectedOutput]
    """Name of state that the reference's forward writes -> the value expected after the call."""
    before: TensorMemory | None = None
    """Inputs of the call just before, most of whose values are the same; None: any other call."""


def new_seed() -> int:
    """Return a seed that nobody can predict."""
    return secrets.randbits(62)


def plan_samples(
    layout: SampleLayout,
    *,
    n_timed: int,
    is_slow: bool,
    has_nonfinite: bool = False,
    solved: Sequence[str] = (),
    are_weights_frozen: bool = False,
    n_alone: int = len(ALONE),
) -> list[SampleKey]:
    """Return the session's samples; the first ``n_timed`` are also the inputs of the timed calls.

    A slow reference (over half a second with its oracle) gets fewer samples: one of them, ``mixed``, holds
    odd rows and elements of all kinds.

    Args:
        layout: of the workload.
        n_timed: how many inputs timed calls go round.
        is_slow: as above.
        has_nonfinite: NaN and infinity are judged.
        solved: families of ``SOLVED`` that the reference has something for.
        are_weights_frozen: one process never gets other weights.
        n_alone: how many samples are on weights of which one element of one tensor is another.
    """
    keys = [SampleKey("as_is", variant) for variant in range(n_timed)]
    whole, odd = ["negated", "sparse_spikes"], ["mixed"]
    if not is_slow:
        whole = ["scaled", "negated", "sparse_spikes", "heavy_tail", "offset", "positive", "far"]
        whole += ["coarse", "permuted", "sorted"]
        odd = ["odd_rows", "few_odd_rows", "odd_elements"]
        odd += [*MILD_FAMILIES] if layout.has_float_inputs else []
        keys += [SampleKey("mild_rows", ACROSS)] if layout.has_images else []
        keys += [SampleKey("odd_rows", CHANNELS)] if layout.has_rows else []
        keys += [SampleKey("odd_rows", variant) for variant in IMAGES if layout.has_images]
        keys += [SampleKey("scaled", variant) for variant in (1, SMALL) if layout.has_float_inputs]
    if layout.has_float_inputs:
        keys += [SampleKey(family) for family in whole]
        keys += [SampleKey("offset", 1)] if layout.n_float_inputs > 1 and not is_slow else []
    if layout.arg_slots:
        keys += [SampleKey(family) for family in odd]
        if not is_slow:
            keys.append(SampleKey("odd_elements", 1))  # the few of one sample may all be of harmless kinds
            flat = [f for f in FLAT_FAMILIES if f not in SOLVED and (f != ALIKE or layout.has_twins)]
            keys += [SampleKey(f) for f in (*flat, *solved)]
    if layout.has_weights and not are_weights_frozen:
        keys.append(SampleKey("as_is", 0, TOUCHED))
        if layout.changeable:
            keys += [SampleKey("as_is", 0, name) for name in ALONE[:n_alone]]
        keys.append(SampleKey("as_is", 0, RANDOMISED))
        if n_alone > 1 and not is_slow:
            keys += [SampleKey("as_is", 0, name) for name in (ODD_WEIGHTS, *layout.flat_weights)]
        if layout.has_float_inputs and not is_slow:
            keys += [
                SampleKey("as_is", 1),
                SampleKey("odd_rows", 1, TOUCHED),
                SampleKey("negated", 0, RANDOMISED),
            ]
    if has_nonfinite:
        keys.append(SampleKey(NONFINITE))
    return keys


def share_of(keys: Sequence[SampleKey], turn: int, order: int, n_turns: int) -> list[SampleKey]:
    """Return the samples on constructed weights that belong to one of the turns 1, 2, 3 …

    Any ``n_turns`` turns in a row hold every sample. ``order`` is the seed of their order.
    """
    dealt = [key for key in keys if key.state == CONSTRUCTED]
    random.Random(order).shuffle(dealt)
    count = math.ceil(len(dealt) / n_turns)
    return [dealt[(turn * count + i) % len(dealt)] for i in range(count)]
