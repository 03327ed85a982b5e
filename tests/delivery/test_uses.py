"""What a program does with a module gives the same with the delivered one: one row each."""

import copy
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from tests.delivery.delivering import delivered
from tests.delivery.originals import Norm
from torch import func, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrize, prune
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore")


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)) * self.weight + self.shift


class Named(torch.Tensor):
    """Gives tensors of its own class."""


class Thrice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape or (4, 8), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        torch.manual_seed(0)
        m = Scaled().eval()
        yield delivered(m, (drawn(),), home).module, m


@pytest.fixture
def pair(made: tuple[Any, Any]) -> tuple[Any, Any]:
    return copy.deepcopy(made[0]), copy.deepcopy(made[1])


def parametrized(f: Any) -> Any:
    parametrize.register_parametrization(f, "weight", Thrice())
    during = f(drawn())
    parametrize.remove_parametrizations(f, "weight")
    return during, f(drawn())


def pruned(f: Any) -> Any:
    prune.l1_unstructured(f, "weight", 0.5)
    during = f(drawn())
    prune.remove(f, "weight")
    return during, f(drawn())


def tied(f: Any) -> Any:
    f.linear.bias = f.weight
    before = f(drawn())
    f.weight.detach().mul_(2)
    return before, f(drawn())


def hooked(f: Any) -> Any:
    f.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    f.register_forward_hook(lambda m, args, out: (out, args[0]))
    return f(drawn())


def derived(f: Any) -> Any:
    class Derived(type(f)):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> Any:
            return super().forward(x) * 2

    f.__class__ = Derived
    return f(drawn())


def exchanged(f: Any) -> Any:
    torch.utils.swap_tensors(f.weight, nn.Parameter(torch.zeros(8)))
    return f(drawn())


def on_meta_by_default(f: Any) -> Any:
    x = drawn()
    with torch.device("meta"):
        return f(x)


def of_an_ensemble(f: Any) -> Any:
    held, x = func.stack_module_state([f, copy.deepcopy(f)]), drawn()
    return func.vmap(lambda p, b: func.functional_call(f, (p, b), (x,)))(*held)


USES: dict[str, Callable[[Any], Any]] = {
    "parametrization": parametrized,
    "pruning": pruned,
    "weights that are tied": tied,
    "hooks that replace": hooked,
    "a class of ours is derived from": derived,
    "swap_tensors": exchanged,
    "a default device": on_meta_by_default,
    "an ensemble": of_an_ensemble,
    "vmap": lambda f: func.vmap(f)(drawn(2, 4, 8)),
    "jvp": lambda f: func.jvp(f, (drawn(),), (drawn(),)),
    "grad": lambda f: func.grad(lambda x: f(x).sum())(drawn()),
    "no rows": lambda f: f(drawn()[:0]),
    "every second row": lambda f: f(drawn(8, 8)[::2]),
    "one row for all": lambda f: f(drawn()[:1].expand(4, 8)),
    "rows that overlap": lambda f: f(drawn(2, 8).as_strided((4, 8), (1, 1))),
    "a view that negates": lambda f: f(torch.complex(drawn(), drawn() * 2).conj().imag),
    "a class of tensors": lambda f: f(drawn().as_subclass(Named)),
    "an input that is a parameter": lambda f: f(nn.Parameter(drawn())),
    "memory that is shared": lambda f: f.share_memory()(drawn()),
    "emptied and filled": lambda f: f.to("meta").to_empty(device="cpu").apply(filled)(drawn()),
    "symbolic trace": lambda f: torch.fx.symbolic_trace(f)(drawn()),
}


