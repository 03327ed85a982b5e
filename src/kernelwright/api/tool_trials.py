"""Tools that build and run what a model wrote: confined as candidates are, in processes that end with them.

Nothing here judges. Draws are those of the process that times points, never a verdict's.
"""

import ast
import statistics
from collections.abc import Sequence

from kernelwright.agents.llm.sources import unfold
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Node, Situation
from kernelwright.api.tool_arguments import ProfileBase, TryKernel
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.open_parameters import closed, open_parameters
from kernelwright.core.task import Task
from kernelwright.core.wrong_numbers import OwnDraw
from kernelwright.machine.loops import inner_loops
from kernelwright.machine.probe import probe_machine
from kernelwright.referee.session.confined import confined_compiler
from kernelwright.referee.settings import make_referee_settings
from kernelwright.settings import Settings
from kernelwright.targets.base import BuildResult, BuildSite
from kernelwright.targets.registry import build_candidate
from kernelwright.tasks.globals import assigned_literals
from kernelwright.tuning.search import BASE
from kernelwright.tuning.timer import PointTimer

LIMIT_S = 30.0
"""For one build, one comparison or one timing; ours."""
BUILDS = "tool-builds"
"""Folder in the cache."""
FAMILIES = ("as_is", "scaled", "heavy_tail")
"""Input distributions that a draft is compared on; ours."""
LEAST_ALLOWED, UNKNOWN_ALLOWED = 1e-6, 1e-4
"""Relative errors that are told: never less than the first; the second where no kernel was judged yet."""
ROUNDS = 15
"""Samples of a timing at most; ours."""
N_WARNINGS, N_INSTRUCTIONS = 30, 120
"""Lines that are shown at most; ours."""


def _base(situation: Situation) -> Node:
    if situation.base is None:
        raise UserError("there is no base yet")
    return situation.base


def _program(source: str) -> str:
    """Return what would run of a draft, with the first value of what it leaves open."""
    whole = unfold(source)
    try:
        ast.parse(whole)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"the file is no Python: {error}") from None
    chosen = {name: values[0] for name, values in open_parameters(whole).items()}
    return Candidate(source=closed(whole, chosen) if chosen else whole).program


def _built(program: str, settings: Settings) -> BuildResult:
    with confined_compiler(make_referee_settings(settings)) as compiler:
        return build_candidate(program, BuildSite(settings.cache_dir / BUILDS, LIMIT_S, compiler.run))


def compiled(source: str, settings: Settings) -> str:
    """Say how a draft compiles, confined; nothing of it runs."""
    built = _built(_program(source), settings)
    log = built.log.strip().splitlines()[:N_WARNINGS]
    if built.error is not None:
        return "\n".join([f"It does not compile: {built.error}", *log])
    if built.library is None:
        return "There is nothing to compile ahead: the file is built when it is imported. Call try_kernel."
    facts = [f"{name} = {value}" for name, value in (built.facts or {}).items() if value is not None]
    return "\n".join(["It compiles.", *facts, *log])


def tried(situation: Situation, asked: TryKernel) -> str:
    """Say how a draft does against the reference, in a confined process of its own."""
    task, program = _at(situation.problem.task, asked.sizes), _program(asked.source)
    judged = [node.evaluation for node in (situation.base, *situation.run) if node is not None]
    draws = [OwnDraw(family=family, allowed=allowed_error(judged, family)) for family in FAMILIES]
    with PointTimer(task, threads=probe_machine().cores or 1) as timer:
        first = timer.load({BASE: program}, LIMIT_S, [BASE]).get(BASE)
        looked = timer.compare(program, draws, LIMIT_S)
    if looked is None:
        return f"It does not run: {first.why if first is not None and first.why else 'not in time'}"
    if looked.wrong or not looked.draws:
        return "\n".join(looked.lines(FAMILIES))
    bounds = ", ".join(f"{draw.allowed:.2g} ({draw.family})" for draw in draws if draw.family in looked.draws)
    return (
        "It runs. The error of every element, over its magnitude plus the output's root mean square, is at "
        f"most {bounds}."
    )


