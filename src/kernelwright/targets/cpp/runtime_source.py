"""Text that every candidate carries: how its C++ is compiled, found again and called."""

import platform

LOADER = '''
def _load_library():
    """Compile CPP_SOURCE, or find the library that was compiled from the same text before."""
    key = hashlib.sha256("\\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
    ahead = Path(os.environ.get("KERNELWRIGHT_BUILD_CACHE", "/nonexistent")) / f"{key}.so"
    library = Path.home() / ".cache" / "kernelwright" / "build" / f"{key}.so"
    if ahead.exists():
        library = ahead
    elif not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            source, built = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            source.write_text(CPP_SOURCE)
            command = [os.environ.get("CXX", "g++"), *CXX_FLAGS, "-shared", "-fPIC", source, "-o", built]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError("the C++ compiler failed:\\n" + done.stderr[-4000:])
            os.replace(built, library)  # atomic: another process may be building the same
    return ctypes.CDLL(str(library))  # torch is imported already: one shared OpenMP pool


_library = _load_library()


def _kernel(name, n_tensors):
    """Return a C function that takes so many data pointers."""
    function = getattr(_library, name)
    function.argtypes, function.restype = (ctypes.c_void_p,) * n_tensors, None
    return function
'''

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


def cxx_flags() -> tuple[str, ...]:
    """Return the compiler flags of candidates on this kind of machine; ``-shared -fPIC`` are added.

    No ``-ffast-math``: NaN and infinities must come out as the reference has them. ``-fno-math-errno``
    and ``-fno-trapping-math`` give up only what torch does not have either.
    """
    flags = ["-std=c++17", "-O3", "-march=native", "-fopenmp"]
    flags += ["-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
    if platform.machine() in ("x86_64", "AMD64"):
        flags.append("-mprefer-vector-width=512")
    return tuple(flags)
