# title: float32 inside
# origin: torch
# task: half
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, w):
        return torch.relu(x.float() @ w.float()).bfloat16()