def allowed_error(judged: Sequence[Evaluation], family: str) -> float:
    """Return twice what verdicts allowed on that kind of inputs; on all kinds where none was of it."""
    errors = [error for evaluation in judged for error in evaluation.errors]
    if not errors:
        return UNKNOWN_ALLOWED
    own = [error for error in errors if error.family == family]
    return max([LEAST_ALLOWED, *(2 * error.allowed for error in own or errors)])


def _at(task: Task, sizes: dict[str, int]) -> Task:
    own = task.workloads[0]
    known = {**assigned_literals(ast.parse(task.source)), **own.overrides}
    for name, size in sizes.items():
        largest = known.get(name)
        if isinstance(largest, bool) or not isinstance(largest, int) or not 1 <= size <= largest:
            whole = [f"{n} = {v}" for n, v in known.items() if isinstance(v, int) and not isinstance(v, bool)]
            raise UserError(
                f"{name} = {size}: sizes may be made smaller, those of: {', '.join(whole) or 'none'}"
            )
    smaller = own.model_copy(update={"overrides": {**own.overrides, **sizes}})
    return task.model_copy(update={"workloads": (smaller,)})


def profiled(situation: Situation, asked: ProfileBase) -> str:
    """Say how long the base takes now, with one thread and with all."""
    problem, program = situation.problem, _base(situation).candidate.program
    cores = probe_machine().cores or 1
    found: dict[int, float] = {}
    lines = []
    for threads in sorted({1, cores}):
        times = _times(problem.task, program, threads)
        if isinstance(times, str):
            return f"The base was not timed: {times}"
        found[threads] = statistics.median(times)
        low, _, high = statistics.quantiles(times, n=4) if len(times) > 1 else (times[0],) * 3
        lines.append(
            f"{threads} threads: median {found[threads]:.4g} ms, half of it in {low:.4g} to {high:.4g}"
        )
    if len(found) > 1:
        lines.append(f"{cores} threads are {found[1] / found[cores]:.3g} times as fast as one")
    return "\n".join([*lines, *_rates(problem, found[cores])])


def _times(task: Task, program: str, threads: int) -> list[float] | str:
    """Return milliseconds of single calls, or why there are none."""
    with PointTimer(task, threads=threads) as timer:
        first = timer.load({BASE: program}, LIMIT_S, [BASE]).get(BASE)
        if first is None or first.why is not None:
            return "not in time" if first is None else str(first.why)
        return timer.time([BASE], ROUNDS, LIMIT_S).get(BASE) or "the processor was not free"


def _rates(problem: Problem, ms: float) -> list[str]:
    floor = problem.main_floor
    if floor is None or ms <= 0:
        return []
    return [
        f"of the task's least work: {floor.work.flops / ms / 1e6:.4g} GFLOP/s, "
        f"{floor.work.min_bytes / ms / 1e6:.4g} GB/s; the floor is {floor.ms:.4g} ms"
    ]


def shown_loop(situation: Situation, number: int, settings: Settings) -> str:
    """Show one of the base's innermost loops."""
    built = _built(_base(situation).candidate.program, settings)
    if built.library is None:
        return f"There is no machine code to show: {built.error or 'the file is built when it is imported'}"
    loops = inner_loops(built.library)
    if not loops:
        return "No loop is found: there is no disassembler here, or the code has no loops."
    if not 1 <= number <= len(loops):
        return f"There is no loop {number}: the base has {len(loops)} innermost loops, 1 to {len(loops)}"
    loop = loops[number - 1]
    n = len(loop.instructions)
    cut = [f"[... {n - N_INSTRUCTIONS} more]"] if n > N_INSTRUCTIONS else []
    head = (
        f"Loop {number} of {len(loops)}, in {loop.function}: {n} instructions, "
        f"{loop.vector_arithmetic} of them arithmetic on vector registers"
    )
    return "\n".join([head, *loop.instructions[:N_INSTRUCTIONS], *cut])
