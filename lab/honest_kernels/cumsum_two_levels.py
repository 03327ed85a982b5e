# title: sums within blocks, then the blocks' own
# origin: torch
# task: 24_CumulativeSum
# sizes: batch_size=137, length=803
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        n, width = x.shape[1], 32
        wide = F.pad(x, (0, -n % width)).view(x.shape[0], -1, width)
        inner = wide.cumsum(2)
        before = F.pad(inner[..., -1].cumsum(1), (1, 0))[:, :-1, None]
        return (inner + before).flatten(1)[:, :n].contiguous()
