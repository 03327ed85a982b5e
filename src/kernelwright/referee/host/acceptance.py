"""Finds, by running it, what a reference accepts as inputs: odd rows, redrawn masks, special labels, NaN.

All of it happens once, when a task is admitted. A reference that is slow is asked less, and what was not
asked is not tried later.
"""

import bisect
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_leaves

from kernelwright.core.policy import Nonfinite
from kernelwright.referee.host.change import (
    ALL_NONFINITE,
    NAN,
    AcceptedInputs,
    as_float,
    put_nonfinite,
    redraw,
)
from kernelwright.referee.host.exactness import Exactness
from kernelwright.referee.host.odd_rows import (
    EXPONENTS,
    KINDS,
    LEAST_EXPONENT,
    MARGIN,
    SQUARED,
    WIDE_KINDS,
    Keeping,
    Oddness,
    make_odd,
)
from kernelwright.referee.host.redrawn import (
    EMPTY,
    EQUAL,
    FULL,
    LEAST_BITS,
    MOST_BITS,
    PADDED,
    RANDOM,
    SHIFTED,
    SHUFFLED,
    STYLES,
    TRADED,
    UNEVEN,
    WIDE,
    WIDEST,
    are_in_a_row,
    has_few_bits,
    is_integer,
    is_mask,
    put_special,
)
from kernelwright.referee.host.renewing import Renewing, renew, ways_to_renew
from kernelwright.referee.host.watching import Watching
from kernelwright.referee.worker.threads import one_thread

Values = list[torch.Tensor]
Line = tuple[float, float]
"""Slope and offset of what is computed from a value: ``slope * value + offset``."""
Run = Callable[[Values], Values | None]
"""Calls the reference; None where it raises or gives NaN or infinity."""

T = TypeVar("T")
LEAST_S, LARGEST_SHARE = 0.5, 4.0
"""Processor seconds of one thread that the questions may take; more for a slow reference: this many times one
of its calls."""
ACCURATE = 1e-2
"""Largest scaled error of the reference in float32 within a range of magnitudes that it accepts."""
EXACT = 10.0
"""By how much more a share of integers or flags that differ counts."""
GENERAL_TRIALS = 2
RENEWALS = 3
"""How often a reference must accept other values of what comes again: no such draw can be skipped later."""
LEAST_SPECIAL = 8
"""So many values that may be treated apart are asked for, however little time is left."""
LEAST_PLACES, PLACES = 2, 8
"""Places where NaN is tried: it has to come through from each, so that no mask keeps it back at others."""
HANDLED = 4
"""How often each value is put somewhere, to see whether a reference that is made for it lets none through."""
NOT_FINITE = "the reference gives NaN or infinity there, or refuses it"
NOT_ASKED = "the reference is too slow to find out what it accepts"
STAYS = "every draw of the task has it alike, and other masks and integers might take another time"
EQUALITIES = frozenset({"eq", "ne", "isin"})
COMPARED = EQUALITIES | {"lt", "le", "gt", "ge"}
ORDERED = frozenset({"lt", "le", "gt", "ge"})
CLAMPS: dict[str, tuple[int, ...]] = {
    "clamp": (-1, 1), "clamp_min": (-1,), "clamp_max": (1,), "maximum": (-1,), "minimum": (1,)
}  # fmt: skip
"""Operations that bound integers -> on which side of each bound they change something."""
OVERWRITES: dict[str, tuple[int, int]] = {
    "scatter": (2, 3), "index_copy": (2, 3), "index_put": (1, 2), "_index_put_impl": (1, 2)
}  # fmt: skip
"""Operations that write to places -> which arguments are the places and what is written."""
ACCUMULATE = 3
"""Which argument of ``index_put`` says that what is written to one place adds up."""
LOOKS_UP = frozenset({"embedding", "gather", "index", "index_select", "take"})
"""Operations that take integers as places."""
OF_NUMBERS = frozenset(
    {
        "_to_copy", "_unsafe_view", "abs", "add", "addmm", "alias", "amax", "amin", "as_strided", "baddbmm",
        "bmm", "cat", "clamp", "clamp_max", "clamp_min", "clone", "copy", "cumsum", "detach", "div", "dot",
        "expand", "floor_divide", "fmod", "lift_fresh", "maximum", "mean", "minimum", "mm", "mul", "mv",
        "neg", "permute", "relu", "remainder", "reshape", "rsub", "select", "sign", "slice", "square",
        "squeeze", "stack", "sub", "sum", "t", "transpose", "unsqueeze", "view",
    }
)  # fmt: skip
"""Operations that take integers as numbers."""
MOVES = frozenset(
    {
        "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "as_strided", "cat", "clone",
        "constant_pad_nd", "contiguous", "copy", "detach", "diagonal", "expand", "flip", "index_select",
        "lift_fresh", "movedim", "narrow", "permute", "repeat", "reshape", "roll", "select", "slice", "split",
        "split_with_sizes", "squeeze", "stack", "t", "transpose", "unbind", "unfold", "unsqueeze", "view",
    }
)  # fmt: skip
"""Operations whose results hold values of their arguments, wherever they lie then."""
LINES: dict[str, Callable[[float, float], Line]] = {
    "add": lambda number, alpha: (1.0, number * alpha),
    "sub": lambda number, alpha: (1.0, -number * alpha),
    "rsub": lambda number, alpha: (-alpha, number),
    "mul": lambda number, alpha: (number, 0.0),
}
"""Operations of a tensor and a number, with their factor ``alpha`` -> what they make of a value."""
FEW = 64
"""Of a tensor that others are compared with, so many elements are tried as their values."""
NANS = "nan"
"""In the name of every operation that is there for the sake of NaN. ``isfinite`` is none: torch compares a
value with itself and with infinity."""
INFINITIES = (float("inf"), -float("inf"))
MASKED = -1e4
"""An attention's mask adds less than this where nothing is to be seen."""
LOSSES = frozenset({"nll_loss_forward", "nll_loss2d_forward"})
SEARCHES = {"searchsorted": 0, "bucketize": 1}
"""Operations that seek values among sorted ones -> which argument is sorted."""
BAGS = frozenset({"_embedding_bag", "_embedding_bag_forward_only"})
PADDING = 8
"""Which argument of theirs is the index that does not count."""


