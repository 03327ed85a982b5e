"""The kernels of a printed source apart, so that only those are compiled anew that have changed."""

import re

from kernelwright.targets.cpp.prelude import prelude_for

_KERNEL = re.compile(r'.*?^extern "C" void .*?^\}\n', re.M | re.S)
"""A kernel and the functions before it that it calls."""


def parts_of(text: str) -> tuple[str, ...]:
    """Return sources of one kernel each that together define what a source does.

    The source itself where it is not as we print it: functions that somebody else wrote may share a state.
    """
    printed = text.strip() + "\n"
    head = prelude_for(printed) + "\n"
    functions = printed.removeprefix(head)
    kernels = _KERNEL.findall(functions)
    is_ours = functions != printed and prelude_for(functions) + "\n" == head
    if not is_ours or "".join(kernels) != functions:
        return (text,)
    return tuple(f"{prelude_for(kernel)}\n{kernel}" for kernel in kernels)
