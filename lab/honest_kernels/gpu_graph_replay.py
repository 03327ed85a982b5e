# title: a CUDA graph: inputs are copied into its own, outputs out of them
# origin: CUDA graph
# task: 39_LinearGeluScale
# target: cuda
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale
        self.known = {}

    def run(self, x):
        return F.gelu(self.linear(x)) * self.scale

    def forward(self, x):
        own = (self.linear.weight, self.linear.bias)
        key = (x.shape, x.stride(), x.dtype, x.device, *(p.data_ptr() for p in own))
        if key not in self.known:
            self.known[key] = (*self.capture(x), own)
        graph, static_x, static_y, _ = self.known[key]
        static_x.copy_(x)
        graph.replay()
        return static_y.clone()

    def capture(self, x):
        static_x = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.run(static_x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            static_y = self.run(static_x)
        return graph, static_x, static_y