@torch.no_grad()
def filled(part: nn.Module) -> None:
    for tensor in [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
        tensor.fill_(0.5)


def alike(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected)
    for one, other in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert type(one) is type(other) and one.requires_grad == other.requires_grad


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_use_without_gradients(pair: Any, use: Callable[[Any], Any]) -> None:
    with torch.no_grad():
        found, expected = map(use, pair)
    alike(found, expected)


def through_a_checkpoint(f: Any) -> Any:
    x = drawn().requires_grad_()
    checkpoint(f, x, use_reentrant=False).square().sum().backward()
    return x.grad, f.weight.grad


def with_hooks_on_the_way_back(f: Any) -> Any:
    seen: list[Any] = []
    f.register_full_backward_hook(lambda m, inner, outer: (seen.append(outer[0]), (inner[0] * 2,))[1])
    f.weight.register_hook(lambda grad: grad * 5)
    x = drawn().requires_grad_()
    f(x).square().sum().backward()
    return x.grad, f.weight.grad, seen


def switched_on_inside(f: Any) -> Any:
    with torch.no_grad(), torch.enable_grad():
        x = drawn().requires_grad_()
        f(x).square().sum().backward()
    return x.grad, f.linear.weight.grad


WITH_GRADIENTS = [through_a_checkpoint, with_hooks_on_the_way_back, switched_on_inside]


@pytest.mark.parametrize("use", WITH_GRADIENTS)
def test_a_use_with_gradients(pair: Any, use: Callable[[Any], Any]) -> None:
    found, expected = map(use, pair)
    alike(found, expected)


def test_threads_share_a_module(pair: Any) -> None:
    fast, m = pair
    found: dict[int, list[torch.Tensor]] = {}

    def run(number: int) -> None:
        with torch.no_grad():
            found[number] = [fast(drawn() * number) for _ in range(50)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with torch.no_grad():
        for number, outs in found.items():
            for out in outs:
                torch.testing.assert_close(out, m(drawn() * number))


@pytest.mark.parametrize("way", ["not yet bound", "bound", "operator"])
def test_a_thread_s_first_call_runs_on_as_many_threads_as_torch_was_told(pair: Any, way: str) -> None:
    fast, x = pair[0], drawn()
    call = fast
    if way == "operator":
        with torch.no_grad():
            call = torch.compile(fast, backend="eager", fullgraph=True)
            call(x)
    elif way == "bound":
        with torch.no_grad():
            call(x)
    maps = Path("/proc/self/maps").read_text().splitlines()
    openmp = ctypes.CDLL(next(line.split()[-1] for line in maps if "omp" in line))
    found: list[int] = []

    def run() -> None:
        with torch.no_grad():
            call(x)
        found.append(openmp.omp_get_max_threads())

    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(before)
    assert not fast.report().original_calls
    assert found == [before + 1]


def test_names_and_words_are_the_original_s(pair: Any) -> None:
    fast, m = pair
    assert list(fast.state_dict(prefix="a.")) == list(m.state_dict(prefix="a.")) and repr(fast) == repr(m)
    with pytest.raises(AttributeError, match="'Scaled' object has no attribute 'nothing'"):
        fast.nothing  # noqa: B018


# -- other processes and packages ------------------------------------------------------------------


def spawned(fast: Any, x: torch.Tensor, answers: Any) -> None:
    with torch.no_grad():
        answers.put((fast(x).numpy(), fast.report().kernel_calls))
        fast.weight.add_(1)


@pytest.mark.slow
def test_a_process_that_is_spawned_gets_the_kernel_and_shared_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    m, x = Norm(32).eval(), torch.randn(4, 32)
    fast: Any = delivered(m, (x,), tmp_path).module.share_memory()
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=spawned, args=(fast, x, answers))
    process.start()
    out, n_calls = answers.get(timeout=120)
    process.join()
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(out), m(x))
        m.weight.add_(1)
        torch.testing.assert_close(fast(x), m(x))
    assert n_calls == 1


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.norm(x))


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    store = torch.distributed.FileStore(os.fspath(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.usefixtures("group")
def test_training_in_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    m, x = Normed().train(), drawn()
    pair = [DistributedDataParallel(f) for f in (delivered(m, (x,), tmp_path).module, copy.deepcopy(m))]
    for each in pair:
        for _ in range(2):
            each(x).square().sum().backward()
        with torch.no_grad():
            each(x)
    ours, theirs = pair
    assert ours.module.report().kernel_calls == 1
    alike([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])
    alike(list(ours.buffers()), list(theirs.buffers()))


@pytest.mark.slow
def test_a_package_compiled_ahead_calls_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    m, x = Norm(32).eval(), torch.randn(4, 32)
    fast: Any = delivered(m, (x,), tmp_path).module
    with torch.no_grad():
        exported = torch.export.export(fast, (x,))
        package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "m.pt2"))
        found = torch._inductor.aoti_load_package(package)(x)
        torch.testing.assert_close(found, m(x))
    assert fast.report().kernel_calls == 1
