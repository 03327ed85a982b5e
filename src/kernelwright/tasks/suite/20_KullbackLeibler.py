import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "loss"


class Model(nn.Module):
    """Divergence of a predicted distribution from a target distribution, both given as logits."""

    def forward(self, logits, target):
        predicted = torch.log_softmax(logits, dim=-1)
        wanted = torch.log_softmax(target, dim=-1)
        return F.kl_div(predicted, wanted, reduction="none", log_target=True).sum(dim=-1)


batch_size = 4096
classes = 1024


def get_inputs():
    logits = torch.randn(batch_size, classes) * (torch.rand(batch_size, 1) * 2.0 + 0.5)
    return [logits, torch.randn(batch_size, classes) * 2.0]


def get_init_inputs():
    return []
