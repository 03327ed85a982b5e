"""What every use of torch.compile begins with, done when this module is imported.

A process that is forked afterwards finds inductor imported. It also finds what inductor asks compiler and
disk for once in every process: the processor's vector instructions, hashes of its own source and of Triton's.
Without that, a first call takes seconds even where the compiled code lies in the cache.
"""

import contextlib

import torch
import torch._inductor.compile_fx  # imported for those who are forked

with contextlib.suppress(Exception):  # names of torch's own: a version without them is slower, and no more
    from torch._inductor.codecache import CacheBase, torch_key
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    pick_vec_isa()
    torch_key()
    if not torch.cuda._is_compiled():  # else it would open the GPU, which no forked process could use then
        CacheBase.get_system()
