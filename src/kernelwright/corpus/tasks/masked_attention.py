"""Attention with a mask among its inputs, causal as drawn."""

import torch
import torch.nn.functional as F
from torch import nn

B, H, S, D = 2, 4, 48, 32


class Model(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def get_inputs():
    mask = torch.ones(S, S, dtype=torch.bool).tril().expand(B, 1, S, S).contiguous()
    return [torch.rand(B, H, S, D) for _ in range(3)] + [mask]


def get_init_inputs():
    return []
