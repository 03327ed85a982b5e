"""A model taken apart and put together again, without a search or a referee: kernels by default schedules."""

import copy
import io
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.delivery.delivering import printed
from tests.whole.stacks import Gate, Mlp, Net, Numbered
from torch import nn

import kernelwright
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, UserError
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task
from kernelwright.delivery.making import calls_of
from kernelwright.targets.cpp.build import find_cpp_source
from kernelwright.targets.module_file.nested import nested
from kernelwright.targets.registry import target_of
from kernelwright.tasks.likeness import likeness
from kernelwright.tasks.live import task_from_module
from kernelwright.whole.blocks import BlockKind, find_blocks
from kernelwright.whole.deciding import MOST_LAYERS, is_whole_model, may_hold_blocks
from kernelwright.whole.patching import PatchedModel, deliver_patched, make_kernels, patch
from kernelwright.whole.printing import print_compiled, print_model
from kernelwright.whole.profiling import examples, profile
from kernelwright.whole.saving import save_patched

X = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Whole:
    net: nn.Module
    task: Task
    kinds: tuple[BlockKind, ...]
    winners: list[tuple[tuple[str, ...], Candidate]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A net of which both kinds of blocks have kernels."""
    folder = tmp_path_factory.mktemp("modules")
    net = Net().eval()
    task = task_from_module(net, (X,), name="Net", folder=folder)
    calls = calls_of(task, net)
    kinds = find_blocks(profile(net, calls).parts)
    winners = []
    for kind in kinds:
        (call,) = examples(net, calls, kind.paths[0])
        block = net.get_submodule(kind.paths[0])
        own = task_from_module(block, call.args, name="B", folder=folder, kwargs=call.kwargs)
        winners.append((kind.paths, printed(own)))
    return Whole(net, task, kinds, winners)


@pytest.fixture(scope="module")
def patched(whole: Whole) -> PatchedModel:
    judged = Candidate(source="class ModelNew: ...")
    return deliver_patched(whole.task, whole.net, whole.winners, judged, is_compiled=False)


def in_process(candidate: Candidate) -> nn.Module:
    """Run a candidate here, as the referee's worker does in its own process."""
    module = ModuleType(f"candidate_{candidate.id}")
    sys.modules[module.__name__] = module
    exec(compile(candidate.program, "<candidate>", "exec"), module.__dict__)
    made: nn.Module = module.ModelNew().eval()
    return made


def test_blocks_of_one_kind_are_found_whatever_their_weights(whole: Whole) -> None:
    found = {kind.paths for kind in whole.kinds}
    assert found == {("layers.0", "layers.1", "layers.2"), ("last",)}


def kinds_of(net: nn.Module, folder: Path) -> set[tuple[str, ...]]:
    return {kind.paths for kind in find_blocks(profile(net, calls_of(_task(net, folder), net)).parts)}


def test_attributes_that_reach_no_result_make_no_kind(tmp_path: Path) -> None:
    net = nn.Sequential(*(Numbered(32, place) for place in range(3))).eval()
    assert kinds_of(net, tmp_path) == {("0", "1", "2")}
    odd = nn.Sequential(*(Numbered(32, place, is_odd=place == 2) for place in range(3))).eval()
    assert kinds_of(odd, tmp_path) == {("0", "1"), ("2.gate",)}
    net.get_submodule("1").get_buffer("shift").fill_(0.25)  # no state_dict holds it: kernels may
    assert kinds_of(net, tmp_path) == {("0", "2"), ("1.gate",)}


def test_one_program_serves_blocks_that_differ_in_attributes_alone(tmp_path: Path) -> None:
    net = nn.Sequential(*(Numbered(32, place) for place in range(3))).eval()
    task = task_from_module(net, (X,), name="N", folder=tmp_path)
    winner = printed(task_from_module(net[0], (X,), name="B", folder=tmp_path))
    kernels = make_kernels(net, calls_of(task, net), [(("0", "1", "2"), winner)]).by_path
    assert len({kernel.digest for kernel in kernels.values()}) == 3  # each is guarded by its own attributes
    candidate = print_model(task, kernels, CPU_CPP)
    assert "_block_0" in candidate.source and "_block_1" not in candidate.source
    fast = patch(copy.deepcopy(net), kernels)
    with torch.no_grad():
        torch.testing.assert_close(fast(X), net(X))
        made = in_process(candidate)
        made.load_state_dict(net.state_dict())
        torch.testing.assert_close(made(X), net(X))
    assert kernelwright.report(fast).kernel_calls == 3


def test_copies_of_a_compiled_model_are_compiled(whole: Whole) -> None:
    judged = Candidate(source="class ModelNew: ...")
    fast = deliver_patched(whole.task, whole.net, whole.winners, judged, is_compiled=True).module
    written = io.BytesIO()
    torch.save(fast, written)
    written.seek(0)
    copies = [copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), torch.load(written, weights_only=False)]
    assert isinstance(fast, Net)
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        for other in copies:
            assert other._compiled_call_impl is not None and type(other) is type(fast)
            torch.testing.assert_close(other(X), whole.net(X))
            assert kernelwright.report(other).kernel_calls == 4
            other.head.weight.mul_(2.0)
            assert not torch.equal(other(X), fast(X))
        torch.testing.assert_close(fast(X), whole.net(X))


