"""Honest kernels for tasks whose specimens are wrong for whole classes of inputs must be verified."""

from pathlib import Path

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.corpus.load import load_corpus_task
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings

HEAD = "import math\nimport torch\n"
HEAD += "import torch.nn.functional as F\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n"
NORM = """    def __init__(self, k):
        super().__init__()
        self.norm = nn.LayerNorm(k)
"""
HONEST = {
    "the largest is subtracted": (
        "logsumexp",
        """    def forward(self, x):
        high = x.amax(dim=1, keepdim=True)
        return ((x - high).exp().sum(dim=1, keepdim=True).log() + high).squeeze(1)
""",
    ),
    "two moments, clamped": (
        "layernorm",
        NORM
        + """    def forward(self, x):
        wide = x.double()
        mean = wide.mean(dim=1, keepdim=True)
        variance = ((wide * wide).mean(dim=1, keepdim=True) - mean * mean).clamp(min=0)
        y = ((wide - mean) * torch.rsqrt(variance + self.norm.eps)).float()
        return y * self.norm.weight + self.norm.bias
""",
    ),
    "Welford over parts of rows": (
        "layernorm",
        NORM
        + """    def forward(self, x):
        n, mean, squares = 0, 0.0, 0.0
        for part in x.split(64, dim=1):
            m = part.shape[1]
            own = part.mean(dim=1, keepdim=True)
            gap = own - mean
            squares = squares + (part - own).square().sum(1, keepdim=True) + gap * gap * (n * m / (n + m))
            mean, n = mean + gap * (m / (n + m)), n + m
        y = (x - mean) * torch.rsqrt(squares / n + self.norm.eps)
        return y * self.norm.weight + self.norm.bias
""",
    ),
    "the least length is kept": (
        "unit_rows",
        """    def forward(self, x):
        return x / x.square().sum(dim=1, keepdim=True).sqrt().clamp(min=1e-12)
""",
    ),
    "scaled by the larger side": (
        "hypotenuse",
        """    def forward(self, x, y):
        high, low = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
        return high * torch.sqrt(1 + torch.where(high == 0, 0.0, low / high).square())
""",
    ),
    "sums in another order": (
        "translations",
        """    def forward(self, head, relation, tail):
        gap = relation - tail
        gap += head
        return torch.linalg.vector_norm(gap, dim=1)
""",
    ),
    "other roundings beside the grid": (
        "sampled_table",
        """    def forward(self, table, places):
        width = table.shape[1]
        at = (places - 0.5 / width) * width
        is_inside = (at >= 0) & (at <= width - 1)
        first = torch.where(is_inside, at, 0.0).long()
        second = (first + 1).clamp(max=width - 1)
        between = torch.lerp(table[:, first], table[:, second], at - first)
        return torch.where(is_inside, between, 0.0)
""",
    ),
    "sums of every row": (
        "divergence",
        """    def forward(self, p, q):
        p, q = p / p.sum(dim=1, keepdim=True), q / q.sum(dim=1, keepdim=True)
        return (torch.xlogy(p, p) - p * q.log()).sum(dim=1)
""",
    ),
    "the mask is honoured": (
        "masked_attention",
        """    def forward(self, q, k, v, mask):
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ v
""",
    ),
    "ignored labels do not count": (
        "cross_entropy",
        """    def forward(self, scores, labels):
        counts = labels != -100
        lost = torch.logsumexp(scores, 1) - scores.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
        return torch.where(counts, lost, 0.0).sum() / counts.sum()
""",
    ),
    "the strides are used": (
        "expanded",
        """    def forward(self, x, y):
        return torch.addcmul(torch.ones(()), x, y.contiguous())
""",
    ),
    "angles of the positions that are given": (
        "rotary",
        """    def __init__(self, d):
        super().__init__()
        self.inv_freq = 10000.0 ** (-torch.arange(0, d, 2).float() / d)

    def forward(self, x, positions):
        angle = positions.float()[:, None] * self.inv_freq
        cos, sin = angle.cos(), angle.sin()
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
""",
    ),
    "times as they are given": (
        "embedded_times",
        """    def __init__(self, d):
        super().__init__()
        half = d // 2
        self.freq = torch.exp(-math.log(10000.0) * torch.arange(half).float() / half)

    def forward(self, x, t):
        angle = t[:, None] * self.freq * 1000.0
        y, half = torch.empty_like(x), x.shape[1] // 2
        torch.add(x[:, :half], angle.sin(), out=y[:, :half])
        torch.add(x[:, half:], angle.cos(), out=y[:, half:])
        return y
""",
    ),
    "times and positions as they are given": (
        "embedded_times_at",
        """    def __init__(self, d):
        super().__init__()
        half = d // 2
        self.freq = torch.exp(-math.log(10000.0) * torch.arange(half).float() / half)

    def forward(self, x, t, at):
        angle = t[at][:, None] * self.freq * 1000.0
        return x + torch.cat([angle.sin(), angle.cos()], dim=1)
""",
    ),
    "integers as float64": (
        "integer_product",
        """    def forward(self, a, b):
        return (a.double() @ b.double()).long()
""",
    ),
    "integers in halves": (
        "integer_sum",
        """    def forward(self, a, b):
        low = (a & 0xFFFFFFFF) + (b & 0xFFFFFFFF)
        return (((a >> 32) + (b >> 32) + (low >> 32)) << 32) | (low & 0xFFFFFFFF)
""",
    ),
    "tokens counted as integers": (
        "padded_mean",
        """    def forward(self, x, mask):
        kept = mask.to(x.dtype)
        return torch.einsum("btd,bt->bd", x, kept) / kept.sum(1, keepdim=True)
""",
    ),
    "the gate in every call": (
        "gated",
        """    def __init__(self, c):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(c, 1))
        self.shift = nn.Parameter(torch.zeros(c, 1))
        self.gate = nn.Parameter(torch.zeros(c, 1))

    def forward(self, x):
        h = F.avg_pool1d(x, 3, stride=1, padding=1)
        return torch.addcmul(x, self.gate, F.gelu(torch.addcmul(self.shift, h, self.scale)))
""",
    ),
    "a filter of complex weights": (
        "spectral_filter",
        """    def __init__(self, n):
        super().__init__()
        self.filter = nn.Parameter(torch.ones(n // 2 + 1, dtype=torch.complex64))

    def forward(self, x):
        spectrum = torch.fft.rfft(x.transpose(1, 2)) * self.filter
        return torch.fft.irfft(spectrum, n=x.shape[1]).transpose(1, 2).contiguous()
""",
    ),
    "weights of zero are rounded, too": (
        "quantised_weights",
        """    def __init__(self, k):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, k))

    def forward(self, x):
        scale = torch.clamp(torch.maximum(self.weight.amax(), -self.weight.amin()), min=1e-8) / 127
        return (x @ torch.round(self.weight / scale).t()) * scale
""",
    ),
    "differences before squares": (
        "weight_gap",
        """    def __init__(self, k):
        super().__init__()
        self.student = nn.Parameter(torch.randn(k))
        self.teacher = nn.Parameter(torch.randn(k))

    def forward(self, x):
        gap = self.teacher - self.student
        return x * torch.sqrt(gap.dot(gap))
""",
    ),
    "both products in every call": (
        "two_linears",
        """    def __init__(self, k):
        super().__init__()
        self.first = nn.Linear(k, k, bias=False)
        self.second = nn.Linear(k, k, bias=False)

    def forward(self, x):
        return x @ (self.second.weight @ self.first.weight).t()
""",
    ),
}


@pytest.mark.slow
def test_honest_kernels_of_the_same_tasks_are_verified(tmp_path: Path) -> None:
    settings = RefereeSettings(cache_dir=tmp_path, search_timing_s=0.1, batch_s=0.001)
    with Referee(settings) as referee:
        for name, (task, body) in HONEST.items():
            with referee.open(load_corpus_task(task)) as session:
                found = session.evaluate(Candidate(source=HEAD + body))
                assert found.is_verified, f"{name}: {found.check}: {found.detail}"
