"""Context windows: STARK's relations between the nodes of a tree."""

from kernelwright.methods.stark import CODE_WINDOW, DEBUG_WINDOW, PLAN_WINDOW
from kernelwright.runs.view import Attempt, RunView
from kernelwright.runs.windows import SINGULAR, NodeWindow

TREE = {
    "root": (None, 1.0),
    "i": ("root", 1.5),
    "sibling": ("root", 1.2),
    "child": ("i", None),
    "nephew": ("sibling", 3.0),
    "far": ("nephew", 2.0),
}
"""Node -> parent and speedup."""
VIEW = RunView(
    attempts=tuple(
        Attempt(
            step=n,
            mode="root" if base is None else "optimize",
            candidate=name,
            base=base,
            is_verified=speedup is not None,
            speedup=speedup,
            floor_fraction=None,
        )
        for n, (name, (base, speedup)) in enumerate(TREE.items())
    )
)


def test_the_plan_agent_sees_root_children_and_leaders() -> None:
    assert PLAN_WINDOW.of(VIEW, "i") == (
        ("root", "root"), ("child", "child"), ("nephew", "leader"), ("far", "leader"), ("sibling", "leader"),
    )  # fmt: skip


def test_the_code_agent_sees_root_children_and_the_children_of_siblings() -> None:
    assert CODE_WINDOW.of(VIEW, "i") == (("root", "root"), ("child", "child"), ("nephew", "nephew"))
    assert CODE_WINDOW.of(VIEW, "far") == (("root", "root"), ("nephew", "leader")), "the fastest is a parent"


def test_the_debug_agent_sees_root_and_siblings() -> None:
    assert DEBUG_WINDOW.of(VIEW, "i") == (("root", "root"), ("sibling", "sibling"), ("nephew", "leader"))


def test_the_base_itself_is_not_in_its_window_and_the_root_has_no_kin() -> None:
    assert DEBUG_WINDOW.of(VIEW, "root") == (("nephew", "leader"),)
    assert [name for name, _ in CODE_WINDOW.of(VIEW, "root")] == ["i", "sibling", "nephew"]


def test_a_node_is_shown_once_under_its_first_relation() -> None:
    everything = NodeWindow(tuple(SINGULAR), n_leaders=9).of(VIEW, "i")
    assert sorted(name for name, _ in everything) == sorted(set(TREE) - {"i"})
    assert dict(everything)["sibling"] == "sibling"


def test_leaders_are_the_fastest_and_never_a_failing_one() -> None:
    assert NodeWindow(("leaders",), n_leaders=2).of(VIEW, None) == (("nephew", "leader"), ("far", "leader"))
    assert "child" not in dict(NodeWindow(("leaders",), n_leaders=9).of(VIEW, None))


def test_an_empty_window_shows_nothing() -> None:
    assert NodeWindow().of(VIEW, "i") == ()
