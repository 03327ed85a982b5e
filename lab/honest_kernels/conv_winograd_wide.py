# title: Winograd's F(4x4, 3x3), too coarse for strict
# origin: torch
# task: tf32_convolution
import torch
import torch.nn.functional as F
from torch import nn

INPUT = torch.tensor(
    [
        [4.0, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
FILTER = torch.tensor(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1.0],
    ]
)
OUTPUT = torch.tensor([[1.0, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        height, width = x.shape[2:]
        wide = F.pad(x, (1, 1 + -width % 4, 1, 1 + -height % 4))
        tiles = INPUT @ wide.unfold(2, 6, 4).unfold(3, 6, 4) @ INPUT.T
        filters = FILTER @ self.conv.weight @ FILTER.T
        sums = OUTPUT @ torch.einsum("bchwij,ocij->bohwij", tiles, filters) @ OUTPUT.T
        y = sums.transpose(3, 4).flatten(4, 5).flatten(2, 3)[..., :height, :width]
        return (y + self.conv.bias[:, None, None]).contiguous()