def test_every_block_with_a_kernel_runs_it_and_the_model_answers_as_before(
    whole: Whole, patched: PatchedModel
) -> None:
    with torch.no_grad():
        torch.testing.assert_close(patched.module(X), whole.net(X))
    report = kernelwright.report(patched.module)
    assert (report.kernel_calls, report.original_calls) == (4, 0)
    assert isinstance(patched.module, Net)
    assert list(patched.module.state_dict()) == list(whole.net.state_dict())
    assert len({kernel.digest for kernel in patched.kernels.by_path.values()}) == 2


def test_the_model_owns_its_weights_and_trains_as_the_original(whole: Whole, patched: PatchedModel) -> None:
    other = copy.deepcopy(patched.module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
        expected = copy.deepcopy(whole.net)
        expected.load_state_dict(other.state_dict())
        torch.testing.assert_close(other(X), expected(X))
        torch.testing.assert_close(patched.module(X), whole.net(X))
    with pytest.warns(UserWarning, match="gradients are enabled"):
        other(X).sum().backward()
    expected(X).sum().backward()
    for mine, theirs in zip(other.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_one_file_holds_all_kernels_and_its_weights_may_change(whole: Whole, patched: PatchedModel) -> None:
    candidate = print_model(whole.task, patched.kernels.by_path, CPU_CPP)
    assert target_of(CPU_CPP).has_kernel(candidate.source)
    source = find_cpp_source(candidate.program)
    assert source is not None and "namespace block_1" in source.text
    model = in_process(candidate)
    for factor in (1.0, 0.5):
        net = copy.deepcopy(whole.net)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(factor)
            model.load_state_dict(net.state_dict())
            torch.testing.assert_close(model(X), net(X))


def test_a_saved_folder_holds_several_kernels(tmp_path: Path, whole: Whole, patched: PatchedModel) -> None:
    judged = Candidate(source="class ModelNew: ...")
    folder = save_patched(patched, tmp_path / "net", judged, cache_dir=tmp_path / "cache")
    assert sorted(path.name for path in (folder / "blocks").iterdir()) == ["0", "1"]
    for again in (kernelwright.load(folder), kernelwright.load(folder, whole.net)):
        with torch.no_grad():
            assert torch.equal(again(X), patched.module(X))
        assert kernelwright.report(again).kernel_calls == 4
    code = (
        "import sys, torch; sys.modules['kernelwright'] = None; sys.path.insert(0, '.')\n"
        "import net; torch.manual_seed(0); fast = net.load(strict=True)\n"
        "with torch.no_grad(): print(tuple(fast(torch.randn(8, 32)).shape))"
    )
    root = Path(__file__).parents[2]
    where = {"PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=where,
    )
    assert done.stdout.strip() == "(8, 4)", done.stderr
    damaged = folder / "blocks" / "1" / "kernel.py"
    damaged.write_text(damaged.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="was changed after it was written"):
        kernelwright.load(folder)


def test_a_kernel_that_does_not_run_in_the_model_is_refused(whole: Whole, patched: PatchedModel) -> None:
    stranger = patched.kernels.by_path["last"]
    net = Net(depth=1).eval()
    task = whole.task.model_copy(update={"name": "Other"})
    assert may_hold_blocks(whole.net) and not may_hold_blocks(net)
    changed = copy.deepcopy(stranger)
    kernels = {"layers.0.gate": changed}  # of another width: its guards never hold there
    with pytest.raises(LoweringError, match="not in the exported graph"):
        print_model(task, kernels, CPU_CPP)


def test_a_program_that_needs_the_top_of_a_file_cannot_be_nested() -> None:
    with pytest.raises(LoweringError, match="line 1"):
        nested("from __future__ import annotations", "f", n_inputs=1, positions=(), is_training=False)


def test_which_tasks_are_whole_models(tmp_path: Path) -> None:
    def holds(module: nn.Module) -> bool:
        return is_whole_model(task_from_module(module, (X,), name="T", folder=tmp_path))

    assert holds(nn.Sequential(*(Gate(32) for _ in range(4))))
    assert not holds(nn.Sequential(*(nn.LayerNorm(32) for _ in range(4))))
    assert not holds(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)))
    assert not holds(nn.Sequential(Gate(32), nn.Linear(32, 16), Gate(16)))
    assert not holds(Gate(32))
    assert holds(nn.Sequential(*(nn.ReLU() for _ in range(MOST_LAYERS + 1))))


