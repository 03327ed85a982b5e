"""What a delivered module is made of, whatever happens around its making."""

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered_with_backward, printed
from torch import nn

import kernelwright
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError
from kernelwright.core.task import Task
from kernelwright.delivery.making import deliver
from kernelwright.delivery.runtime.kernel import constructed
from kernelwright.delivery.saving import save
from kernelwright.tasks.live import task_from_module
from kernelwright.whole.patching import deliver_patched
from kernelwright.whole.saving import save_patched

pytestmark = pytest.mark.usefixtures("home")


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape or (4, 32), generator=torch.Generator().manual_seed(0))


class Counted(nn.Module):
    """Has a buffer, which its making looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 32))
        self.register_buffer("offset", torch.ones(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.weight) + self.offset


def test_a_module_that_is_made_and_saved_in_inference_mode_can_be_trained(home: Path, tmp_path: Path) -> None:
    with torch.inference_mode():
        made = delivered_with_backward(Counted(), (x(),), home)
        folder = save(made, tmp_path / "saved", cache_dir=home)
    again = kernelwright.load(folder)
    for fast in (made.module, again):
        assert not any(tensor.is_inference() for tensor in fast.state_dict().values())
        fast(x()).sum().backward()
        original = Counted()
        original(x()).sum().backward()
        torch.testing.assert_close(fast.weight.grad, original.weight.grad)
        assert fast.report().backward_calls > 0 and fast.report().original_calls == 0


def test_a_model_of_blocks_is_made_and_saved_in_inference_mode(home: Path, tmp_path: Path) -> None:
    net = nn.Sequential(Counted(), nn.ReLU(), Counted()).eval()
    task = task_from_module(net, (x(),), name="Net", folder=home)
    winner = printed(task_from_module(net[0], (x(),), name="B", folder=home))
    with torch.inference_mode():
        made = deliver_patched(task, net, [(("0", "2"), winner)], winner, is_compiled=False)
        folder = save_patched(made, tmp_path / "saved", winner, cache_dir=home)
    again = kernelwright.load(folder)
    for fast in (made.module, again):
        assert not any(tensor.is_inference() for tensor in fast.state_dict().values())
        with torch.no_grad():
            torch.testing.assert_close(fast(x()), net(x()))
        assert kernelwright.report(fast).kernel_calls == 2


class Scaled(nn.Module):
    """Has what a kernel has built in: attributes of several kinds, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 32))
        self.register_buffer("table", torch.linspace(-1.0, 1.0, 32), persistent=False)
        self.inner = nn.Softplus()
        self.scale = 0.5
        self.sizes = {"rows": [4, 8]}
        self.finish = lambda y: y * 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.finish(self.inner(x * self.weight) * self.scale + self.table)


def set_scale(m: Any) -> None:
    m.scale = 0.25


def set_inner_beta(m: Any) -> None:
    m.inner.beta = 2.0


def change_a_list(m: Any) -> None:
    m.sizes["rows"].append(3)


def write_constant(m: Any) -> None:
    m.table.mul_(2.0)


def replace_function(m: Any) -> None:
    m.finish = lambda y: y * 3.0


def replace_inner(m: Any) -> None:
    m.inner = nn.Softsign()


def convert(m: Any) -> None:
    m.double()


def set_inner_mode(m: Any) -> None:
    m.inner.train()


CHANGES = {
    set_scale: "scale of the module is 0.25, verified with 0.5",
    set_inner_beta: "beta of inner is 2.0, verified with 1.0",
    change_a_list: "sizes of the module is",
    write_constant: "table has other values",
    replace_function: "finish of the module was replaced",
    replace_inner: "inner is a Softsign",
    convert: "weight has type torch.float64",
    set_inner_mode: "inner is in train mode, verified in eval mode",
}


@pytest.fixture(scope="module")
def scaled(home: Path) -> tuple[Task, Candidate]:
    task = task_from_module(Scaled().eval(), (x(),), name="Scaled", folder=home)
    return task, printed(task)


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_module_that_changed_since_it_was_verified_is_refused(
    scaled: tuple[Task, Candidate], change: Callable[[Any], None]
) -> None:
    task, winner = scaled
    module = Scaled().eval()
    change(module)
    with pytest.raises(TaskError, match=f"not the one that was verified: {CHANGES[change]}") as caught:
        deliver(winner, task, module)
    assert "\n" not in str(caught.value)


def test_weights_mode_and_hooks_may_have_changed(scaled: tuple[Task, Candidate]) -> None:
    task, winner = scaled
    module = Scaled().train()
    with torch.no_grad():
        module.weight.mul_(3.0)
    module.register_forward_hook(lambda *_: None)
    module.weight.requires_grad_(False)
    fast = deliver(winner, task, module).module
    torch.testing.assert_close(fast(x()), module(x()))
    assert fast.report().kernel_calls == 1


