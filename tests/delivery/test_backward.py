"""A backward kernel computes a delivered module's gradients where it was verified, else the original does."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered_with_backward, printed
from tests.delivery.originals import Norm
from torch import nn
from torch.nn import functional as F

import kernelwright
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.delivery.backward import backward_task, deliver_with_backward
from kernelwright.delivery.making import Delivery
from kernelwright.delivery.runtime import operator as operator_module
from kernelwright.delivery.saving import save
from kernelwright.tasks.live import task_from_module

SHAPE = (6, 16)


class Chain(nn.Module):
    """Pointwise, with a weight that all rows share and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 16))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate = torch.sigmoid(x * self.weight)
        return gate * y, torch.tanh(x).sum(-1)


class Loss(nn.Module):
    """A scalar result."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(x, y) + (x - y).square().mean()


class Classes(nn.Module):
    """A loss with targets that have no gradient."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, target)


class Linear(nn.Module):
    """A linear block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 24)
        self.down = nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(*SHAPE), drawn(*SHAPE, seed=1)


KINDS: dict[str, Any] = {
    "layer norm": lambda: (nn.LayerNorm(16), (drawn(*SHAPE),)),
    "rms norm, tied": lambda: (Norm(16), (drawn(*SHAPE),)),
    "loss": lambda: (Loss(), inputs()),
    "classes": lambda: (Classes(), (drawn(*SHAPE), torch.arange(6))),
    "linear block": lambda: (Linear(), (drawn(*SHAPE),)),
    "softmax": lambda: (nn.Softmax(-1), (drawn(*SHAPE),)),
}


@pytest.fixture(scope="module")
def made(home: Path) -> Delivery:
    return delivered_with_backward(Chain().train(), inputs(), home)


@pytest.fixture
def fast(made: Delivery) -> Any:
    return copy.deepcopy(made.module)


def gradients(module: nn.Module, given: tuple[torch.Tensor, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the gradients of a fixed function of a module's results."""
    module.zero_grad()
    mine = [t.detach().to(dtype).requires_grad_() if t.is_floating_point() else t for t in given]
    results = module(*mine)
    results = results if isinstance(results, tuple) else (results,)
    torch.stack([(r * torch.cos(r)).sum() * (i + 0.5) for i, r in enumerate(results)]).sum().backward()
    found = [*(t for t in mine if t.requires_grad), *module.parameters()]
    return [t.grad for t in found if t.grad is not None]


