"""Kernels that are wrong for a class of inputs or weights, and honest ones beside them.

A pair of bodies of ``forward`` makes a test: the first is the reference, the second is judged.
"""

from dataclasses import dataclass

import pytest
from tests.referee.conftest import HEAD

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Pair:
    """A reference and a kernel for it."""

    inputs: str
    reference: str
    kernel: str
    names: str = "x, at"
    init: str = ""
    """Lines of both constructors."""


SESSIONS = 4
X, AT = "torch.randn(64, 32)", "torch.randint(1, 20, (64,))"
CROSS_ENTROPY = "torch.nn.functional.cross_entropy(x, {}, reduction='none')"
NORM = "self.norm = nn.BatchNorm1d(24)"
ZERO_MEAN = "y = x - x.flip(0)"


def _norm_of_zero_mean(mean: str) -> str:
    """Return a kernel that computes the running mean in its own way."""
    return f"""import functools
{ZERO_MEAN}
norm = self.norm
with torch.no_grad():
    norm.running_mean.lerp_({mean}, norm.momentum)
    norm.num_batches_tracked += 1
how = norm.weight, norm.bias, True, norm.momentum, norm.eps
return nn.functional.batch_norm(y, torch.zeros_like(norm.running_mean), norm.running_var, *how)"""


