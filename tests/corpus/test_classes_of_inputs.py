"""Honest kernels for tasks whose specimens are wrong for whole classes of inputs must be verified."""

from pathlib import Path

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.corpus.load import load_corpus_task
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n"
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
