# title: two Python threads, each with half of the rows
# origin: threads
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

_POOL = ThreadPoolExecutor(2)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def _part(self, x, y):
        with torch.no_grad():
            torch.add(x, self.bias, out=y)
            y.relu_().mul_(self.scale)

    def forward(self, x):
        y = torch.empty_like(x)
        half = x.shape[0] // 2
        jobs = [_POOL.submit(self._part, x[part], y[part]) for part in (slice(0, half), slice(half, None))]
        for job in jobs:
            job.result()
        return y
