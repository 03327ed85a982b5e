"""CUDA C++ as we take it: kernels in one source, and for each launch what a launch needs to be told."""

import re
from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from kernelwright.core.frozen import Frozen

ArgumentKind: TypeAlias = Literal["tensor", "int32", "int64", "float32", "float64"]
"""What a kernel takes; a tensor is the address of its first element on the device."""

DEFAULT_FLAGS = ("-std=c++17", "-O3")
ALLOWED_FLAG = re.compile(
    r"-O[0-3]|--?std=c\+\+(17|20)|--?use_fast_math|--?(fmad|ftz|prec-div|prec-sqrt)=(true|false)"
    r"|--?maxrregcount=\d+|--?(expt-)?(relaxed-constexpr|extended-lambda)|--?lineinfo|--?restrict|-w"
    r"|-D\w+(=[\w.+-]*)?"
)
"""No flag that names a file, or that hands words to another program."""
_FIRST_LINE = '#line 1 "kernel.cu"'
_NAME = re.compile(r"[A-Za-z_]\w*")
_C_TYPES: dict[ArgumentKind, tuple[str, int]] = {
    "tensor": ("void*", 100),
    "int32": ("int", 4),
    "int64": ("long long", 8),
    "float32": ("float", 204),
    "float64": ("double", 208),
}
"""Kind -> type of the launcher's argument, and the code of the kernel's type in ``_CHECKS``."""
_CHECKS = """
namespace kernelwright_checks {
template <class T> struct code { static constexpr int value = sizeof(T); };
template <class T> struct code<T*> { static constexpr int value = 100; };
template <> struct code<float> { static constexpr int value = 204; };
template <> struct code<double> { static constexpr int value = 208; };
template <int...> struct codes {};
template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
template <class F, class Given> struct takes { static constexpr bool value = false; };
template <class... P, class Given> struct takes<void (*)(P...), Given> {
  static constexpr bool value = same<codes<code<P>::value...>, Given>::value;
};
}
"""
_SHARED_WITHOUT_ASKING = 48 << 10


class Launch(Frozen):
    """One launch; sizes are fixed, as the shapes of a task are."""

    name: str
    """The launcher's function is ``launch_NAME``."""
    kernel: str
    """A function ``extern "C" __global__ void``."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = Field(default=0, ge=0, le=1 << 20)
    """Dynamic shared memory of a block."""
    arguments: tuple[ArgumentKind, ...]

    @field_validator("name", "kernel")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is no name in C")
        return value

    @field_validator("grid", "block")
    @classmethod
    def _is_positive(cls, value: tuple[int, int, int]) -> tuple[int, int, int]:
        if min(value) < 1 or max(value) >= 1 << 31:
            raise ValueError(f"{value} is no size")
        return value

    @property
    def block_threads(self) -> int:
        """Threads of a block; more than the architecture takes is for the occupancy to say."""
        return self.block[0] * self.block[1] * self.block[2]


class CudaSource(Frozen):
    """A candidate's CUDA C++."""

    text: str
    flags: tuple[str, ...] = DEFAULT_FLAGS
    launches: tuple[Launch, ...]

    @field_validator("flags")
    @classmethod
    def _are_allowed(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refused = [flag for flag in value if not ALLOWED_FLAG.fullmatch(flag)]
        if refused:
            raise ValueError(f"flags that are not allowed: {' '.join(refused)}")
        return value

    @field_validator("launches")
    @classmethod
    def _have_names_of_their_own(cls, value: tuple[Launch, ...]) -> tuple[Launch, ...]:
        if not value or len({launch.name for launch in value}) < len(value):
            raise ValueError("there must be launches, each with a name of its own")
        return value


def checked_text(form: CudaSource) -> str:
    """Return the kernels, then assertions that each one takes what its launches give it."""
    lines = [_CHECKS.strip()]
    for launch in form.launches:
        codes = ", ".join(str(_C_TYPES[kind][1]) for kind in launch.arguments)
        lines += [
            f"static_assert(kernelwright_checks::takes<decltype(&{launch.kernel}), "
            f"kernelwright_checks::codes<{codes}>>::value,",
            f'    "launch {launch.name}: {launch.kernel} does not take'
            f' ({", ".join(launch.arguments)}) and return void");',
        ]
    return "\n".join([_FIRST_LINE, form.text, *lines, ""])


def launcher_text(form: CudaSource) -> str:
    """Return the kernels, then a C function ``int launch_NAME(stream, arguments...)`` for each launch.

    It answers with a cudaError_t, 0 when the launch was accepted. Needs CUDA's runtime, nothing of torch.
    What the kernels take is not checked here: ``checked_text`` is compiled first. A candidate's loader
    (targets/cuda/runtime_source.py) writes the same text, to find what was built from it.
    """
    return "\n".join([_FIRST_LINE, form.text, *(wrapper(launch) for launch in form.launches), ""])


def wrapper(launch: Launch) -> str:
    """Return the C function that performs a launch."""
    kinds = list(enumerate(launch.arguments))
    taken = "".join(f", {_C_TYPES[kind][0]} a{number}" for number, kind in kinds)
    given = ", ".join(f"&a{number}" for number, _ in kinds) or "nullptr"
    kernel = f"reinterpret_cast<const void*>(&{launch.kernel})"
    lines = [f'extern "C" int launch_{launch.name}(void* stream{taken}) {{']
    if launch.shared_bytes > _SHARED_WITHOUT_ASKING:
        attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize"
        lines.append(
            f"  int error = cudaFuncSetAttribute({kernel}, {attribute}, {launch.shared_bytes});"
            " if (error) return error;"
        )
    grid, block = (", ".join(str(size) for size in sizes) for sizes in (launch.grid, launch.block))
    lines += [
        f"  void* arguments[] = {{{given}}};",
        f"  return cudaLaunchKernel({kernel}, dim3({grid}), dim3({block}), arguments, "
        f"{launch.shared_bytes}, static_cast<cudaStream_t>(stream));",
        "}",
    ]
    return "\n".join(lines)
