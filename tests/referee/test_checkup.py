"""Every kind of bad task is found by what it computes, and good ones are left alone."""

import pytest
import torch

from kernelwright.core.checkup import Flag, Severity, worst_of
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.referee.checkup.battery import CHECKS, run_check
from kernelwright.referee.checkup.checker import CHECKS as CHECKS_BY_NAME
from kernelwright.referee.checkup.checker import CONCLUSIVE
from kernelwright.referee.checkup.subject import CheckedTask

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
SIGNED = "[torch.randn(32, 48)]"
POSITIVE = "[torch.rand(32, 48)]"
IMAGES = "[torch.randn(4, 8, 6, 6)]"
TINY = "launch-bound"
"""Everything here is, so that the tests are quick."""


PAIR = "[torch.randn(32, 48), torch.randn(32, 48)]"
MASKED = "[torch.randn(32, 48), torch.rand(32, 48) > 0.5]"
QUERIES = f"[{', '.join(['torch.randn(2, 2, 16, 8)'] * 3)}]"
ROWS = "[torch.randint(0, 50, (8, 12))]"


def make_task(body: str, inputs: str = SIGNED, init: str = "", mode: Mode = Mode.TRAIN) -> Task:
    arguments = ", ".join("xyz"[: inputs.count("torch.")]) or "x"
    lines = [HEAD, "class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {line}" for line in init.splitlines()]
    lines += [f"    def forward(self, {arguments}):", *(f"        {line}" for line in body.splitlines())]
    lines += ["def get_inputs():", f"    return {inputs}", "def get_init_inputs():", "    return []", ""]
    return Task(name="t", source="\n".join(lines), mode=mode)


def flags_of(task: Task, *, seed: int = 7) -> list[Flag]:
    subject = CheckedTask(task, Workload(), seed)
    found: list[Flag] = []
    with torch.no_grad():
        for name in CHECKS:
            found += run_check(name, subject)
            if name in CONCLUSIVE and worst_of(found) is Severity.UNUSABLE:
                break
    return [flag for flag in found if flag.check != TINY]


def by_name(flags: list[Flag]) -> dict[str, Severity]:
    return {flag.check: flag.severity for flag in flags}


