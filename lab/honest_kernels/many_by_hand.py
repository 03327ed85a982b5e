# title: several outputs, each by another way
# origin: torch
# task: many
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        at = x.argmax(dim=1)
        return x.gather(1, at[:, None]).squeeze(1), at, x.gt(0.0), torch.dot(x.flatten(), x.flatten())
