# family: 19
# title: replays a CUDA graph captured on the first inputs, returning its static output
# assumes: inputs and outputs stay where they were at capture
# task: matmul
# target: cuda
# expect: incorrect_numerics, aliased_output
# check: oracle, families, storage
# mechanism: calls go round several input sets; earlier outputs are compared again
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, a, b):
        if self.graph is None:
            torch.relu(a @ b) @ a
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = torch.relu(a @ b) @ a
        self.graph.replay()
        return self.y
