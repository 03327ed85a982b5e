# title: Winograd's F(2x2, 3x3)
# origin: torch
# task: 34_Conv2d3x3
# sizes: batch_size=3, in_channels=8, out_channels=16, height=33, width=35
import torch
import torch.nn.functional as F
from torch import nn

INPUT = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
FILTER = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
OUTPUT = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]])


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        height, width = x.shape[2:]
        wide = F.pad(x, (1, 1 + width % 2, 1, 1 + height % 2))
        tiles = INPUT @ wide.unfold(2, 4, 2).unfold(3, 4, 2) @ INPUT.T
        filters = FILTER @ self.conv.weight @ FILTER.T
        sums = OUTPUT @ torch.einsum("bchwij,ocij->bohwij", tiles, filters) @ OUTPUT.T
        y = sums.transpose(3, 4).flatten(4, 5).flatten(2, 3)[..., :height, :width]
        return (y + self.conv.bias[:, None, None]).contiguous()