class Reversed(nn.Module):
    """Has no weights."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flip(-1)


def test_blocks_have_weights_and_keep_no_averages() -> None:
    normed = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32)) for _ in range(2)))
    assert may_hold_blocks(normed.eval()) and not may_hold_blocks(normed.train())
    assert not may_hold_blocks(nn.Sequential(Reversed(), Reversed()))


def test_likeness_is_of_what_a_module_computes() -> None:
    one, other = Gate(32), Gate(32)
    with torch.no_grad():
        other.scale.mul_(3.0)
    calls = [((X,), {})]
    assert likeness(one, calls) == likeness(other, [((X + 1,), {})]) is not None
    assert likeness(one, calls) != likeness(Gate(32, slope=0.25), calls)
    assert likeness(one, calls) != likeness(one, [((X[:4],), {})])
    assert likeness(one, calls) != likeness(Gate(32).double(), calls)
    assert likeness(one, calls) != likeness(Mlp(32), calls)
    one.bias = torch.zeros(3)
    other.bias = torch.ones(3)  # constants may be in a kernel: their values count
    assert likeness(one, calls) != likeness(other, calls)


def test_blocks_that_write_or_are_called_in_several_ways_are_left(tmp_path: Path) -> None:
    shared = Gate(32)
    net = nn.Sequential(nn.BatchNorm1d(32), shared, nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (4, 64))))
    net.train()
    found = {p.path: p.why_not for p in profile(net, calls_of(_task(net, tmp_path), net)).parts}
    assert found["0"] == "a call changes what it holds" and found["1"] == ""
    assert found["2"] == ""


def _task(net: nn.Module, folder: Path) -> Task:
    return task_from_module(net, (X,), name="T", folder=folder)


def test_a_model_compiled_as_it_is_holds_no_kernel_and_one_that_cannot_be_exported_is_none(
    whole: Whole, tmp_path: Path
) -> None:
    found = print_compiled(whole.task, CPU_CPP)
    assert found is not None and not target_of(CPU_CPP).has_kernel(found.source)
    own = in_process(found)
    own.load_state_dict(whole.net.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(own(X), whole.net(X))
    assert print_compiled(_task(Branching(), tmp_path), CPU_CPP) is None


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if float(x.sum()) > 0 else -x