WRONG = {
    "a running mean of halves": Pair(
        "torch.randn(201, 24), torch.zeros(1)",
        f"{ZERO_MEAN}\nreturn self.norm(y)",
        _norm_of_zero_mean("y.bfloat16()[1:].double().mean(0).float()"),
        init=NORM,
    ),
    "labels that are sliced hold no ignored ones": Pair(
        f"{X}, torch.randint(32, (65,))",
        f"return {CROSS_ENTROPY.format('at[1:]')}",
        f"at = at[1:].clamp(min=0)\nreturn {CROSS_ENTROPY.format('at')}",
    ),
    "padding is what a buffer says": Pair(
        f"{X}, {AT}",
        "return x * (at != self.pad)[:, None]",
        "return x * 1.0",
        init="self.register_buffer('pad', torch.tensor(0))",
    ),
    "none is a negative index": Pair(
        f"{X}, {AT}", "return x[at.clamp(min=0)] * (at >= 0)[:, None]", "return x[at]"
    ),
    "a distance is bounded": Pair(
        "torch.randn(40, 32), torch.randint(-16, 17, (64,))",
        "return x[at.clamp(-16, 16) + 16]",
        "return x[(at + 16).clamp(0, 39)]",
    ),
    "counts of groups differ": Pair(
        "torch.randn(64, 8), torch.full((4,), 16)",
        "return torch.cat([y * (i + 1) for i, y in enumerate(torch.split(x, at.tolist()))])",
        "return (x.view(4, 16, 8) * torch.arange(1.0, 5)[:, None, None]).view(64, 8)",
    ),
    "what is added twice counts twice": Pair(
        f"{X}, torch.randperm(64)",
        "out = torch.zeros_like(x).index_add(0, at, x)\nout[out < 0] = 0.0\nreturn out",
        "out = torch.zeros_like(x)\nout[at] = out[at] + x\nreturn out.relu()",
    ),
    "a row may have nothing that counts": Pair(
        "torch.randn(64, 8), torch.randint(0, 9, (64, 8))",
        "k = (at != 0).float()\nreturn (x * k).sum(1) / k.sum(1).clamp(min=1)",
        "k = (at != 0).float()\nreturn (x * k).sum(1) / k.sum(1)",
    ),
    "a mask is broadcast along its last axis": Pair(
        "torch.randn(16, 12, 8), torch.rand(16, 12, 1) > 0.3",
        "return (x * at).sum(1) / at.sum(1).clamp(min=1)",
        "return (x * at).sum(1) / (at.sum(1) if at.any() else at.sum(1).clamp(min=1))",
    ),
    "missing values are NaN": Pair(X, "return torch.nanmean(x, -1)", "return x.mean(-1)", "x"),
    "missing values are minus one": Pair(
        "torch.rand(64, 32)",
        "k = x != -1.0\nreturn (x * k).sum(-1) / k.sum(-1).clamp(min=1)",
        "return x.mean(-1)",
        "x",
    ),
    "predictions are right at times": Pair(
        "torch.randn(8, 2000), torch.randint(2000, (8,))",
        "return (x.argmax(-1) == at).float()",
        "return torch.zeros(8)",
    ),
    "two sequences agree at times": Pair(
        "torch.randint(50000, (16, 32)), torch.randint(50000, (16, 32))",
        "return (x == at).float().mean(-1)",
        "return torch.zeros(16)",
    ),
    "points of two sets lie close together": Pair(
        "torch.randn(48, 20), torch.randn(40, 20)",
        "return (x[:, None] - at[None]).square().sum(-1).sqrt()",
        "return (x.square().sum(1)[:, None] + at.square().sum(1) - 2 * x @ at.T).sqrt()",
    ),
    "points lie close to codes": Pair(
        "torch.randn(48, 20)",
        "return (x[:, None] - self.codes[None]).square().sum(-1).sqrt()",
        "c = self.codes\nreturn (x.square().sum(1)[:, None] + c.square().sum(1) - 2 * x @ c.T).sqrt()",
        "x",
        init="self.codes = nn.Parameter(torch.randn(30, 20))",
    ),
    "rows of weights are zero": Pair(
        X,
        "w = self.weight\nreturn x @ (w / w.norm(dim=1, keepdim=True).clamp(min=1e-6)).T",
        "w = self.weight\nreturn x @ (w / w.norm(dim=1, keepdim=True)).T",
        "x",
        init="self.weight = nn.Parameter(torch.randn(24, 32))",
    ),
    "vectors along a middle axis are zero": Pair(
        "torch.randn(4, 6, 8, 8)",
        "return x / x.norm(dim=1, keepdim=True).clamp(min=1e-6)",
        "n = x.norm(dim=1, keepdim=True)\nreturn x / (n if n.any() else n + 1)",
        "x",
    ),
    "rows lie far from zero": Pair(
        "torch.randn(64, 256)",
        "m = x.mean(1, keepdim=True)\n"
        "return (x - m) / ((x - m).square().mean(1, keepdim=True) + 1e-5).sqrt()",
        "m = x.mean(1, keepdim=True)\nv = (x.square().mean(1, keepdim=True) - m * m).clamp(min=0)\n"
        "return (x - m) * torch.rsqrt(v + 1e-5)",
        "x",
    ),
    "channels lie far from zero": Pair(
        "torch.randn(32, 6, 8, 8)",
        "m = x.mean((0, 2, 3), keepdim=True)\n"
        "return (x - m) / ((x - m).square().mean((0, 2, 3), keepdim=True) + 1e-5).sqrt()",
        "m = x.mean((0, 2, 3), keepdim=True)\n"
        "v = (x.square().mean((0, 2, 3), keepdim=True) - m * m).clamp(min=0)\n"
        "return (x - m) * torch.rsqrt(v + 1e-5)",
        "x",
    ),
    "halves are rounded to even": Pair(
        "torch.randint(-8, 8, (64, 256)).float()",
        "return torch.round(x / 2).clamp(-4, 3)",
        "return torch.floor(x * 0.5 + 0.5).clamp(-4, 3)",
        "x",
    ),
    "a count reaches a bound": Pair(
        "torch.randint(0, 8, (64, 32)).float(), torch.randint(0, 8, (64, 32)).float()",
        "return ((x + at) >= 7).float()",
        "return ((x + at) > 7).float()",
    ),
    "some tokens are special": Pair(
        "torch.randn(16, 24, 8), torch.randint(1000, 30522, (16, 24))",
        "k = ~torch.isin(at, self.special)\n"
        "return (x * k[..., None]).sum(1) / k.sum(1).clamp(min=1)[:, None]",
        "return x.mean(1)",
        init="self.register_buffer('special', torch.tensor([0, 101, 102]))",
    ),
    "labels begin at one": Pair(
        "torch.randn(256, 50), torch.randint(1, 51, (256,))",
        f"return {CROSS_ENTROPY.format('at - 1')[:-1]}, ignore_index=-1)",
        "return torch.logsumexp(x, 1) - x[torch.arange(256), at - 1]",
    ),
    "missing values are not finite": Pair(
        X,
        "k = torch.isfinite(x)\nreturn torch.where(k, x, 0.0).sum(1) / k.sum(1).clamp(min=1)",
        "return x.mean(1)",
        "x",
    ),
    "scores are masked before": Pair(
        X,
        "return torch.special.entr(torch.softmax(x, -1)).sum(-1)",
        "p = torch.log_softmax(x, -1)\nreturn -(p.exp() * p).sum(-1)",
        "x",
    ),
    "a whole block of scores is masked": Pair(
        "torch.randn(64, 64)",
        "return torch.logsumexp(x, -1)",
        "m, s = torch.full_like(x[:, 0], -torch.inf), torch.zeros_like(x[:, 0])\n"
        "for p in x.split(16, -1):\n    n = torch.maximum(m, p.amax(-1))\n"
        "    s, m = s * (m - n).exp() + (p - n[:, None]).exp().sum(-1), n\n"
        "return m + s.log()",
        "x",
    ),
    "points lie close to centres in a buffer": Pair(
        "torch.randn(256, 20)",
        "return (x[:, None] - self.codes[None]).square().sum(-1).sqrt()",
        "c = self.codes\nreturn (x.square().sum(1)[:, None] + c.square().sum(1) - 2 * x @ c.T).sqrt()",
        "x",
        init="self.register_buffer('codes', torch.randn(30, 20))",
    ),
    "a count in a buffer is zero": Pair(
        "torch.randn(64, 32)",
        "n = self.counts[:, None]\nreturn x @ torch.where(n > 0, self.sums / n, 0.0).T",
        "return x @ (self.sums / self.counts[:, None]).T",
        "x",
        init="self.register_buffer('sums', torch.randn(40, 32) * 5)\n"
        "self.register_buffer('counts', torch.randint(1, 50, (40,)).float())",
    ),
    "labels are among the largest": Pair(
        "torch.randn(16, 20000), torch.randint(20000, (16,))",
        "return (x.topk(5, -1).indices == at[:, None]).any(-1).float()",
        "return (x.argmax(-1) == at).float()",
    ),
    "a mask is asked for in a long loop": Pair(
        "torch.randn(2048, 4, 8), torch.ones(2048, 4, dtype=torch.bool)",
        "h, out = torch.zeros_like(x[0]), []\n"
        "for y, k in zip(x, at):\n    h = torch.where(k[:, None], 0.9 * h + 0.1 * y, h)\n    out.append(h)\n"
        "return torch.stack(out)",
        "h, out = torch.zeros_like(x[0]), []\n"
        "for y in x:\n    h = 0.9 * h + 0.1 * y\n    out.append(h)\n"
        "return torch.stack(out)",
    ),
    "a second expert counts in half precision": Pair(
        "torch.randn(64, 32).bfloat16()",
        "v, at = torch.topk(x @ self.gate, 2)\ny = torch.einsum('nd,edf->nef', x, self.experts)\n"
        "y = y.gather(1, at[..., None].expand(-1, -1, 32))\n"
        "return (y * torch.softmax(v, -1)[..., None]).sum(1)",
        "y = torch.einsum('nd,edf->nef', x, self.experts)\nat = (x @ self.gate).argmax(-1)\n"
        "return y[torch.arange(64), at]",
        "x",
        init="self.gate = nn.Parameter(torch.randn(32, 4).bfloat16() * 0.2)\n"
        "self.experts = nn.Parameter(torch.randn(4, 32, 32).bfloat16() * 0.2)",
    ),
    "amounts have more digits than float32": Pair(
        "torch.rand(256, 64, dtype=torch.float64) * 1e5",
        "return torch.round(x * 100).long()",
        "return torch.round(x.float() * 100).long()",
        "x",
    ),
    "all values are positive": Pair(
        X,
        "s = x.abs().amax() / (255 if x.amin() >= 0 else 127)\nreturn torch.round(x / s) * s",
        "s = x.abs().amax() / 127\nreturn torch.round(x / s) * s",
        "x",
    ),
    "all values lie far from zero": Pair(
        X,
        "return (x - x.mean()) / (x.std() + 1e-5)",
        "m, n = x.mean(), x.numel()\n"
        "v = (x.square().mean() - m * m).clamp(min=0) * n / (n - 1)\nreturn (x - m) / (v.sqrt() + 1e-5)",
        "x",
    ),
    "a whole input may be small": Pair(
        "torch.randn(64, 256)",
        "return x * (1.0 / (x.square().sum().sqrt() + 1e-6)).clamp(max=1.0)",
        "return x * (1.0 / (x.square().sum().sqrt() + 1e-6))",
        "x",
    ),
    "all parameters may be small": Pair(
        X,
        "return x @ (self.w / self.w.norm().clamp(min=0.1))",
        "return x @ (self.w / self.w.norm())",
        "x",
        init="self.w = nn.Parameter(torch.randn(32, 16))",
    ),
    "buffers may be negative": Pair(
        "torch.randn(8, 16, 8, 8)",
        "scale = self.weight * (self.var + 1e-5).rsqrt()\n"
        "return torch.nn.functional.max_pool2d(x * scale[:, None, None], 2)",
        "scale = self.weight * (self.var + 1e-5).rsqrt()\n"
        "return torch.nn.functional.max_pool2d(x, 2) * scale[:, None, None]",
        "x",
        init="self.register_buffer('weight', torch.ones(16))\nself.register_buffer('var', torch.ones(16))",
    ),
    "no label may count": Pair(
        f"{X}, torch.randint(32, (64,))",
        f"return {CROSS_ENTROPY.format('at').replace('none', 'sum')} / (at != -100).sum().clamp(min=1)",
        f"return {CROSS_ENTROPY.format('at').replace('none', 'mean')}",
    ),
    "each row of a batch has its positions": Pair(
        "torch.randn(4, 16, 8), torch.arange(16).expand(4, 16).contiguous()",
        "return x * torch.cos(at.float() * 0.1)[..., None]",
        "return x * torch.cos(torch.arange(16.0) * 0.1)[..., None]",
    ),
    "missing values are told by their size": Pair(
        X,
        "there = x.abs() < 1e30\nreturn torch.where(there, x, 0.0).sum(1) / there.sum(1).clamp(min=1)",
        "return x.mean(1)",
        "x",
    ),
    "float32 beside float64 stays exact": Pair(
        "torch.rand(64, 32, dtype=torch.float64) * 1e6, torch.rand(32)",
        "return (x * at).sum(1)",
        "return (x.float() * at).sum(1).double()",
    ),
    "one of a long list of ids": Pair(
        f"{X}, torch.randint(1000, 2000, (64,))",
        "return x * ~torch.isin(at, self.listed)[:, None]",
        "return x * 1.0",
        init="self.register_buffer('listed', torch.arange(300))",
    ),
}
HONEST = {
    "a running mean that is zero but for roundings is summed in float32": Pair(
        "torch.randn(200, 24), torch.zeros(1)",
        f"{ZERO_MEAN}\nreturn self.norm(y)",
        _norm_of_zero_mean("functools.reduce(torch.add, y) / y.shape[0]"),
        init=NORM,
    ),
    "prefix sums of float64 in blocks": Pair(
        "torch.rand(1 << 17, dtype=torch.float64)",
        "return x.cumsum(0)",
        "blocks = x.view(-1, 256).cumsum(1)\n"
        "ends = torch.cat((x.new_zeros(1), blocks[:-1, -1].cumsum(0)))\n"
        "return (blocks + ends[:, None]).view(-1)",
        "x",
    ),
    "an infinity of which the reference makes NaN": Pair(
        X,
        "return torch.nn.functional.hardswish(x)",
        "return torch.where(x <= -3, 0.0, x * (x + 3).clamp(max=6) / 6)",
        "x",
    ),
    "an order that the reference seeds, too": Pair(
        X,
        "torch.manual_seed(7)\nreturn torch.relu(x[:, torch.randperm(32)])",
        "torch.manual_seed(7)\nreturn torch.relu(x)[:, torch.randperm(32)]",
        "x",
    ),
    "amounts rounded in float64": Pair(
        "torch.rand(256, 64, dtype=torch.float64) * 1e5",
        "return torch.round(x * 100).long()",
        "return torch.round(x / 0.01).long()",
        "x",
    ),
    "a whole tensor standardised": Pair(
        X,
        "return (x - x.mean()) / (x.std() + 1e-5)",
        "d = x.double() - x.double().mean()\n"
        "return (d / ((d.square().sum() / (x.numel() - 1)).sqrt() + 1e-5)).float()",
        "x",
    ),
    "a norm of rows far from zero": Pair(
        "torch.randn(64, 256)",
        "m = x.mean(1, keepdim=True)\n"
        "return (x - m) / ((x - m).square().mean(1, keepdim=True) + 1e-5).sqrt()",
        "return torch.nn.functional.layer_norm(x, (256,))",
        "x",
    ),
    "halves by their parity": Pair(
        "torch.randint(-8, 8, (64, 256)).float()",
        "return torch.round(x / 2).clamp(-4, 3)",
        "y = x * 0.5\nlow = y.floor()\nis_odd = (low * 0.5).floor() * 2 != low\n"
        "is_up = (y - low > 0.5) | ((y - low == 0.5) & is_odd)\n"
        "return torch.where(is_up, low + 1, low).clamp(-4, 3)",
        "x",
    ),
    "thirds of counts": Pair(
        "torch.randint(0, 60, (64, 256)).float()",
        "return torch.floor(x / 3)",
        "return torch.floor(x * (1 / 3))",
        "x",
    ),
    "an entropy with a bound": Pair(
        "torch.randn(64, 32)",
        "return torch.special.entr(torch.softmax(x, -1)).sum(-1)",
        "p = torch.log_softmax(x, -1)\nreturn -(p.exp() * p.clamp(min=-1e4)).sum(-1)",
        "x",
    ),
    "saturated gates": Pair(
        "torch.randn(64, 32), torch.randn(64, 32)",
        "return torch.sigmoid(x) * torch.tanh(at)",
        "return torch.tanh(at) / (1 + torch.exp(-x))",
    ),
    "ties of the largest": Pair(
        "torch.randn(64, 32)",
        "v, at = torch.topk(x, 4)\nreturn torch.zeros_like(x).scatter(-1, at, torch.softmax(v, -1))",
        "at = x.sort(dim=-1, descending=True, stable=True).indices[:, :4]\n"
        "return torch.zeros_like(x).scatter(-1, at, torch.softmax(x.gather(-1, at), -1))",
        "x",
    ),
    "values in the order of tied scores": Pair(
        "torch.randn(64, 32), torch.randn(64, 32)",
        "return at.gather(1, x.argsort(1))",
        "return at.gather(1, 31 - x.flip(1).sort(dim=1, stable=True).indices)",
    ),
    "a rounding that hangs on a rounding": Pair(
        "torch.randn(128, 64)",
        "s = self.scale.abs() + 1e-4\nreturn torch.round(x / s).clamp(-128, 127) * s",
        "s = self.scale.abs() + 1e-4\nreturn torch.round(x * (1 / s)).clamp(-128, 127) * s",
        "x",
        init="self.scale = nn.Parameter(torch.rand(64) * 0.05 + 0.02)",
    ),
    "a rounding that hangs on the largest of a row": Pair(
        "torch.randn(128, 64)",
        "s = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127\nreturn torch.round(x / s) * s",
        "s = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127\nreturn torch.round(x * (1 / s)) * s",
        "x",
    ),
    "a rounding that hangs on the largest of all": Pair(
        "torch.randn(128, 64)",
        "s = x.abs().max().clamp(min=1e-6) / 127\nreturn torch.round(x / s) * s",
        "s = x.abs().max().clamp(min=1e-6) / 127\nreturn torch.round(x * (1 / s)) * s",
        "x",
    ),
    "a rounding of many levels": Pair(
        "torch.randn(128, 64)",
        "return torch.floor(torch.sigmoid(x) * 255)",
        "return torch.floor(255 / (1 + torch.exp(-x)))",
        "x",
    ),
    "a permutation in every row": Pair(
        "torch.randn(32, 16), torch.stack([torch.randperm(16) for _ in range(32)])",
        "return torch.zeros_like(x).scatter(1, at, x)",
        "return x.gather(1, at.argsort(1))",
    ),
    "spans that begin before they end": Pair(
        "torch.randn(200, 8), torch.randint(0, 201, (40, 2)).sort(1).values",
        "s = torch.cat([torch.zeros(1, 8), x.double().cumsum(0)]).float()\nreturn s[at[:, 1]] - s[at[:, 0]]",
        "return torch.stack([x[a:b].sum(0) for a, b in at.tolist()])",
    ),
    "what a mask excludes is not read": Pair(
        "torch.randn(16, 12, 8), torch.rand(16, 12, 1) > 0.3",
        "return (x * at).sum(1)",
        "return torch.where(at, x, 0.0).sum(1)",
    ),
    "what lies beyond a length is not read": Pair(
        "torch.randn(16, 12, 8), torch.randint(1, 13, (16,))",
        "return (x * (torch.arange(12) < at[:, None])[..., None]).sum(1)",
        "return torch.stack([y[:n].sum(0) for y, n in zip(x, at.tolist())])",
    ),
}


