"""What printers of every language share: unique names, index arithmetic, the text of named nodes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kernelwright.ir.dag import Dag
from kernelwright.ir.extents import Extent, most
from kernelwright.ir.program import Affine

_RESERVED_TEXT = (
    "alignas and asm auto bitand bitor bool break case catch char class compl const constexpr continue "
    "default delete do double else enum explicit export extern false float for friend goto if inline int "
    "int64_t int32_t int16_t int8_t uint8_t long mutable namespace new not operator or private protected "
    "public register restrict return short signed sizeof static struct switch template this throw true try "
    "typedef typename union unsigned using virtual void volatile while xor INF LANES squared select "
    "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh atan asin acos erf pow fmod floor ceil "
    "round trunc sqrt abs fabs floorf y0 y1 yn j0 j1 jn gamma lgamma tgamma index"
)
RESERVED = frozenset(_RESERVED_TEXT.split())
"""Words that name no variable: C++'s keywords, our own, and the C library's built-in functions. Arguments
avoid them in every language, so that a buffer has one name whatever is printed."""


class Names:
    """Unique identifiers, freed when the scope they were made in ends."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._scopes = [set(taken) | RESERVED]

    def new(self, wanted: str) -> str:
        """Return the wanted name, or the first numbered variant that is free."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted)
        base = base if base and not base[0].isdigit() else f"v{base}"
        name, count = base, 1
        while any(name in scope for scope in self._scopes):
            count += 1
            name = f"{base}_{count}"
        self._scopes[-1].add(name)
        return name

    def copy(self) -> "Names":
        """Return names of which all of these are taken."""
        return Names(set().union(*self._scopes))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Free the names made inside."""
        self._scopes.append(set())
        yield
        self._scopes.pop()


def affine_text(index: Affine, names: Mapping[str, str], *, wide: bool) -> str:
    """Return an index expression; ``wide``: in 64-bit arithmetic."""
    parts: list[str] = []
    for axis, factor in index.terms:
        suffix = "L" if wide and abs(factor) != 1 and not isinstance(factor, Extent) else ""
        name = f"(long){names[axis]}" if wide and abs(factor) == 1 else names[axis]
        term = name if abs(factor) == 1 else f"{name} * {abs(factor)}{suffix}"
        parts.append(("- " if factor < 0 else "+ ") + term)
    if index.offset or not parts:
        parts.append(("- " if index.offset < 0 else "+ ") + str(abs(index.offset)))
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else "-" + text[2:]


def extent(index: Affine, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the smallest and largest value over the ranges (inclusive) of the axes."""
    low = high = index.offset
    for axis, factor in index.terms:
        a, b = ranges[axis]
        low += min(factor * a, factor * b)
        high += max(factor * a, factor * b, key=most)
    return low, high


class Renderer(ABC):
    """Text of nodes, given which of them have names already; a language says how each kind is written."""

    def __init__(
        self,
        dag: Dag,
        buffers: Mapping[str, str],
        axes: Mapping[str, str],
        ranges: Mapping[str, tuple[int, int]],
    ) -> None:
        self.dag = dag
        self.buffers = buffers
        """Buffer -> name of its pointer."""
        self.axes = dict(axes)
        """Axis -> name of its loop variable."""
        self.ranges = dict(ranges)
        """Axis -> smallest and largest value in the code being printed."""
        self.scopes: list[dict[int, str]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget the variables bound inside."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def bind(self, node: int, name: str) -> None:
        """Let the node be known by a variable until the current scope ends."""
        self.scopes[-1][node] = name

    def bound(self, node: int) -> str | None:
        """Return the variable that holds the node."""
        return next((scope[node] for scope in reversed(self.scopes) if node in scope), None)

    def live_args(self, node: int) -> tuple[int, ...]:
        """Return the arguments that need code: conditions that always hold do not."""
        return tuple(
            a
            for a in self.dag.nodes[node].args
            if not (self.dag.nodes[node].kind == "load" and self.always_holds(a))
        )

    def needed(self, roots: Iterable[int]) -> set[int]:
        """Return the nodes that printing the roots would compute, given the bound variables."""
        seen: set[int] = set()
        pending = list(roots)
        while pending:
            number = pending.pop()
            if number in seen or self.bound(number) is not None:
                continue
            seen.add(number)
            pending.extend(self.live_args(number))
        return seen

    def always_holds(self, node: int) -> bool:
        """True for a bound that the ranges of its axes imply."""
        entry = self.dag.nodes[node]
        if entry.kind != "bound":
            return False
        low, high = extent(entry.index, self.ranges)
        return low >= 0 and high < entry.size

    def index(self, index: Affine) -> str:
        """Return the text of an index into memory."""
        low, high = extent(index, self.ranges)
        return affine_text(index, self.axes, wide=max(most(abs(low)), most(abs(high))) >= 2**31)

    @abstractmethod
    def text(self, number: int) -> str:
        """Return an expression that may stand anywhere (in parentheses where needed)."""


def bare(text: str) -> str:
    """Return the text without one pair of parentheses that encloses all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]


def wrapped(head: str, parts: Sequence[str], tail: str, width: int = 108) -> str:
    """Return ``head part, part tail``, broken into lines when it is wider than that."""
    line = head + ", ".join(parts) + tail
    if len(line) <= width:
        return line
    lines, indent = [head], "    "
    for position, part in enumerate(parts):
        text = part + ("," if position < len(parts) - 1 else "")
        if lines[-1] == head or len(lines[-1]) + len(text) + 1 > width:
            lines.append(indent + text)
        else:
            lines[-1] += " " + text
    return "\n".join(lines) + tail
