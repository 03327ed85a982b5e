# family: 48
# title: creates empty files endlessly
# assumes: empty files are free
# task: pointwise
# expect: runtime_error, crashed, timeout
# check: raised, limits
# mechanism: the scratch has a limit on the number of files
# wins: no
# sandbox: namespaces
import itertools

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for i in itertools.count():
            open(f"empty{i}", "wb").close()
