"""Text that C++ candidates carry: how their C++ is compiled, found again and called."""

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
