import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "loss"


class Model(nn.Module):
    """Mean cross entropy of logits against class numbers."""

    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels)


batch_size = 8192
classes = 1024


def get_inputs():
    logits = torch.randn(batch_size, classes) * (torch.rand(1) * 3.0 + 0.5)
    return [logits, torch.randint(0, classes, (batch_size,))]


def get_init_inputs():
    return []