@dataclass(frozen=True)
class Questions:
    """How to ask a reference."""

    run: Run
    run_raw: Run
    """The same, but NaN and infinity are answers."""
    run_told: Callable[[Values, Callable[[Values], None]], Values | None]
    """The same, and the callable is told the very tensors that the reference is called with."""
    run_double: Run
    """In float64."""
    values: Values
    """Inputs as drawn."""
    seed: int
    is_on_gpu: bool = False
    drawn_again: Values | None = None
    """Inputs of another draw; None: nobody looks which of them are always the same."""


class Asking:
    """One reference being asked."""

    def __init__(self, questions: Questions) -> None:
        self._ask, self._values = questions, questions.values
        self._generator = torch.Generator().manual_seed(questions.seed)
        with Watching():
            torch.zeros(()).clone()  # what torch does once in a process is no time of the reference's
        begin = time.thread_time()
        self._base = questions.run_raw(self._values)
        call_s = time.thread_time() - begin
        self._end = time.thread_time() + max(LEAST_S, LARGEST_SHARE * call_s)
        self._floats = [i for i, x in enumerate(self._values) if x.is_floating_point() and x.numel()]
        self._skipped: dict[str, list[str]] = {}
        self._asked: set[int] = set()
        """Masks and integers about which something was asked."""

    def answer(self, *, nonfinite: Nonfinite) -> AcceptedInputs:
        """Ask everything, for NaN and infinity as the policy says."""
        trace = self._trace()
        renewed = self._find_renewed(trace)
        exponent = self._find_exponent()
        odd = self._find_odd(exponent)
        redrawn = {i: self._find_styles(i, trace) for i in self._others()}
        special = self._find_special(trace.found)
        tried = {i: values for i in self._floats if (values := self._nonfinite_in(i, nonfinite, trace))}
        numbers = [i for i, styles in redrawn.items() if WIDE in styles]
        return AcceptedInputs(
            odd=odd, redrawn=redrawn, may_repeat=frozenset(redrawn) - trace.overwritten, special=special,
            special_rows=frozenset(i for i in special if self._takes_special_rows(i, special[i])),
            special_whole=frozenset(i for i in special if self._takes_special_whole(i, special[i])),
            nonfinite=tried, masked=frozenset(i for i in tried if self._takes_masked(i, trace)),
            renewed=renewed, ordered=frozenset(trace.ordered),
            counts=frozenset(i for i in self._floats if bool(has_few_bits(self._values[i]).all())),
            bits=self._find_bits(numbers),
            skipped={", ".join(names): why for why, names in self._skipped.items()},
        )  # fmt: skip

    def _has_time(self) -> bool:
        return time.thread_time() < self._end

    def _skip(self, what: str, why: str) -> None:
        self._skipped.setdefault(why, []).append(what)

    def _changed(self, only: int, change: Callable[[torch.Tensor], object]) -> Values:
        """Return copies of the inputs, of which one has been changed."""
        with one_thread():
            copies = [x.clone() for x in self._values]
            change(copies[only])
        return copies

    # --- odd rows

    def _odd_values(self, family: str, oddness: Oddness, only: int | None) -> Values:
        """Return copies of the inputs with odd rows in one or, with None, all float inputs."""
        with one_thread():
            copies = [x.clone() for x in self._values]
            for i in self._floats if only is None else [only]:
                make_odd(copies[i], family, oddness, self._generator)
        return copies

    def _find_exponent(self) -> int | None:
        """Return the widest range of magnitudes that all float inputs can have at once, None for none."""
        if not self._floats:
            return None
        widest = EXPONENTS[0] if self._is_elementwise() else SQUARED
        for exponent in (widest, *EXPONENTS[1:]):
            if not self._has_time():
                self._skip("wide ranges of magnitudes", NOT_ASKED)
                return None
            wide = Oddness(dict.fromkeys(WIDE_KINDS, Keeping.NOTHING), exponent)
            if self._is_accurate(self._odd_values("odd_rows", wide, None)):
                is_exact = not all(x.is_floating_point() for x in self._base or ())
                return LEAST_EXPONENT if is_exact else exponent - MARGIN
        self._skip("wide ranges of magnitudes", NOT_FINITE)
        return None

    def _is_elementwise(self) -> bool:
        """Tell whether an element of an input reaches no other place of the outputs."""
        for i in self._floats:
            place = tuple(self._index(n) for n in self._values[i].shape)
            outputs = self._ask.run_raw(self._changed(i, partial(_put, place=place, value=torch.nan)))
            if outputs is None or any(int((~torch.isfinite(x)).sum()) > 1 or x.numel() == 1 for x in outputs):
                return False
            if any(x.shape != self._values[i].shape for x in outputs):
                return False
        return True

    def _is_accurate(self, values: Values) -> bool:
        """Tell whether the reference in float32 is finite, and near its float64 self in every row."""
        outputs = self._ask.run(values)
        truths = self._ask.run_double(values) if outputs is not None else None
        if outputs is None or truths is None:
            return False
        return all(_error(x, o) < ACCURATE for x, o in zip(outputs, truths, strict=True))

    def _find_odd(self, exponent: int | None) -> dict[int, Oddness]:
        if not self._floats:
            return {}
        names = set(KINDS) if exponent is not None else set(KINDS) - WIDE_KINDS
        free = Oddness(dict.fromkeys(names, Keeping.NOTHING), exponent or 0)
        if self._accepts_all(free):
            return dict.fromkeys(self._floats, free)
        return {i: self._find_kinds(i, names, exponent or 0) for i in self._floats}

    def _accepts_all(self, oddness: Oddness) -> bool:
        """Tell whether all kinds are accepted in all inputs at once."""
        return all(
            self._ask.run(self._odd_values(family, oddness, None)) is not None
            for family in ["mixed"] * GENERAL_TRIALS
        )

    def _find_kinds(self, i: int, names: set[str], exponent: int) -> Oddness:
        """Return which kinds one input accepts while the others are as drawn, keeping as little as it can."""
        found: dict[str, Keeping] = {}
        for keeping in Keeping:
            left = sorted(names - found.keys())
            found |= dict.fromkeys(self._accepted_of(i, left, keeping, exponent), keeping)
        if missing := sorted(names - found.keys()):
            why = NOT_FINITE if self._has_time() else NOT_ASKED
            self._skip(f"odd rows of input {i} ({', '.join(missing)})", why)
        return Oddness(found, exponent)

    def _accepted_of(self, i: int, names: list[str], keeping: Keeping, exponent: int) -> list[str]:
        """Return those of some kinds that an input accepts; all are tried at once, then halves of them."""
        if not names or not self._has_time():
            return []
        oddness = Oddness(dict.fromkeys(names, keeping), exponent)
        if all(self._ask.run(self._odd_values("mixed", oddness, i)) for _ in range(GENERAL_TRIALS)):
            return names
        if len(names) == 1:
            return []
        middle = len(names) // 2
        halves = names[:middle], names[middle:]
        return [name for half in halves for name in self._accepted_of(i, half, keeping, exponent)]

    # --- masks, integers, labels

    def _others(self) -> list[int]:
        return [i for i, x in enumerate(self._values) if is_mask(x) or is_integer(x)]

    def _find_styles(self, i: int, trace: "_Trace") -> frozenset[int]:
        """Return the styles in which a mask or integers may be redrawn."""
        found: set[int] = set()
        takes = partial(self._takes, i, may_repeat=i not in trace.overwritten)
        is_number = not is_mask(self._values[i])
        if is_number and are_in_a_row(self._values[i]):
            found = {style for style in (SHIFTED, SHUFFLED)[: 1 + trace.is_index] if takes(style)}
            return self._told(i, found, found)
        is_safe = trace.is_safe_softmax and not is_number
        for style in (PADDED, RANDOM) if is_safe else STYLES:
            if style == EQUAL and UNEVEN not in found:
                break
            if takes(style):
                found.add(style)
            elif style == PADDED:
                break
        if not is_number and PADDED in found and not {UNEVEN, EQUAL} <= found:
            with _Attention() as attention:
                for style in (FULL, EMPTY):
                    attention.has_empty_rows = False
                    found |= {style} if takes(style) and not attention.has_empty_rows else set()
        if is_number and not found and takes(TRADED):
            found.add(TRADED)
            return self._told(i, found, found)
        if is_number and RANDOM in found and i not in trace.no_numbers and takes(WIDE):
            found.add(WIDE)
        return self._told(i, found, {PADDED, RANDOM} <= found)

    def _told(self, i: int, found: set[int], is_redrawn: object) -> frozenset[int]:
        """Note where an input is not redrawn, and return the styles in which it may be."""
        if not is_redrawn:
            self._skip(f"redrawn input {i}", NOT_FINITE if self._has_time() else NOT_ASKED)
        return frozenset(found)

    def _takes(self, i: int, style: int, *, may_repeat: bool) -> bool:
        """Tell whether the reference accepts a mask or integers in a style.

        The first question about an input is asked in any case, the others if there is time.
        """
        if i in self._asked and not self._has_time():
            return False
        self._asked.add(i)
        change = partial(redraw, style=style, generator=self._generator, may_repeat=may_repeat, is_whole=True)
        outputs = self._ask.run(self._changed(i, change))
        return outputs is not None and self._base is not None and _are_alike(outputs, self._base)

    def _find_bits(self, numbers: Sequence[int]) -> int:
        """Return how many bits integers may have so that all that the reference makes of them is exact."""
        if not any(self._values[i].dtype in WIDEST for i in numbers):
            return 0
        bits = range(LEAST_BITS, MOST_BITS + 1)
        refused = bisect.bisect(bits, False, key=lambda n: not self._is_exact(numbers, n))
        return bits[refused - 1] if refused else 0

    def _is_exact(self, numbers: Sequence[int], bits: int) -> bool:
        """Tell whether the reference is exact where integers have so many bits, and as ordinary otherwise."""
        if not self._has_time():
            return False
        with one_thread():
            copies = [x.clone() for x in self._values]
            for i in numbers:
                redraw(copies[i], WIDE, self._generator, may_repeat=True, bits=bits)
        with Exactness() as exactness:
            outputs = self._ask.run_told(copies, lambda given: None)
        if outputs is None or not exactness.is_exact or not _are_alike(outputs, self._base or ()):
            return False
        return self._is_accurate(copies)

    def _find_renewed(self, trace: "_Trace") -> dict[int, Renewing]:
        """Return the inputs of which the same comes again in every draw, and how they may be others.

        All of them together may be others. Whatever time is left, each costs a call or two.
        """
        found: dict[int, Renewing] = {}
        if self._ask.drawn_again is None or self._base is None:
            return found
        for i, (x, y) in enumerate(zip(self._values, self._ask.drawn_again, strict=True)):
            ways = ways_to_renew(as_float(x), as_float(y), may_swap=trace.is_index)
            accepted = next((way for way in ways if self._takes_renewed({**found, i: way})), None)
            if accepted is not None:
                found[i] = accepted
            elif ways or (x.numel() and torch.equal(x, y)):
                self._skip(f"renewed input {i}", NOT_FINITE if ways else STAYS)
        return found

    def _takes_renewed(self, renewed: Mapping[int, Renewing]) -> bool:
        """Tell whether the reference accepts some inputs, of which the same comes again, as others."""
        return all(self._takes_once(renewed) for turn in range(RENEWALS) if not turn or self._has_time())

    def _takes_once(self, renewed: Mapping[int, Renewing]) -> bool:
        with one_thread():
            copies, again = [x.clone() for x in self._values], self._ask.drawn_again or self._values
            for i, one in renewed.items():
                renew(as_float(copies[i]), one, self._generator, known=as_float(again[i]), is_farthest=True)
        outputs = self._ask.run(copies)
        return outputs is not None and self._base is not None and _are_alike(outputs, self._base)

    def _trace(self) -> "_Trace":
        """Watch one call."""
        ascending = {i: self._values[i] for i in self._floats if _is_ascending(self._values[i])}
        trace = _Trace(ascending, are_comparisons_safe=not self._ask.is_on_gpu)
        begin = time.thread_time()
        with trace:
            self._ask.run_told(self._values, trace.begin)
        self._end += time.thread_time() - begin  # watching every operation takes no time from the questions
        return trace

    def _find_special(self, traced: dict[int, set[float]]) -> dict[int, list[float]]:
        """Return the values that the reference treats apart and accepts, by input; of no mask."""
        found: dict[int, list[float]] = {}
        n_asked = 0
        for i, specials in traced.items():
            x = self._values[i]
            for value in sorted(specials) if not is_mask(x) else ():
                if not _holds(x, value) or (n_asked >= LEAST_SPECIAL and not self._has_time()):
                    continue
                n_asked += 1
                put = partial(put_special, values=[value], generator=self._generator)
                outputs = self._ask.run(self._changed(i, put))
                if outputs is not None and self._base is not None and _differ(outputs, self._base):
                    found.setdefault(i, []).append(value)
        return found

    def _takes_special_rows(self, i: int, values: list[float]) -> bool:
        """Tell whether the reference accepts them in whole rows, too."""
        put = partial(put_special, values=values, generator=self._generator, in_rows=True)
        return self._values[i].ndim > 1 and self._ask.run(self._changed(i, put)) is not None

    def _takes_special_whole(self, i: int, values: list[float]) -> bool:
        """Tell whether the reference accepts each of them everywhere, too."""
        fills = (partial(torch.fill_, value=value) for value in values)
        return all(self._has_time() and self._ask.run(self._changed(i, fill)) is not None for fill in fills)

    # --- NaN and infinity

    def _nonfinite_in(self, i: int, nonfinite: Nonfinite, trace: "_Trace") -> tuple[float, ...]:
        """Return what is tried in one input."""
        if nonfinite is Nonfinite.IGNORED:
            return ()
        if nonfinite is Nonfinite.SAME:
            return ALL_NONFINITE
        found = self._plain_in(i) or (self._handled_in(i, NAN) if trace.handles_nan else ())
        left = [x for x in INFINITIES if x not in found] if found and not trace.is_safe_softmax else []
        return found + tuple(x for x in left if self._handled_in(i, (x,)))

    def _handled_in(self, i: int, values: tuple[float, ...]) -> tuple[float, ...]:
        """Return such values if they leave all outputs of the reference finite, in float64 too; else none."""
        put = partial(put_nonfinite, values=values * HANDLED, generator=self._generator)
        return values if self._is_finite(self._changed(i, put)) else ()

    def _takes_masked(self, i: int, trace: "_Trace") -> bool:
        """Tell whether all outputs stay finite where rows begin with negative infinities."""
        if trace.is_safe_softmax:
            return False
        mask = partial(put_nonfinite, values=(), generator=self._generator, is_masked=True)
        return self._values[i].ndim > 0 and self._is_finite(self._changed(i, mask))

    def _is_finite(self, values: Values) -> bool:
        """Tell whether all outputs are finite numbers, and no indices, if there is time to ask."""
        if not self._has_time() or not all(x.is_floating_point() for x in self._base or ()):
            return False
        return self._ask.run(values) is not None and self._ask.run_double(values) is not None

    def _plain_in(self, i: int) -> tuple[float, ...]:
        """Return what a reference treats plainly in one input.

        NaN, where it reaches its own row of the outputs and nothing else; an infinity as well, where it makes
        no NaN and NaN reaches the output at its own place alone, or one output that infinities make infinite.
        Where infinities cancel, honest kernels make different things of them.
        """
        if self._base is None or not all(x.is_floating_point() for x in self._base):
            return ()
        found: tuple[float, ...] = ALL_NONFINITE
        for turn in range(PLACES):
            if not self._has_time():
                if turn < LEAST_PLACES:
                    return ()
                break
            place = tuple(self._index(n) for n in self._values[i].shape)
            outputs = self._ask.run_raw(self._changed(i, partial(_put, place=place, value=torch.nan)))
            reached = [bad for o in outputs or () if (bad := ~torch.isfinite(o)).any()]
            if not reached or not all(_is_own(bad, place) for bad in reached):
                return ()
            kept = self._kept_infinities(i, place) if all(int(bad.sum()) == 1 for bad in reached) else {}
            if not all(_is_at(bad, place, self._values[i].shape) for bad in reached):
                kept = kept if len(kept) == len(INFINITIES) and all(kept.values()) else {}
            found = tuple(x for x in found if x in kept or math.isnan(x))
        return found

    def _kept_infinities(self, i: int, place: tuple[int, ...]) -> dict[float, bool]:
        """Return the infinities that make no NaN at a place -> whether they make an output infinite."""
        kept: dict[float, bool] = {}
        for value in INFINITIES:
            outputs = self._ask.run_raw(self._changed(i, partial(_put, place=place, value=value)))
            if outputs and not any(bool(torch.isnan(o).any()) for o in outputs):
                kept[value] = any(bool(torch.isinf(o).any()) for o in outputs)
        return kept

    def _index(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self._generator))


