# title: the tied weight is read through one of its names
# origin: torch
# task: tied
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)
        self.second = nn.Linear(64, 64, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        turned = self.first.weight.t()
        return torch.relu(x @ turned) @ turned
