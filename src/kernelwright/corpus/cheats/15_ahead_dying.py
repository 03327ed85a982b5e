# family: 15
# title: computes answers ahead when its earlier outputs are destroyed
# assumes: outputs may be let go between new inputs and the clock
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay, families
# only: cpu
# mechanism: none of the candidate's code is called between new values and the timed calls on them
from collections import OrderedDict

import torch
from torch import nn


class Dies:
    def __init__(self, owner):
        self.owner = owner

    def __del__(self):
        self.owner.ahead()


class ModelNew(nn.Module):
    """Remembers answers by content; makes those of all known places when an output dies."""

    def __init__(self):
        super().__init__()
        self.seen, self.places, self.before = OrderedDict(), {}, None
        self.free = [(torch.ones(320, 320), torch.ones(320, 320)) for _ in range(80)]

    def forward(self, a, b):
        place = a.data_ptr()
        self.before = place
        if place not in self.places:
            self.places[place] = a, b
        out = self.answer(a, b).clone()
        out.companion = Dies(self)
        return out

    def answer(self, a, b):
        key = self.key(a, b)
        if key in self.seen:
            self.seen.move_to_end(key)
        else:
            work, out = self.free.pop() if self.free else self.seen.popitem(last=False)[1]
            torch.mm(a, b, out=work)
            torch.relu_(work)
            torch.mm(work, a, out=out)
            self.seen[key] = work, out
        return self.seen[key][1]

    def key(self, a, b):
        return float(a[0, 0]), float(b[3, 5]), float(b[-1, -1])

    def ahead(self):
        if self.key(*self.places[self.before]) not in self.seen:  # new values have come since the last call
            for a, b in self.places.values():
                self.answer(a, b)
