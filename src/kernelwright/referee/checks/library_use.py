"""Whose work is it? What a candidate dispatches to libraries, and whether its own kernel matters.

Under the default policy, library calls are shown and decide nothing. Where the policy forbids
``library_calls``, a candidate must compute with compiled code of its own. ``own_code.py`` measures that in
timed calls. Here is what one call shows: only allocating, viewing and copying may go through torch, and the
candidate must have loaded a library of its own. When that library is replaced by a *ghost*, a library with
the same symbols that does nothing, the answer must no longer be right.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from kernelwright.core.evaluation import Check, Status
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.machine.compiler import CompileFailure, compile_library
from kernelwright.referee.checks.own_code import SYSTEM_PLACES
from kernelwright.referee.checks.verify import matches
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample

MOVEMENT = frozenset(
    {
        "alias", "as_strided", "broadcast_tensors", "broadcast_to", "cat", "chunk", "clone", "contiguous",
        "copy_", "data_ptr", "detach", "empty", "empty_like", "empty_strided", "expand", "expand_as",
        "fill_", "flatten", "from_file", "full", "full_like", "is_contiguous", "is_nonzero", "item",
        "lift_fresh", "lift_fresh_copy", "local_scalar_dense", "movedim", "narrow", "new_empty",
        "new_empty_strided", "new_full", "new_ones", "new_zeros", "numpy_T", "ones", "ones_like",
        "permute", "ravel", "reshape", "reshape_alias", "resize_", "resolve_conj", "resolve_neg",
        "result_type", "select", "set_", "slice", "split", "split_with_sizes", "squeeze", "stack",
        "swapaxes", "t", "to", "to_copy", "transpose", "unbind", "unflatten", "unsafe_view", "unsqueeze",
        "view", "view_as", "zero_", "zeros", "zeros_like",
    }
)  # fmt: skip
"""Operations that only allocate, view, fill or copy."""
COMPILED_REGION = "Torch-Compiled Region"
GHOST_FOLDER = "ghost"
SYMBOL = re.compile(r"\b[TW] ([A-Za-z_]\w*)$", re.MULTILINE)

MakeContestant = Callable[[Path], CandidateProcess]
"""Starts another process for the same workload. That process loads the given library in place of its own."""


def library_calls(worker: CandidateProcess, slot: str) -> dict[str, int]:
    """Return the computing operations that one call dispatches to torch, with their counts."""
    found: dict[str, int] = {}
    for name, count in worker.trace(slot).items():
        short = name.rpartition("::")[2].partition(".")[0].lstrip("_")
        if COMPILED_REGION in name:
            found[COMPILED_REGION] = found.get(COMPILED_REGION, 0) + count
        elif "::" in name and short not in MOVEMENT:
            found[name] = found.get(name, 0) + count
    return dict(sorted(found.items()))


def check_library_use(
    policy: Policy,
    worker: CandidateProcess,
    source: str,
    draw: InputSample,
    library: Path | None,
    make: MakeContestant,
) -> dict[str, int]:
    """Return the library calls of a candidate.

    Raises Failure where the policy forbids library calls and the candidate makes some, or where its own
    kernel does not matter. Call this last: what the candidate does in here is not watched. ``draw`` is a
    sample that the candidate has answered correctly, ``library`` what was built for the candidate.
    """
    try:
        calls = library_calls(worker, next(iter(worker.slots)))
    except Failure:
        if policy.library_calls is LibraryCalls.ALLOWED:
            return {}
        raise
    if policy.library_calls is LibraryCalls.ALLOWED:
        return calls
    if calls:
        names = ", ".join(f"{name} ({count})" for name, count in calls.items())
        raise Failure(
            Status.REJECTED,
            f"the policy forbids library calls; the candidate dispatches {names:.200}",
            check=Check.LIBRARY_CALLS,
        )
    if not own_libraries(worker.child.pid):
        raise Failure(
            Status.REJECTED,
            "the policy asks for own kernels; the candidate brings no compiled code",
            check=Check.OWN_KERNEL,
        )
    ghost = None if library is None else ghost_library(library)
    if ghost is not None and _is_right_without(make(ghost), source, draw):
        raise Failure(
            Status.REJECTED,
            "the policy asks for own kernels; the candidate's answer is right without its own",
            check=Check.OWN_KERNEL,
        )
    return calls


def own_libraries(pid: int) -> list[str]:
    """Return the shared objects in a process that belong neither to the system nor to installed packages."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    paths = dict.fromkeys(re.findall(r"(/\S+\.so\S*)", maps))
    return [path for path in paths if not SYSTEM_PLACES.search(path)]


def ghost_library(library: Path) -> Path | None:
    """Build a library with the same symbols that does nothing; None where it does not compile."""
    symbols = _exported(library)
    text = "\n".join(f'extern "C" long {name}() {{ return 0; }}' for name in symbols)
    folder = library.parent / GHOST_FOLDER
    built = compile_library(text + f"\n// {library.stem}\n", ("-O1", "-w"), folder)
    if isinstance(built, CompileFailure):
        return None
    ghost = folder / library.name
    shutil.copyfile(built.path, ghost)
    return ghost


def _exported(library: Path) -> list[str]:
    try:
        asked = subprocess.run(
            ["nm", "-D", "--defined-only", str(library)],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [name for name in SYMBOL.findall(asked.stdout) if not name.startswith("_")]


def _is_right_without(worker: CandidateProcess, source: str, draw: InputSample) -> bool:
    slot = next(iter(worker.slots))
    try:
        worker.load(source)
        worker.fill(slot, draw.inputs)
        worker.load_state(draw.state)
        worker.run([slot])
        return matches(worker.reference, draw, worker.fetch())
    except Failure:
        return False
    finally:
        worker.close()
