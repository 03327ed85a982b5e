# title: the batch in two parts
# origin: torch
# task: 51_Mlp
# sizes: batch_size=67, in_features=33, hidden=65, out_features=31
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features, hidden, out_features):
        super().__init__()
        self.first = nn.Linear(in_features, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, out_features)

    def forward(self, x):
        parts = [self.last(F.silu(self.second(F.gelu(self.first(part))))) for part in x.tensor_split(2)]
        return torch.cat(parts)
