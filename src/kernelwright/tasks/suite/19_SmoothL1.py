import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "loss"


class Model(nn.Module):
    """Smooth L1 loss per sample: quadratic near zero, linear beyond a threshold."""

    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, predicted, wanted):
        loss = F.smooth_l1_loss(predicted, wanted, reduction="none", beta=self.beta)
        return loss.mean(dim=1)


batch_size = 2048
features = 4096
beta = 0.75


def get_inputs():
    spread = torch.rand(batch_size, 1) * 2.0 + 0.2
    return [torch.randn(batch_size, features) * spread, torch.randn(batch_size, features)]


def get_init_inputs():
    return [beta]