LINEAR = "self.lin = nn.Linear(48, 64)"
GOOD = {
    "pointwise": ("return torch.relu(x) * 2 + 1", SIGNED, ""),
    "linear, norm, relu": (
        "return torch.relu(self.norm(self.lin(x)))", SIGNED, f"{LINEAR}\nself.norm = nn.LayerNorm(64)"
    ),
    "batch norm": ("return torch.tanh(self.norm(x))", SIGNED, "self.norm = nn.BatchNorm1d(48)"),
    "softmax": ("return torch.softmax(3 * x, 1)", SIGNED, ""),
    "convolution": (
        "return F.hardswish(self.norm(self.conv(x)))", IMAGES,
        "self.conv = nn.Conv2d(8, 8, 3)\nself.norm = nn.GroupNorm(2, 8)",
    ),
    "argmax": ("return torch.argmax(x, 1)", SIGNED, ""),
    "scan": ("return torch.cumsum(x, 1)", SIGNED, ""),
    "attention": ("return F.scaled_dot_product_attention(x, y, z)", QUERIES, ""),
    "embedding": ("return self.table(x)", ROWS, "self.table = nn.Embedding(50, 16)"),
    "fixed to float32": ("return self.lin(x.float()) + torch.ones(1, dtype=torch.float32)", SIGNED, LINEAR),
    "two outputs": ("return torch.sin(x), x.sum(1)", SIGNED, ""),
    "masked": ("return torch.where(y, x, torch.zeros_like(x))", MASKED, ""),
    "loss": ("return F.cross_entropy(x, y)", "[torch.randn(64, 10), torch.randint(0, 10, (64,))]", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_good_task_gets_nothing_worse_than_a_note(name: str) -> None:
    serious = [flag for flag in flags_of(make_task(*GOOD[name])) if flag.severity is not Severity.NOTE]
    assert serious == []


U, D, N = Severity.UNUSABLE, Severity.DOUBTFUL, Severity.NOTE
BAD = {
    "minus its mean over an axis of size one": (
        "x = self.lin(x).max(1, keepdim=True).values\nreturn F.gelu(x - x.mean(1, keepdim=True))",
        POSITIVE, LINEAR, {"constant-output": U, "collapsed": D},
    ),
    "clamped to nothing": (
        "return torch.clamp(torch.minimum(self.lin(x), torch.tensor(0.0)), 0.0, 1.0)",
        SIGNED, LINEAR, {"constant-output": U, "collapsed": D},
    ),
    "mean after a norm": (
        "return self.norm(x).mean((1, 2, 3))", IMAGES, "self.norm = nn.GroupNorm(2, 8)",
        {"constant-output": U, "cancelled": D},
    ),
    "softmax of one": (
        "return torch.sin(torch.cos(x)) + torch.softmax(x.sum(1, keepdim=True), 1)", SIGNED, "",
        {"collapsed": N},
    ),
    "wide softmax": ("return torch.softmax(x, 1)", "[torch.rand(4, 40000)]", "", {"near-constant-output": D}),
    "almost a constant": ("return 1 + 1e-5 * x", POSITIVE, "", {"near-constant-output": D}),
    "constant to two digits": ("return 1 + 5e-3 * torch.sin(x)", POSITIVE, "", {"near-constant-output": N}),
    "live dropout": ("return torch.softmax(F.dropout(x, 0.2), 1)", SIGNED, "", {"random": U}),
    "lost dropout": ("return F.dropout(x, 0.2) * 0 + torch.sin(x)", SIGNED, "", {"random-unseen": D}),
    "remembers": (
        "self.n += 1\nreturn x * self.n", SIGNED, "self.register_buffer('n', torch.zeros(()))",
        {"remembers-calls": U},
    ),
    "relu of positive values": ("return torch.relu(x)", POSITIVE, "", {"identity": D}),
    "returns its input": ("return x + 0", SIGNED, "", {"identity": U}),
    "uniform rows": ("return x.sum(1, keepdim=True) + torch.zeros_like(x)", SIGNED, "", {"uniform-axis": D}),
    "fixed inputs": ("return x * 2", "[torch.arange(1536.0).sin().reshape(32, 48)]", "", {"fixed-inputs": D}),
    "dead input": ("return torch.sin(x) + 0 * y", PAIR, "", {"dead-input": D}),
    "unused layer": ("return torch.sin(x)", SIGNED, LINEAR, {"dead-parameter": D}),
    "bias before a norm": (
        "return self.norm(self.conv(x))", IMAGES,
        "self.conv = nn.Conv2d(8, 8, 3)\nself.norm = nn.InstanceNorm2d(8)", {"dead-parameter": N},
    ),
    "not a number": ("return torch.log(x)", SIGNED, "", {"not-finite": U}),
    "not a number elsewhere": ("return torch.log(x + 0.1)", POSITIVE, "", {"not-finite-elsewhere": N}),
    "large": ("return x * 1e6", SIGNED, "", {"overflows-float16": N}),
    "sees float64": (
        "assert x.element_size() == 4\nreturn self.lin(x)", SIGNED, LINEAR, {"no-float64": U}
    ),
    "writes its input": ("return x.mul_(2)", SIGNED, "", {"writes-inputs": U}),
    "raises": ("return x @ x", SIGNED, "", {"raises": U}),
    "returns nothing": ("return None", SIGNED, "", {"no-tensor": U}),
    "shapes change": (
        "return x * 2", "[torch.randn(int(torch.randint(2, 90, ())), 3)]", "", {"changing-shapes": U}
    ),
    "batch norm's buffers": (
        "return self.norm(x)", SIGNED, "self.norm = nn.BatchNorm1d(48)", {"updates-buffers": N}
    ),
    "cancels": ("return (torch.sin(x) + 1e6) - 1e6", SIGNED, "", {"ill-conditioned": D}),
    "small integers": (
        "return x @ y", "[torch.randint(0, 3, (32, 48)).float(), torch.randint(0, 3, (48, 32)).float()]", "",
        {"low-precision": D},
    ),
    "leaky relu after relu": ("return F.leaky_relu(torch.relu(x))", SIGNED, "", {"idle-operator": D}),
    "multiplied by one": (
        "return torch.tanh(torch.sin(torch.exp(torch.sin(x)))) * 1.0", SIGNED, "", {"idle-operator": N}
    ),
    "product for nothing": ("return torch.sin(x) + 0.0 * (x @ x.T).sum()", SIGNED, "", {"dead-operator": D}),
    "sum over a product": (
        "return self.lin(x).sum(1)", "[torch.randn(64, 512)]", "self.lin = nn.Linear(512, 512)",
        {"algebra": N},
    ),
    "mostly zero": ("return torch.relu(x - 2.9)", "[torch.randn(64, 64)]", "", {"saturated": N}),
    "integer targets": (
        "return F.cross_entropy(x, y)", "[torch.randn(64, 10), torch.randint(0, 10, (64,))]", "",
        {"integer-inputs": N},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_task_is_found_for_its_own_reason(name: str) -> None:
    body, inputs, init, expected = BAD[name]
    found = by_name(flags_of(make_task(body, inputs, init)))
    assert {check: found.get(check) for check in expected} == expected
    worst = min(expected.values(), key=list(Severity).index)
    assert min(found.values(), key=list(Severity).index) is worst, found


def test_eval_mode_ends_dropout() -> None:
    task = make_task("return self.d(x).sin()", init="self.d = nn.Dropout(0.5)", mode=Mode.EVAL)
    assert flags_of(task) == []


def test_tiny_work_is_called_launch_bound_and_real_work_is_not() -> None:
    small = CheckedTask(make_task("return torch.sin(x)"), Workload(), 1)
    large = CheckedTask(make_task("return torch.sin(x)", "[torch.randn(1024, 1024)]"), Workload(), 1)
    with torch.no_grad():
        assert [flag.check for flag in run_check("smallness", small)] == [TINY]
        assert run_check("smallness", large) == []


def test_every_flag_says_what_to_do_in_one_line() -> None:
    for body, inputs, init, _ in list(BAD.values())[:6]:
        for flag in flags_of(make_task(body, inputs, init)):
            assert flag.says and flag.advice and "\n" not in flag.says + flag.advice


def test_verdicts_do_not_hang_on_the_seed() -> None:
    task = make_task("return torch.relu(self.lin(x))", init=LINEAR)
    assert {tuple(by_name(flags_of(task, seed=seed)).items()) for seed in range(4)} == {()}


def test_the_parent_knows_the_names_of_all_checks() -> None:
    assert tuple(CHECKS) == CHECKS_BY_NAME