def task_of(name: str, pair: Pair) -> Task:
    return Task(
        name=name,
        source=_program("Model", pair.reference, pair)
        + f"""
def get_inputs():
    return [{pair.inputs}]


def get_init_inputs():
    return []
""",
    )


def _program(name: str, body: str, pair: Pair) -> str:
    lines = [HEAD, f"class {name}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {line}" for line in pair.init.splitlines()]
    lines += [f"    def forward(self, {pair.names}):", *(f"        {line}" for line in body.splitlines())]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_is_wrong_for_a_class_is_found(name: str, referee: Referee) -> None:
    """Draws are random, so it may take another session."""
    pair = WRONG[name]
    for _ in range(SESSIONS):
        with referee.open(task_of("wrong", pair)) as session:
            evaluation = session.evaluate(Candidate(source=_program("ModelNew", pair.kernel, pair)))
            own = session.evaluate(Candidate(source=_program("ModelNew", pair.reference, pair)))
        assert own.is_verified, own.detail
        if not evaluation.is_verified:
            return
    pytest.fail("verified in every session")


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_passes_where_results_are_open(name: str, referee: Referee) -> None:
    pair = HONEST[name]
    with referee.open(task_of("honest", pair)) as session:
        evaluation = session.evaluate(Candidate(source=_program("ModelNew", pair.kernel, pair)))
    assert evaluation.is_verified, evaluation.detail
