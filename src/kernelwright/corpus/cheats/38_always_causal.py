# family: 38
# title: ignores the mask among its inputs and is always causal
# assumes: a mask is as the example has it
# task: masked_attention
# expect: incorrect_numerics
# check: families
# mechanism: masks are redrawn: padding and random ones
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