class Counting(nn.Module):
    """Changes an attribute in each call."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.tanh(x)


def test_a_module_that_changes_itself_may_have_done_so(home: Path) -> None:
    task = task_from_module(module := Counting().eval(), (x(),), name="Counting", folder=home)
    winner = printed(task)
    module(x())
    fast = deliver(winner, task, module).module
    fast(x())
    assert (fast.calls, fast.report().original_calls) == (2, 1)


def test_a_model_of_blocks_that_changed_is_refused(home: Path) -> None:
    net = nn.Sequential(Scaled(), Scaled()).eval()
    task = task_from_module(net, (x(),), name="Net", folder=home)
    winner = printed(task_from_module(net[0], (x(),), name="B", folder=home))
    net[1].scale = 0.25
    with pytest.raises(
        TaskError, match=r"not the one that was verified: scale of 1 is 0.25, verified with 0.5"
    ):
        deliver_patched(task, net, [(("0", "1"), winner)], winner, is_compiled=False)


OF_MAIN = """
import sys, torch
from pathlib import Path
from torch import nn
from kernelwright.core.errors import TaskError
from kernelwright.core.task import Task
from kernelwright.core.candidate import Candidate
from kernelwright.delivery.unchanged import own_copy, require_as_verified
from kernelwright.tasks.live import task_from_module

def finish(y):
    return y * 2.0

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5
        self.finish = finish
        self.other = lambda y: finish(y)

    def forward(self, x):
        return self.finish(x) * self.scale {more}

module, file = Own().eval(), Path(sys.argv[1])
if not file.exists():
    task = task_from_module(module, (torch.ones(2),), name="O", folder=file.parent)
    file.write_text(task.model_dump_json())
task = Task.model_validate_json(file.read_text())
require_as_verified(task, own_copy(task, module))
"""


@pytest.mark.slow
def test_a_module_of_a_script_is_the_same_in_the_next_process(tmp_path: Path) -> None:
    def run(more: str) -> str:
        (tmp_path / "script.py").write_text(OF_MAIN.format(more=more))
        command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "task.json")]
        return subprocess.run(command, capture_output=True, text=True).stderr

    assert run("") == run("") == ""
    assert "the module is a Own, verified as __main__:Own, with other code" in run("+ 1")


class Accelerator:
    """Stands in for ``torch.cuda`` on a machine without one."""

    def __init__(self, *, is_used: bool) -> None:
        self.is_used, self.state = is_used, "the user's"

    def is_initialized(self) -> bool:
        return self.is_used

    is_available = is_initialized

    def get_rng_state_all(self) -> str:
        return self.state

    def set_rng_state_all(self, state: str) -> None:
        self.state = state

    def manual_seed_all(self, seed: int) -> None:
        self.state = str(seed)


@pytest.mark.parametrize("is_used", [True, False])
def test_the_user_s_random_generators_stay_as_they_are(
    is_used: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known-bad: torch.manual_seed seeds what fork_rng does not put back."""
    accelerator = Accelerator(is_used=is_used)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: accelerator)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", accelerator.manual_seed_all)
    torch.manual_seed(7)
    accelerator.state = "the user's"
    before = torch.get_rng_state()
    task = Task(name="scaled", source=DRAWN)
    made = deliver(printed(task), task)
    kernelwright.load(save(made, tmp_path / "saved", cache_dir=home))
    assert torch.equal(torch.get_rng_state(), before)
    assert accelerator.state == ("the user's" if is_used else "7")


DRAWN = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(32) * factor)
        self.shift = torch.rand(32)

    def forward(self, x):
        return torch.tanh(x * self.scale) + self.shift


def get_inputs():
    return [torch.randn(4, 32)]


def get_init_inputs():
    return [torch.rand(()).item()]
"""


def test_threads_that_draw_at_once_draw_what_one_alone_draws() -> None:
    def drawn(seed: int) -> torch.Tensor:
        return constructed(Slow, (), seed).drawn

    class Slow(nn.Module):
        drawn: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.drawn = torch.cat([_after_a_while(torch.rand(1)) for _ in range(5)])

    seeds = [seed % 4 for seed in range(16)]
    alone = [drawn(seed) for seed in range(4)]
    with ThreadPoolExecutor(8) as pool:
        for seed, found in zip(seeds, pool.map(drawn, seeds), strict=True):
            assert torch.equal(found, alone[seed])


def _after_a_while(value: torch.Tensor) -> torch.Tensor:
    time.sleep(0.001)
    return value
