# title: everything transposed
# origin: torch
# task: 51_Mlp
# sizes: batch_size=67, in_features=33, hidden=65, out_features=31
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features, hidden, out_features):
        super().__init__()
        self.first = nn.Linear(in_features, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, out_features)

    def forward(self, x):
        h = F.gelu(self.first.weight @ x.t() + self.first.bias[:, None])
        h = F.silu(self.second.weight @ h + self.second.bias[:, None])
        return (self.last.weight @ h + self.last.bias[:, None]).t().contiguous()
