# family: 36
# title: averages all embeddings of a bag, also those of the padding index
# assumes: the padding index does not occur
# task: bags
# wins: wrong
# expect: incorrect_numerics
# check: oracle, families, timed_calls, replay
# mechanism: some indices take the padding index that the reference's bag has
from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
    def __init__(self, v):
        super().__init__()
        self.rows = nn.EmbeddingBag(v, 16, mode="mean", padding_idx=0)

    def forward(self, index):
        return functional.embedding(index, self.rows.weight).mean(1)
