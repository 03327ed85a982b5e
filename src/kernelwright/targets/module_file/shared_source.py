"""Text that candidates of every language carry: layouts, declared parameters, constants."""

LAID_OUT = '''
def _laid_out(tensor, stride):
    """Return the tensor with exactly these strides, copied only where it has others."""
    if tensor.stride() == stride:
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype).copy_(tensor)
'''

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
