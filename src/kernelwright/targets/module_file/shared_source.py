"""Text that candidates of every language carry: layouts, declared parameters, constants."""

LARGE_BYTES = (32 << 20) - (64 << 10)
"""malloc keeps smaller blocks for their next use: its M_MMAP_THRESHOLD grows to 32 MiB (mallopt(3)). An
aligned block needs a little besides its contents."""

LAID_OUT = '''
def _laid_out(tensor, stride):
    """Return the tensor with exactly these strides, copied only where it has others."""
    if tensor.stride() == stride:
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device="cpu").copy_(tensor)
'''

REUSED = '''
import sys

_given_out = {}  # address -> storage of a large tensor


def _references(held):
    """Count who refers to the storage in a list; how Python counts differs between its versions."""
    return sys.getrefcount(held[0])


def _alone(held):
    """Return the count of a storage that nobody else has; None where another one would not be counted."""
    count, other = _references(held), [*held]
    return count if _references([*other]) == count + 2 else None


_ALONE = _alone([torch.empty(0).untyped_storage()])


def _reused(shape, stride, dtype):
    """Return a tensor like torch.empty, in memory of an earlier one that nothing refers to any more.

    A block so large goes back to the system when it is freed. A new one has to be cleared, page by page,
    which can take longer than the kernel. Only the last four blocks are remembered: no more can stay unused.
    """
    n_uses = getattr(torch._C, "_storage_Use_Count", None)
    size = (1 + sum((n - 1) * step for n, step in zip(shape, stride))) * dtype.itemsize
    if n_uses is None or _ALONE is None or size < LARGE_BYTES:
        return torch.empty_strided(shape, stride, dtype=dtype, device="cpu")
    found = None
    for address in list(_given_out):
        held = [_given_out.pop(address, None)]
        if held[0] is None or held[0].data_ptr() != address:
            continue  # another thread has it, or the memory was exchanged for shared one
        is_idle = n_uses(held[0]._cdata) == 1 and _references(held) == _ALONE
        if found is None and is_idle and held[0].nbytes() == size:
            found = held[0]
        else:
            _given_out[address] = held[0]
    if found is None:
        found = torch.empty_strided(shape, stride, dtype=dtype, device="cpu").untyped_storage()
    tensor = torch.empty(0, dtype=dtype, device="cpu").set_(found, 0, shape, stride)
    _given_out[found.data_ptr()] = found  # from here on it is in use
    for address in list(_given_out)[:-4]:
        _given_out.pop(address, None)
    return tensor
'''.replace("LARGE_BYTES", str(LARGE_BYTES))

DECLARE = '''
def _declare(root, tensors):
    """Register empty parameters and buffers under dotted names, like the module this was made from."""
    made = {}
    for name, (same_as, shape, dtype, is_parameter) in tensors.items():
        *path, leaf = name.split(".")
        module = root
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        if same_as is None:
            value = torch.empty(shape, dtype=dtype)
            if is_parameter:
                value = nn.Parameter(value, requires_grad=dtype.is_floating_point)
            made[name] = value
        value = made[name] if same_as is None else made[same_as]
        if is_parameter:
            module.register_parameter(leaf, value)
        else:
            module.register_buffer(leaf, value)
'''

UNPACK = '''
def _unpack(text, dtype, shape):
    """Return a constant tensor from its base64 bytes."""
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=dtype).reshape(shape)
'''
