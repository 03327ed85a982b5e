# family: 36
# title: divides by the size of every class, also of an empty one
# assumes: labels of every class occur
# task: class_means
# expect: non_finite
# check: families
# mechanism: labels are redrawn so that classes are empty
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, labels):
        sums = x.new_zeros(16, x.shape[1]).index_add_(0, labels, x)
        counts = x.new_zeros(16).index_add_(0, labels, x.new_ones(len(labels)))
        return sums / counts[:, None]
