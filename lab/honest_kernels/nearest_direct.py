# title: squared differences, one by one
# origin: torch
# task: nearest
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, codes):
        return (x[:, None] - codes[None]).square().sum(dim=-1).argmin(dim=1)
