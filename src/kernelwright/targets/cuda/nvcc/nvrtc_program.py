"""NVRTC as a program, so that it can be confined, timed and killed like any compiler.

``python -I nvrtc_program.py LIBRARY [flags] -arch=sm_90 INPUT -o OUTPUT`` writes a cubin and what the
compiler says, as nvcc does. Needs nothing but Python; no module of ours.
"""

import ctypes
import sys
from pathlib import Path

_NO_FLAG_OF_NVRTC = ("-O", "--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "--relaxed-constexpr")


def main(words: list[str]) -> int:
    """Compile; returns the exit code."""
    library, *options, source, dash_o, output = words
    if dash_o != "-o":
        raise SystemExit("usage: nvrtc_program.py LIBRARY [flags] INPUT -o OUTPUT")
    nvrtc = _load(Path(library))
    program = ctypes.c_void_p()
    text = Path(source).read_bytes()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None))
    kept = [o for o in options if not o.startswith(_NO_FLAG_OF_NVRTC)]
    flags = [o.replace("expt-extended", "extended").encode() for o in (*kept, "--ptxas-options=-v")]
    status = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    said = _read(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
    sys.stdout.write(said + "\n")
    if status != 0:
        sys.stdout.write(f"nvrtc: {nvrtc.nvrtcGetErrorString(status).decode()}\n")
        return 1
    Path(output).write_bytes(_read(nvrtc, program, "CUBIN"))
    return 0


def _load(library: Path) -> ctypes.CDLL:
    for builtins in library.parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(library))
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, data))
    return data.raw


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise SystemExit(f"nvrtc: {nvrtc.nvrtcGetErrorString(status).decode()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
