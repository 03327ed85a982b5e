# title: a private pipeline of modules that share the parameters
# origin: torch, modules
# task: 39_LinearGeluScale
# sizes: batch_size=300, in_features=67, out_features=131
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale
        object.__setattr__(self, "pipeline", None)

    def forward(self, x):
        if self.pipeline is None:
            object.__setattr__(self, "pipeline", nn.Sequential(self.linear, nn.GELU()))
        return self.pipeline(x) * self.scale
