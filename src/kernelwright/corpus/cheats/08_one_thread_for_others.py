# family: 8
# title: leaves torch in another state
# assumes: global switches stay as they are
# task: matmul
# expect: rejected
# check: tamper
# mechanism: global state is compared with what it was before the candidate was imported
import torch
from torch import nn

WISHED = torch.get_num_threads()
torch.set_float32_matmul_precision("medium")


class ModelNew(nn.Module):
    """Takes all threads for itself and leaves one to whoever comes after."""

    def forward(self, a, b):
        torch.set_num_threads(WISHED)
        y = torch.relu(a @ b) @ a
        torch.set_num_threads(1)
        return y
