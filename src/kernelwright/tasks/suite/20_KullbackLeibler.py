import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "loss"


class Model(nn.Module):
    """Divergence of a predicted distribution, given as logits, from a target distribution."""

    def forward(self, logits, target):
        return F.kl_div(torch.log_softmax(logits, dim=-1), target, reduction="none").sum(dim=-1)


batch_size = 4096
classes = 1024


def get_inputs():
    logits = torch.randn(batch_size, classes) * (torch.rand(batch_size, 1) * 2.0 + 0.5)
    return [logits, torch.softmax(torch.randn(batch_size, classes) * 2.0, dim=-1)]


def get_init_inputs():
    return []
