# title: a stable sort, so the first of equal values comes first
# origin: torch
# task: largest
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        values, places = torch.sort(x, dim=1, descending=True, stable=True)
        return values[:, :8].contiguous(), places[:, :8].contiguous()
