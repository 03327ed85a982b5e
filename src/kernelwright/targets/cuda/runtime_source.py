"""Text that a CUDA candidate carries: how its kernels are compiled, found again and launched."""

LOADER = '''
_C_TYPES = {
    "tensor": ("void*", ctypes.c_void_p),
    "int32": ("int", ctypes.c_int),
    "int64": ("long long", ctypes.c_longlong),
    "float32": ("float", ctypes.c_float),
    "float64": ("double", ctypes.c_double),
}


def _wrapper(launch):
    """Return the C function that performs a launch."""
    kinds = list(enumerate(launch["arguments"]))
    taken = "".join(f", {_C_TYPES[kind][0]} a{number}" for number, kind in kinds)
    given = ", ".join(f"&a{number}" for number, _ in kinds) or "nullptr"
    kernel = f"reinterpret_cast<const void*>(&{launch['kernel']})"
    shared = launch.get("shared_bytes", 0)
    lines = [f'extern "C" int launch_{launch["name"]}(void* stream{taken}) {{']
    if shared > 49152:
        attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize"
        lines.append(
            f"  int error = cudaFuncSetAttribute({kernel}, {attribute}, {shared}); if (error) return error;"
        )
    grid, block = (", ".join(str(size) for size in launch[sizes]) for sizes in ("grid", "block"))
    lines += [
        f"  void* arguments[] = {{{given}}};",
        f"  return cudaLaunchKernel({kernel}, dim3({grid}), dim3({block}), arguments, "
        f"{shared}, static_cast<cudaStream_t>(stream));",
        "}",
    ]
    return "\\n".join(lines)


def _load_library():
    """Compile the kernels for this device, or find what was compiled from the same text before."""
    major, minor = torch.cuda.get_device_capability()
    digits = f"{major}{minor}" + "a" * (major >= 9)
    text = "\\n".join(['#line 1 "kernel.cu"', CUDA_SOURCE, *(_wrapper(launch) for launch in LAUNCHES), ""])
    key = hashlib.sha256("\\n".join([text, *NVCC_FLAGS, f"sm_{digits}"]).encode()).hexdigest()[:32]
    ahead = Path(os.environ.get("KERNELWRIGHT_BUILD_CACHE", "/nonexistent")) / f"{key}.so"
    library = Path.home() / ".cache" / "kernelwright" / "cuda" / f"{key}.so"
    if ahead.exists():
        library = ahead
    elif not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            source, built = Path(folder, "kernel.cu"), Path(folder, "kernel.so")
            source.write_text(text)
            command = [os.environ.get("NVCC", "nvcc"), *NVCC_FLAGS, "-shared", "-Xcompiler", "-fPIC"]
            command += ["-gencode", f"arch=compute_{digits},code=sm_{digits}", source, "-o", built]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError("nvcc failed:\\n" + (done.stdout + done.stderr)[-4000:])
            os.replace(built, library)  # atomic: another process may be building the same
    return ctypes.CDLL(str(library))


_library = _load_library()


def _launcher(launch):
    """Return a function that launches on the current stream; tensors and numbers, as declared."""
    function = getattr(_library, "launch_" + launch["name"])
    function.argtypes = [ctypes.c_void_p, *(_C_TYPES[kind][1] for kind in launch["arguments"])]

    def call(*values):
        given = [value.data_ptr() if isinstance(value, torch.Tensor) else value for value in values]
        error = function(torch.cuda.current_stream().cuda_stream, *given)
        if error:
            raise RuntimeError(f"launch {launch['name']}: CUDA error {error}")

    return call


_launch = {launch["name"]: _launcher(launch) for launch in LAUNCHES}
'''
