"""The tools. Their docstrings are what an agent reads."""

from typing import Annotated, Any, TypeVar

import anyio
from pydantic import Field

from kernelwright.core.errors import KernelwrightError, TaskError, UserError, missing
from kernelwright.core.plan import Move
from kernelwright.mcp.answers import (
    Answer,
    BottleneckReport,
    FoundSkills,
    Inspected,
    KernelTable,
    KernelVerdict,
    LoweredKernel,
    Memory,
    Optimized,
    ProgramSpace,
    SkillPage,
    TaskReport,
    TunedKernel,
)
from kernelwright.mcp.asked import (
    CheckOptions,
    EvaluateOptions,
    KernelText,
    LowerOptions,
    OptimizeOptions,
    SpaceOptions,
    TaskText,
    TuneOptions,
)
from kernelwright.mcp.pages import found_skill, skill_page
from kernelwright.mcp.workers import Workers
from kernelwright.skills.load import load_skills
from kernelwright.skills.search import find_skills

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
except ImportError as error:
    raise missing(error, "mcp") from error

A = TypeVar("A", bound=Answer)
Ctx = Context[Any, Any]
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
SEARCHES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
PlanMoves = Annotated[
    tuple[Move, ...],
    Field(description="Moves in order, applied from the reference on; each names a skill and a region."),
]
CORRECT = "Next: correct the argument and call the tool again."
CORRECT_THE_TASK = (
    "Next: correct the task and call the tool again; where it only cannot be captured, write ModelNew "
    "yourself and call evaluate."
)


def add_tools(server: MCPServer[Any], workers: Workers) -> None:
    """Register every tool."""
    _add_judging(server, workers)
    _add_planning(server, workers)
    _add_searching(server, workers)
    _add_reading(server)


async def _run(workers: Workers, ctx: Ctx, job: str, answer: type[A], /, **arguments: Any) -> A:
    """Carry a job out; what it refuses becomes an error that an agent can read."""

    async def tell(seconds: float, text: str) -> None:
        await ctx.report_progress(seconds, None, text)

    try:
        return await workers.run(job, arguments, answer, tell)
    except KernelwrightError as error:
        raise ToolError(_with_next(error)) from error


def _with_next(error: KernelwrightError) -> str:
    if isinstance(error, TaskError):
        return f"{error}. {CORRECT_THE_TASK}"
    if isinstance(error, UserError):
        return f"{error}. {CORRECT}"
    return f"{error}. Next: this is no fault of your arguments; try once more, then tell the user."


def _add_judging(server: MCPServer[Any], workers: Workers) -> None:
    @server.tool(title="Check a task", annotations=READS)
    async def check_task(task: TaskText, ctx: Ctx, options: CheckOptions = None) -> TaskReport:
        """Say what is wrong with a task before anyone trusts a speedup on it: constant output, inputs that
        hide errors, work without effect, no single right answer. Takes about 10 s."""
        return await _run(workers, ctx, "check_task", TaskReport, task=task, options=options)

    @server.tool(title="Judge a kernel", annotations=READS)
    async def evaluate(
        task: TaskText, kernel: KernelText, ctx: Ctx, options: EvaluateOptions = None
    ) -> KernelVerdict:
        """Judge a kernel: is it right on inputs that it cannot know, and how fast is it against PyTorch?

        The referee runs it confined, compares it with a float64 oracle on secret inputs and new weights,
        times it in pairs with the reference, and replays it. Speedups come with a 95 % interval; trust no
        figure whose interval includes 1. Takes 10 to 60 s. On failure `next` says what to correct.
        """
        return await _run(workers, ctx, "evaluate", KernelVerdict, task=task, kernel=kernel, options=options)

    @server.tool(title="Compare kernels", annotations=READS)
    async def compare_kernels(
        task: TaskText,
        kernels: Annotated[dict[str, str], Field(description="Name -> source text of a ModelNew file.")],
        ctx: Ctx,
        options: EvaluateOptions = None,
    ) -> KernelTable:
        """Judge several kernels for one task in one session, which is quicker than one call each."""
        return await _run(
            workers, ctx, "compare_kernels", KernelTable, task=task, kernels=kernels, options=options
        )

    @server.tool(title="Say what limits a kernel", annotations=READS)
    async def diagnose(
        task: TaskText,
        kernel: KernelText,
        ctx: Ctx,
        plan: Annotated[
            tuple[Move, ...] | None,
            Field(description="The plan that the kernel carries out, where lower_plan wrote it."),
        ] = None,
        options: EvaluateOptions = None,
    ) -> BottleneckReport:
        """Judge a kernel and say what limits it: bottleneck, roofline, measured evidence, and the skills
        that answer it, best first. Call it on a verified kernel to decide on the next change."""
        moves = None if plan is None else [move.model_dump() for move in plan]
        return await _run(
            workers, ctx, "diagnose", BottleneckReport, task=task, kernel=kernel, plan=moves, options=options
        )

    @server.tool(title="Build GPU kernels ahead of time", annotations=READS)
    async def inspect(
        kernel: KernelText,
        ctx: Ctx,
        task: Annotated[
            str | None, Field(description="Task source text, for the inputs of Triton's kernels.")
        ] = None,
        gpus: Annotated[
            tuple[str, ...], Field(description="sm_80, sm_90, gfx942, ... or models such as h200-sxm.")
        ] = (),
        options: LowerOptions = None,
    ) -> Inspected:
        """Build a candidate's Triton, CUDA or HIP kernels for GPUs that need not be here, and say what the
        compiler made of them: registers, spills, shared memory, occupancy. Runs nothing."""
        return await _run(
            workers, ctx, "inspect", Inspected, kernel=kernel, task=task, gpus=gpus, options=options
        )