def _put(x: torch.Tensor, place: tuple[int, ...], value: float) -> None:
    x[place] = value


class _Trace(Watching):
    """Watches what becomes of inputs: what they are compared with and bounded by, what integers are for."""

    def __init__(self, ascending: dict[int, torch.Tensor], *, are_comparisons_safe: bool) -> None:
        super().__init__()
        self._ascending, self._compares = ascending, are_comparisons_safe
        self._held: list[torch.Tensor] = []
        """Whose ids are keys below: no other tensor gets one of these."""
        self._moved: dict[int, frozenset[tuple[int, Line]]] = {}
        """Id of a tensor -> inputs from whose values its own are computed, one by one, in whatever order."""
        self._derived: dict[int, frozenset[int]] = {}
        """Id of a tensor of integers -> the inputs of integers that it was computed from."""
        self.ordered: set[int] = set()
        self.found: dict[int, set[float]] = {}
        """Values that an input is compared with or marked by, and those beside its bounds."""
        self.no_numbers: set[int] = set()
        """Integers that are not only added, multiplied and summed: they name places, bits or classes."""
        self.is_index = False
        """Something is looked up by integers."""
        self.overwritten: set[int] = set()
        """Integers that name places to write to: where these are equal, the last one wins."""
        self.is_safe_softmax = False
        """A library's attention. Nobody promises what it makes of a row of which everything is masked."""
        self.handles_nan = False

    def begin(self, inputs: Sequence[torch.Tensor]) -> None:
        """Take the tensors that the reference is called with."""
        for i, x in enumerate(inputs):
            self._note(self._moved, x, frozenset({(i, (1.0, 0.0))}))
            if is_integer(x):
                self._note(self._derived, x, frozenset({i}))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.overloadpacket.__name__.rstrip("_"), kwargs or {}
        given = _tensors_of(args, kwargs)
        if name not in OF_NUMBERS:
            self.no_numbers |= self._sources(self._derived, given)
        self.is_index |= name in LOOKS_UP
        self.is_safe_softmax |= "scaled_dot_product" in name or name == "_safe_softmax"
        self.handles_nan |= NANS in name or _tells_nonfinite(name, args)
        if name in SEARCHES:
            sought = args[SEARCHES[name]]
            self.ordered |= {i for i, x in self._ascending.items() if _are_equal(sought, x)}
        if name in OVERWRITES:
            self.overwritten |= self._overwritten_by(name, args, kwargs)
        for tensor, value in self._apart(name, args, kwargs):
            self._add(tensor, value)
        result = func(*args, **kwargs)
        self._follow(name, args, kwargs, given, result)
        return result

    def _moved_by(
        self, name: str, args: Any, kwargs: Any, given: Sequence[torch.Tensor]
    ) -> frozenset[tuple[int, Line]]:
        """Return from which inputs, and how, the values of a result are computed one by one."""
        if name in MOVES:
            return self._sources(self._moved, given)
        if name == "abs":  # of either sign
            known = self._sources(self._moved, given)
            return known | {(i, (-slope, -by)) for i, (slope, by) in known}
        if name == "neg":
            line = (-1.0, 0.0)
        elif name in LINES and len(args) > 1:
            ends = [_number(x) for x in args[:2]]
            if ends[0] is not None and name in ("add", "mul"):
                ends.reverse()
            if ends[0] is not None or ends[1] is None:
                return frozenset()
            alpha = args[2] if len(args) > 2 else kwargs.get("alpha", 1)
            line = LINES[name](ends[1], alpha)
        else:
            return frozenset()
        known = self._sources(self._moved, given)
        return frozenset((i, (line[0] * slope, line[0] * by + line[1])) for i, (slope, by) in known)

    def _follow(self, name: str, args: Any, kwargs: Any, given: Sequence[torch.Tensor], result: Any) -> None:
        moved = self._moved_by(name, args, kwargs, given)
        derived = self._sources(self._derived, given)
        for x in _tensors_of(result, None) if moved or derived else ():
            if moved:
                self._note(self._moved, x, moved)
            if derived and is_integer(x):
                self._note(self._derived, x, derived)

    def _note(self, known: dict[int, frozenset[T]], x: torch.Tensor, sources: frozenset[T]) -> None:
        self._held.append(x)
        known[id(x)] = sources

    def _sources(self, known: dict[int, frozenset[T]], given: Sequence[torch.Tensor]) -> frozenset[T]:
        return frozenset[T]().union(*(known.get(id(x), ()) for x in given))

    def _apart(self, name: str, args: Any, kwargs: Any) -> Iterator[tuple[Any, float]]:
        """Yield tensors with values that an operation treats apart, and with values beyond its bounds."""
        if name in LOSSES:
            yield args[1], args[4]
        elif name in BAGS and len(args) > PADDING and args[PADDING] >= 0:
            yield args[1], args[PADDING]
        elif self._compares and name in COMPARED and len(args) > 1:
            if (value := _number(args[1])) is not None:
                beside = (-1, 0, 1) if name in ORDERED and is_integer(args[0]) else (0,)
                yield from ((args[0], value + by) for by in beside)
                if name in ORDERED and _is_float(args[0]):  # beyond the bound, where nothing may be drawn
                    yield args[0], torch.tensor(2.0 * value, dtype=args[0].dtype).item()
            elif name in EQUALITIES:
                for one, other in (args[:2], args[1::-1]):
                    yield from ((one, value) for value in _few_numbers(other))
        elif self._compares and name in CLAMPS:
            bounds = (*args[1:3], kwargs.get("min"), kwargs.get("max"))
            sides = CLAMPS[name] if len(args) > 1 else (-1, 1)
            for side, bound in zip(sides, bounds, strict=False):
                if (value := _number(bound)) is not None and is_integer(args[0]):
                    yield args[0], value + side

    def _overwritten_by(self, name: str, args: Any, kwargs: Any) -> frozenset[int]:
        """Return the inputs that name places of which only the last value written stays."""
        where, what = OVERWRITES[name]
        adds_up = "index_put" in name and len(args) > ACCUMULATE and args[ACCUMULATE]
        if adds_up or kwargs.get("accumulate") or kwargs.get("reduce") or len(args) <= what:
            return frozenset()
        if not isinstance(args[what], torch.Tensor) or args[what].numel() == 1:
            return frozenset()
        return self._sources(self._derived, _tensors_of(args[where], None))

    def _add(self, tensor: Any, value: float) -> None:
        for i, (slope, offset) in self._moved.get(id(tensor), ()):
            before = (value - offset) / slope if slope else math.nan
            if slope * before + offset == value:
                self.found.setdefault(i, set()).add(before)