def require_exact(fast: Any, original: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
    wide = copy.deepcopy(original).double()
    ours, truth = gradients(fast, given, torch.float32), gradients(wide, given, torch.float64)
    assert len(ours) == len(truth) > 0
    for one, other in zip(ours, truth, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def test_both_kernels_run_and_gradients_are_those_of_float64(fast: Any) -> None:
    assert fast.report() == kernelwright.report(fast) and fast.report().backward_calls == 0
    require_exact(fast, Chain(), inputs())
    report = fast.report()
    assert (report.kernel_calls, report.original_calls, report.backward_calls) == (1, 0, 1)
    assert "backward kernel: 1 calls" in str(report)
    with torch.no_grad():
        torch.testing.assert_close(fast(*inputs()), Chain()(*inputs()))
    with torch.no_grad():  # the gradients read the weights that the module has now
        fast.weight.mul_(-2)
    changed = Chain()
    changed.load_state_dict(fast.state_dict())
    require_exact(fast, changed, inputs())


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_the_kinds_that_people_train(name: str, home: Path) -> None:
    module, given = KINDS[name]()
    fast: Any = delivered_with_backward(module.train(), given, home).module
    require_exact(fast, module, given)
    report = fast.report()
    assert (report.kernel_calls, report.original_calls, report.backward_calls) == (1, 0, 1)


def test_some_of_the_inputs_and_results_are_enough(fast: Any) -> None:
    theirs, (x, y) = Chain(), inputs()
    for module in (fast, theirs):
        module(x, y)[0].square().sum().backward()  # no input needs a gradient, one result is not used
    torch.testing.assert_close(fast.weight.grad, theirs.weight.grad)
    assert fast.report().backward_calls == 1


class Parts(nn.Module):
    """Has results that depend on all, on the input alone, and on nothing that has a gradient."""

    def __init__(self, taken: str = "") -> None:
        super().__init__()
        self.taken = taken
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.tanh(x * self.weight)
        return y, torch.sigmoid(x), torch.exp(y.detach())


@pytest.fixture(scope="module", params=["tensors", "lists"])
def parts(request: pytest.FixtureRequest, home: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "lists":  # as with many weights
            patch.setattr(operator_module, "MAX_ARGUMENTS", 1)
        made = delivered_with_backward(
            Parts(request.param).train(), (inputs()[0].requires_grad_(),), home / request.param
        )
        is_listed = not isinstance(type(made.module)._kernelwright_operators[0], torch._ops.OpOverload)
        assert is_listed is (request.param == "lists")
        return made.module


@pytest.mark.parametrize("results", [(0,), (1,), (0, 1)])
def test_what_no_gradient_leads_to_gets_none(parts: Any, results: tuple[int, ...]) -> None:
    fast, theirs = copy.deepcopy(parts), Parts()
    found = []
    for module in (fast, theirs):
        x = inputs()[0].requires_grad_()
        made = module(x)
        torch.stack([made[i].square().sum() for i in results]).sum().backward()
        found.append((x.grad, module.weight.grad))
    for ours, true in zip(*found, strict=True):
        assert (ours is None) is (true is None)
        torch.testing.assert_close(ours, true)
    report = fast.report()
    assert (report.kernel_calls, report.original_calls, report.backward_calls) == (1, 0, 1)


@pytest.mark.parametrize("is_given", [True, False])
def test_results_require_gradients_where_the_original_s_do(parts: Any, is_given: bool) -> None:
    fast, x = copy.deepcopy(parts), inputs()[0].requires_grad_(is_given)
    ours, true = fast(x), Parts()(x)
    assert [result.requires_grad for result in ours] == [result.requires_grad for result in true]
    assert fast.report().kernel_calls == 1


def test_an_input_that_is_written_before_backward_is_an_error(fast: Any) -> None:
    x, y = (tensor * 1 for tensor in inputs())
    result = fast(x, y)[0]
    y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_gradients_that_do_not_lie_densely_are_taken_too(fast: Any) -> None:
    theirs, (x, y) = Chain(), inputs()
    for module in (fast, theirs):
        module(x, y)[0].sum().backward()  # the gradient of a sum is one number with strides of zero
    torch.testing.assert_close(fast.weight.grad, theirs.weight.grad)
    assert fast.report().backward_calls == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ["shape", "frozen", "double", "mode"])
def test_what_was_not_verified_runs_the_original(fast: Any, case: str) -> None:
    theirs, (x, y) = Chain(), inputs()
    if case == "shape":
        x, y = x[:3], y[:3]
    for module in (fast, theirs):
        if case == "frozen":
            module.weight.requires_grad_(False)
        if case == "double":
            module.double()
        if case == "mode":
            module.eval()
        mine = x.to(module.weight.dtype).requires_grad_()
        module(mine, y.to(module.weight.dtype))[0].sum().backward()
        module.found = [mine.grad, module.weight.grad]
    torch.testing.assert_close(fast.found, theirs.found)
    report = fast.report()
    assert (report.kernel_calls, report.original_calls, report.backward_calls) == (0, 1, 0)


def test_strict_mode_says_which_gradients_are_not_computed(fast: Any) -> None:
    fast.weight.requires_grad_(False)
    x, y = inputs()
    with kernelwright.strict(), pytest.raises(kernelwright.NotVerifiedError, match="not of weight"):
        fast(x.requires_grad_(), y)


def test_gradients_of_gradients_are_the_originals(fast: Any) -> None:
    found = []
    for module in (fast, Chain()):
        x, y = (t.clone().requires_grad_() for t in inputs())
        (first,) = torch.autograd.grad(module(x, y)[0].square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [x, y, module.weight]))
    torch.testing.assert_close(*found)


def test_an_input_that_depends_on_the_weight_counts_once(fast: Any) -> None:
    found = []
    for module in (fast, Chain()):
        x = inputs()[0] * module.weight
        (first,) = torch.autograd.grad(module(x, inputs()[1])[0].sum(), module.weight, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), module.weight))
    torch.testing.assert_close(*found)


@pytest.mark.filterwarnings("ignore")
def test_opcheck_and_gradcheck(fast: Any, made: Delivery) -> None:
    operator = type(fast)._kernelwright_operators[0]
    given = tuple(t.clone().requires_grad_() for t in (*inputs(), fast.weight.detach()))
    torch.library.opcheck(operator, given)
    back = made.backward
    assert back is not None
    ends = (drawn(*SHAPE, seed=2), drawn(6, seed=3))
    operator = type(back.module)._kernelwright_operators[0]  # type: ignore[attr-defined]
    torch.library.opcheck(operator, (*inputs(), *ends, fast.weight.detach()))
    assert torch.autograd.gradcheck(fast, given[:2], eps=1e-2, atol=1e-2, rtol=1e-2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["aot_eager"])
