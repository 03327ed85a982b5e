"""Which submodules are blocks, and how the budget is shared among their kinds."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.core.blocks import BlockShare
from kernelwright.core.budget import Budget
from kernelwright.whole.blocks import Submodule, find_blocks, repeated_kinds
from kernelwright.whole.composing import compositions
from kernelwright.whole.sharing import FOR_THE_WHOLE, LEAST_SHARE, share_budget

patient = settings(suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""


def part(path: str, kind: str = "", ms: float = 1.0, *, is_plain: bool = False) -> Submodule:
    return Submodule(path, kind, ms, is_plain)


@st.composite
def trees(draw: st.DrawFn) -> list[Submodule]:
    """Submodules in the order of ``named_modules``, with few kinds so that many recur."""
    parts: list[Submodule] = []

    def grow(prefix: str, depth: int) -> None:
        for i in range(draw(st.integers(0, 3))):
            path = f"{prefix}.{i}".lstrip(".")
            kind = draw(st.sampled_from(["", "a", "b", "c", "d", "e", "f"]))
            at = len(parts)
            grow_children = depth > 1 and draw(st.integers(0, 2)) > 0
            parts.append(part(path, kind))
            if grow_children:
                grow(path, depth - 1)
            has_none = len(parts) == at + 1
            parts[at] = part(path, kind, draw(st.integers(0, 10)), is_plain=has_none and draw(st.booleans()))

    grow("", 3)
    return parts


@patient
@given(trees())
def test_no_block_lies_in_another_and_no_kind_is_found_twice(parts: list[Submodule]) -> None:
    found = find_blocks(parts)
    kinds = {p.path: p.kind for p in parts}
    paths = [path for block in found for path in block.paths]
    assert len({block.kind for block in found}) == len(found) and len(set(paths)) == len(paths)
    assert not any(a != b and f"{b}.".startswith(f"{a}.") for a in paths for b in paths)
    assert all(block.kind and {kinds[path] for path in block.paths} == {block.kind} for block in found)
    assert [block.ms for block in found] == sorted((block.ms for block in found), reverse=True)


@patient
@given(trees())
def test_every_submodule_of_a_kind_that_recurs_is_a_block_or_lies_in_one(parts: list[Submodule]) -> None:
    paths = [path for block in find_blocks(parts) for path in block.paths]
    repeated = repeated_kinds(parts) or repeated_kinds(parts, with_plain=True)
    for p in parts:
        if p.kind in repeated:
            assert any(f"{p.path}.".startswith(f"{path}.") for path in paths)


def test_outermost_blocks_that_recur_are_taken_and_what_holds_none_by_itself() -> None:
    parts = [
        part("layers"),
        *(part(f"layers.{i}", "layer", 5.0) for i in range(2)),
        *(part(f"layers.{i}.norm", "norm") for i in range(2)),
        part("neck", "neck", 2.0),
        part("neck.norm", "norm"),
        part("tail", "tail", 3.0),
        part("tail.fc", "linear", is_plain=True),
        part("head", "linear", is_plain=True),
    ]
    found = {block.kind: block.paths for block in find_blocks(parts)}
    assert found == {"layer": ("layers.0", "layers.1"), "tail": ("tail",), "norm": ("neck.norm",)}


def test_plain_layers_count_only_where_nothing_else_recurs() -> None:
    norms = [part(str(i), "norm", is_plain=True) for i in range(4)]
    assert [block.paths for block in find_blocks(norms)] == [("0", "1", "2", "3")]
    assert find_blocks([part("only", "norm", is_plain=True)]) == ()


SHARES = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=8)


@given(
    SHARES,
    st.builds(
        Budget,
        evaluations=st.none() | st.integers(1, 60),
        tokens=st.none() | st.integers(1, 10_000),
        usd=st.none() | st.floats(0.01, 100),
        seconds=st.none() | st.floats(1, 10_000),
    ),
)
def test_parts_never_come_to_more_than_the_budget(shares: list[float], budget: Budget) -> None:
    parts = share_budget(budget, shares)
    given_some = [part for part in parts if part is not None]
    assert len(parts) == len(shares)
    for name in ("evaluations", "tokens"):
        amount = getattr(budget, name)
        found = [getattr(part, name) for part in given_some]
        assert all(value is None for value in found) if amount is None else sum(found) == amount or not found
    if budget.seconds is not None:
        assert sum(p.seconds or 0 for p in given_some) <= budget.seconds * (1 - FOR_THE_WHOLE) * 1.000001
    if budget.usd is not None:
        assert sum(p.usd or 0 for p in given_some) <= budget.usd * 1.000001
    for share, one in zip(shares, parts, strict=True):
        assert one is None or (share >= LEAST_SHARE and one.evaluations != 0)


@given(SHARES, st.integers(2, 60))
def test_who_takes_more_time_gets_no_less(shares: list[float], evaluations: int) -> None:
    got = [p.evaluations or 0 if p else 0 for p in share_budget(Budget(evaluations=evaluations), shares)]
    for a, one in enumerate(shares):
        assert all(got[a] >= got[b] for b, other in enumerate(shares) if one > other)


def block(candidate: str | None, *, beats: bool = False) -> BlockShare:
    return BlockShare(
        name="B", paths=("b",), before_ms=1.0, share=0.5, candidate=candidate, beats_compiler=beats
    )


def test_all_kernels_are_tried_those_alone_that_beat_the_compiler_and_none_of_them() -> None:
    assert compositions([block(None)]) == compositions([]) == (((), False), ((), True))
    assert compositions([block("k", beats=True)]) == (((0,), False), ((), False), ((0,), True), ((), True))
    tried = compositions([block("k"), block(None), block("l", beats=True)])
    assert tried == (((0, 2), False), ((), False), ((0, 2), True), ((), True), ((2,), True), ((2,), False))