def _add_planning(server: MCPServer[Any], workers: Workers) -> None:
    @server.tool(title="Have the expert write a kernel", annotations=READS)
    async def lower_plan(
        task: TaskText,
        ctx: Ctx,
        moves: PlanMoves = (),
        options: LowerOptions = None,
    ) -> LoweredKernel:
        """Have the expert compiler write a kernel for a plan: graph rewrites, fusion and schedules named as
        moves. Without moves it writes its default kernel, a good start. The answer lists every move that
        may follow, with its regions and parameters. Nothing is measured: call evaluate then."""
        plan = [move.model_dump() for move in moves]
        return await _run(workers, ctx, "lower_plan", LoweredKernel, task=task, moves=plan, options=options)

    @server.tool(title="Show the space of programs", annotations=READS)
    async def space(task: TaskText, ctx: Ctx, options: SpaceOptions = None) -> ProgramSpace:
        """Say which programs the expert may generate for a task: the decisions, their number, what is
        illegal and why. Options {"sample": 5} draw points by lot. Nothing is measured."""
        return await _run(workers, ctx, "space", ProgramSpace, task=task, options=options)

    @server.tool(title="Tune a kernel's parameters", annotations=READS)
    async def tune(
        task: TaskText,
        ctx: Ctx,
        kernel: Annotated[
            str | None,
            Field(
                description='Source with ModelNew and TUNE = {"NAME": [default, ...]} at top level, read as '
                'TUNE["NAME"][0]. Left out: points of the task\'s space of programs.'
            ),
        ] = None,
        options: TuneOptions = None,
    ) -> TunedKernel:
        """Close the parameters that a kernel leaves open, by many cheap timings; the referee judges the
        winner. Options {"seconds": 30} say how long points are timed."""
        return await _run(workers, ctx, "tune", TunedKernel, task=task, kernel=kernel, options=options)


def _add_searching(server: MCPServer[Any], workers: Workers) -> None:
    @server.tool(title="Search for a faster module", annotations=SEARCHES)
    async def optimize(
        ctx: Ctx,
        task: Annotated[str | None, Field(description="Task source text, or suite:NAME.")] = None,
        name: Annotated[str, Field(description="What the run is called.", pattern=r"^[^:\n]+$")] = "task",
        resume: Annotated[
            str | None, Field(description="Id of an interrupted run to carry on, in the place of a task.")
        ] = None,
        options: OptimizeOptions = None,
    ) -> Optimized:
        """Search for a faster module on your behalf and prove it: plans, writes, judges and measures the
        winner again in fresh processes. Takes minutes; progress says how far it is. Limit it with options
        {"budget": {"evaluations": 8}} or {"budget": {"seconds": 120}}. A cancelled call leaves a run that
        `resume` carries on."""
        return await _run(
            workers, ctx, "optimize", Optimized, task=task, name=name, resume=resume, options=options
        )

    @server.tool(title="Ask what earlier runs taught", annotations=READS)
    async def memory_recall(
        ctx: Ctx,
        task: Annotated[
            str | None, Field(description="Task source text: plans of tasks like it come first.")
        ] = None,
        skill: Annotated[str | None, Field(description="Only what is known of this skill.")] = None,
        target: Annotated[str | None, Field(description="Device and language, e.g. cpu/cpp.")] = None,
        count: Annotated[int, Field(ge=1, le=50, description="Findings and plans at most.")] = 8,
    ) -> Memory:
        """Say what earlier runs in this store measured: effects of skills, findings, plans that won."""
        return await _run(
            workers, ctx, "memory_recall", Memory, task=task, skill=skill, target=target, count=count
        )


def _add_reading(server: MCPServer[Any]) -> None:
    @server.tool(title="Search the skills", annotations=READS)
    async def skills_search(
        query: Annotated[str, Field(description="Words, e.g. 'softmax long rows'. Empty: all.")] = "",
        target: Annotated[str | None, Field(description="Device and language, e.g. cpu/cpp.")] = None,
        bottleneck: Annotated[str | None, Field(description="As diagnose names it.")] = None,
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> FoundSkills:
        """Find expert techniques by words, target and bottleneck. Read one with skill_read."""
        skills = await anyio.to_thread.run_sync(load_skills)
        try:
            found = find_skills(skills.values(), query, target=target, bottleneck=bottleneck)
        except UserError as error:
            raise ToolError(_with_next(error)) from error
        return FoundSkills(skills=tuple(map(found_skill, found[:limit])), total=len(found))

    @server.tool(title="Read a skill", annotations=READS)
    async def skill_read(name: Annotated[str, Field(description="As skills_search names it.")]) -> SkillPage:
        """Read one expert technique: when it applies, what to do, a worked pattern, its parameters."""
        skills = await anyio.to_thread.run_sync(load_skills)
        if name not in skills:
            near = ", ".join(skill.name for skill in find_skills(skills.values(), name.replace("-", " "))[:5])
            raise ToolError(f"there is no skill {name!r}. Next: call skills_search, or try: {near}")
        return skill_page(skills[name])