class _Attention(Watching):
    """Watches whether a library's attention gets a row of which everything is masked."""

    has_empty_rows = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if "scaled_dot_product" in name or name == "_safe_softmax":
            for x in _tensors_of(args, kwargs):
                masked = ~x if x.dtype is torch.bool else x < MASKED
                self.has_empty_rows |= x.ndim > 0 and bool(masked.all(-1).any())
        return func(*args, **(kwargs or {}))


def _tensors_of(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Return the tensors among the arguments of an operation, lists of them included."""
    return [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, torch.Tensor)]


def _number(value: Any) -> float | None:
    """Return a number, also that of a tensor without axes; None for anything else."""
    if isinstance(value, torch.Tensor) and value.ndim == 0 and value.dtype is not torch.bool:
        value = value.item()
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_float(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _few_numbers(x: object) -> list[float]:
    """Return the different elements of a tensor, or those of ``FEW`` places at random."""
    if not isinstance(x, torch.Tensor) or x.dtype is torch.bool or x.is_complex() or not x.numel():
        return []
    flat = x.reshape(-1)
    if len(flat) > FEW:
        flat = flat[random.Random().sample(range(len(flat)), FEW)]
    return sorted(set(flat.tolist()))


def _tells_nonfinite(name: str, args: Any) -> bool:
    """Tell whether an operation compares a value with itself, which NaN does not equal, or with infinity."""
    if name not in COMPARED or len(args) < 2:
        return False
    return args[0] is args[1] or math.isinf(_number(args[1]) or 0.0)


def _holds(x: torch.Tensor, value: float) -> bool:
    """Tell whether a type has exactly this finite value."""
    try:
        return torch.tensor(value, dtype=torch.float64).to(x.dtype).item() == value and math.isfinite(value)
    except RuntimeError:
        return False


def _are_equal(tensor: object, x: torch.Tensor) -> bool:
    """Tell whether something holds the same values as an input, in whatever shape."""
    if not isinstance(tensor, torch.Tensor) or tensor.numel() != x.numel():
        return False
    return bool((tensor.cpu().reshape(-1) == x.cpu().reshape(-1)).all())


def _is_ascending(x: torch.Tensor) -> bool:
    return x.ndim > 0 and bool((x.diff(dim=-1) >= 0).all())


def _error(x: torch.Tensor, o: torch.Tensor) -> float:
    """Return the largest error relative to an element and the size of its row.

    Integers and flags say nothing of the arithmetic behind them, so hardly any of these may differ.
    """
    if x.numel() == 0:
        return 0.0
    if not x.is_floating_point():
        return float((x != o).double().mean()) * EXACT
    width = x.shape[-1] if x.ndim and x.numel() > x.shape[-1] else 1
    got, truth = (t.double().reshape(-1, width) for t in (x, o))
    scale = truth.abs() + truth.square().mean(-1, keepdim=True).sqrt() + 1e-30
    error = float(((got - truth).abs() / scale).max())
    return error if error == error else float("inf")


def _differ(outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return any(not torch.equal(x, y) for x, y in zip(outputs, others, strict=True))


def _are_alike(outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return [(x.shape, x.dtype) for x in outputs] == [(y.shape, y.dtype) for y in others]


def _is_at(reached: torch.Tensor, place: tuple[int, ...], shape: torch.Size) -> bool:
    """Tell whether an output of the input's shape was reached at one place, the input's."""
    return reached.shape == shape and int(reached.sum()) == 1 and bool(reached[place])


def _is_own(reached: torch.Tensor, place: tuple[int, ...]) -> bool:
    """Tell whether what was reached is one element, or all that shares the place's indices but the last."""
    count = int(reached.sum())
    if count == 1:
        return reached.numel() > 1
    leading = place[:-1]
    if not leading or len(leading) > reached.ndim:
        return False
    if any(at >= size for at, size in zip(leading, reached.shape, strict=False)):
        return False
    row = reached[leading]
    return bool(row.all()) and row.numel() == count < reached.numel()
