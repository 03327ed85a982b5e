"""Text that C++ candidates carry: how their C++ is compiled, found again and called."""

import platform

LOADER = '''
def _load_library():
    """Compile CPP_SOURCE, or find the library that was compiled from the same text for such a machine."""
    key = hashlib.sha256("\\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
    ahead = Path(os.environ.get("KERNELWRIGHT_BUILD_CACHE", "/nonexistent")) / f"{key}.so"
    library = ahead if ahead.exists() else _built(key)
    try:
        return ctypes.CDLL(str(library))  # torch is imported already: one shared OpenMP pool
    except OSError as error:
        hint = "set KERNELWRIGHT_CACHE to a folder that programs may be run from"
        raise RuntimeError(f"{library} cannot be loaded ({error}): {hint}") from None


def _built(key):
    """Return the library of a key from the cache, where processor and compiler are part of the name."""
    given, shared = os.environ.get("KERNELWRIGHT_CACHE"), os.environ.get("XDG_CACHE_HOME")
    cache = Path(given or Path(shared or "~/.cache") / "kernelwright").expanduser() / "build"
    processor = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    words = shlex.split(os.environ.get("CXX", "")) or ["g++" if shutil.which("g++") else "clang++"]
    compiler = shutil.which(words[-1])
    if compiler is None:  # then any compiler's library of this text for this processor will do
        found = sorted(cache.glob(f"{processor}-*/{key}.so"))
        if not found:
            raise RuntimeError(f"no C++ compiler {words[-1]!r} found: install g++ or clang++, or set CXX")
        return found[0]
    state = os.stat(os.path.realpath(compiler))
    version = hashlib.sha256(f"{compiler} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:12]
    library = cache / f"{processor}-{version}" / f"{key}.so"
    try:
        if not library.exists():
            library.parent.mkdir(parents=True, exist_ok=True)
            _compile([*words[:-1], compiler], library)
    except OSError as error:
        reason = f"cannot write {library.parent} ({error.strerror})"
        raise RuntimeError(f"{reason}: set KERNELWRIGHT_CACHE to a writable folder") from None
    return library


def _processor():
    """Return what tells this kind of processor from others: -march=native depends on it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line.startswith(("flags", "Features"))), os.uname().machine)


def _compile(compiler, library):
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        source, built = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
        source.write_text(CPP_SOURCE)
        command = [*compiler, *CXX_FLAGS, "-shared", "-fPIC", source, "-o", built]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("the C++ compiler failed:\\n" + done.stderr[-4000:])
        os.replace(built, library)  # atomic: another process may be building the same


_library = _load_library()


def _kernel(name, n_tensors):
    """Return a C function that takes so many data pointers."""
    function = getattr(_library, name)
    function.argtypes, function.restype = (ctypes.c_void_p,) * n_tensors, None
    return function
'''

LOADER_IMPORTS = ("ctypes", "hashlib", "os", "shlex", "shutil", "subprocess", "tempfile")
"""Modules that the loader needs, besides ``from pathlib import Path``."""


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