def test_a_compiled_graph_trains_with_both_kernels(fast: Any, backend: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(fast, fullgraph=True, backend=backend)
    require_exact(compiled, Chain(), inputs())
    assert fast.report().kernel_calls > 0 and fast.report().backward_calls > 0


def test_a_model_learns_as_it_does_without(fast: Any) -> None:
    losses = []
    for module in (fast, Chain()):
        optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            loss = module(*inputs())[0].square().sum()
            loss.backward()
            optimiser.step()
        losses.append(loss.detach())
    torch.testing.assert_close(*losses)


def test_copies_and_pickles_keep_it(fast: Any) -> None:
    for module in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        before = module.report().backward_calls
        require_exact(module, Chain(), inputs())
        assert module.report().backward_calls == before + 1


@pytest.mark.slow
def test_a_folder_keeps_it_and_needs_no_kernelwright(made: Delivery, home: Path, tmp_path: Path) -> None:
    folder = save(made, tmp_path / "trained", cache_dir=home / "cache")
    again: Any = kernelwright.load(folder, Chain().train())
    require_exact(again, Chain(), inputs())
    assert again.report().backward_calls == 1
    norm = save(
        delivered_with_backward(Norm(16).train(), (drawn(*SHAPE),), home), tmp_path / "norm", cache_dir=home
    )
    script = (
        "import sys; sys.modules['kernelwright'] = None\n"
        "import torch, norm\n"
        "module = norm.load()\n"
        "module(torch.ones(6, 16)).sum().backward()\n"
        "assert module.weight.grad is not None\n"
        "print(norm.report(module).backward_calls)\n"
    )
    root = Path(__file__).parent.parent.parent
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=norm.parent,
        env={"PYTHONPATH": f"{root}:{norm.parent}", "HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == "1", ran.stderr
    (folder / "backward" / "kernel.py").write_text("broken = True")
    with pytest.raises(kernelwright.core.errors.UserError, match=r"kernel\.py was changed"):
        kernelwright.load(folder, Chain())


class Writing(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return torch.tanh(x)


class Deciding(nn.Module):
    """Does what the values of its input say."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) if x.sum() > 0 else torch.sigmoid(x)


class Own(torch.autograd.Function):
    """Known-bad: its backward raises."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        raise KeyError("no way back")


class Stuck(nn.Module):
    """Has a result, and no gradient can be computed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = Own.apply(x)  # type: ignore[no-untyped-call]
        return found


class Counted(nn.Module):
    """Has no gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.argmax(-1)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Writing(), "a call changes count"),
        (nn.Dropout(0.5), "draws random numbers"),
        (Deciding(), "autograd: "),
        (Stuck(), "autograd: 'no way back'"),
        (Counted(), "none of its results has a gradient"),
    ],
)
def test_what_cannot_be_captured_says_why(module: nn.Module, why: str, tmp_path: Path) -> None:
    given = (drawn(*SHAPE),)
    task = task_from_module(module.train(), given, name="one", folder=tmp_path)
    with pytest.raises(CaptureError, match=why):
        backward_task(task, module, tmp_path)


def test_a_wrong_backward_kernel_is_not_delivered(home: Path) -> None:
    """Known-bad: the gradients of two inputs are mixed up."""
    module, given = Chain().train(), inputs()
    task = task_from_module(module, given, name="Chain", folder=home)
    back = backward_task(task, module, home)
    right = printed(back.task)
    wrong = Candidate(
        source=right.source + "\n\nclass ModelNew(ModelNew):\n"
        "    def forward(self, *given):\n"
        "        first, second, *rest = super().forward(*given)\n"
        "        return (second, first, *rest)\n"
    )
    with pytest.raises(TaskError, match="gradient of input 0 is off"):
        deliver_with_backward(printed(task), task, module, back, wrong)


def test_a_scalar_gradient_is_judged_at_two_values(tmp_path: Path) -> None:
    """A kernel that takes the gradient of a loss for one would be wrong under a scaled loss."""
    module, given = Loss().train(), inputs()
    task = task_from_module(module, given, name="Loss", folder=tmp_path)
    back = backward_task(task, module, tmp_path).task
    assert [workload.is_timed for workload in back.workloads] == [True, False]


def test_examples_say_which_gradients_are_wanted(tmp_path: Path) -> None:
    x, y = inputs()
    task = task_from_module(Loss().train(), (x.requires_grad_(), y), name="Loss", folder=tmp_path)
    back = backward_task(task, Loss().train(), tmp_path)
    assert back.module.gradients.inputs == (0,)
