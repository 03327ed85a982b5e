"""What an agent should do next, after each kind of answer."""

from kernelwright.core.evaluation import Check, Evaluation
from kernelwright.report.measures import speedup_over

_AFTER_CHECK = {
    Check.SOURCE: "Pass a whole Python file as text that defines class ModelNew(nn.Module), with the same "
    "constructor arguments as Model.",
    Check.BUILD: "Read the compiler's message in `log`, correct the source and evaluate again.",
    Check.INTERFACE: "Make ModelNew importable, constructible with Model's arguments, and keep every "
    "parameter and buffer of Model under its name: state_dict must match.",
    Check.RAISED: "Read `log`; forward raised or the process died. Look for accesses out of bounds.",
    Check.LIMITS: "The kernel took too long or too much memory. Look for endless loops and huge temporaries.",
    Check.FORM: "Return outputs of the reference's number, shapes and dtypes.",
    Check.STORAGE: "Return tensors of their own memory, complete when forward returns; reuse no buffer of an "
    "earlier call as an output.",
    Check.INPUTS: "Do not write to inputs or parameters; work on a copy.",
    Check.STATE: "Update buffers exactly as the reference does in this mode.",
    Check.ORACLE: "The result is wrong. Compare with the reference step by step; accumulate in float32.",
    Check.FAMILIES: "Right on the task's own inputs, wrong on others: handle scaled, negated, sparse and "
    "heavy-tailed values, for instance by subtracting a maximum before exp.",
    Check.WEIGHTS: "Read parameters in forward: what is folded at construction is stale when weights change.",
    Check.PRECISION: "Close, but less exact than allowed: keep products and sums in float32, or give the "
    "task another tolerance if the application accepts it.",
    Check.TIMED_CALLS: "Compute the result in every call; keep nothing from one call for the next.",
    Check.REPLAY: "Compute the result from its inputs in every call; caching by address or content is found.",
    Check.CLOCK: "Leave clocks alone.",
    Check.TAMPER: "Change no function and no global state outside your own module.",
    Check.IDLE_WORK: "Do all work inside forward: threads that work between calls count against the kernel.",
    Check.FLOOR: "Faster than the machine can be: the kernel does not do the work. Compute everything.",
    Check.LIBRARY_CALLS: "The policy forbids leaving the work to torch: write it yourself, or evaluate with "
    'options {"library_calls": "allowed"}.',
    Check.OWN_KERNEL: "The compiled kernel must do the work itself; a fallback to torch does not count.",
}


def after_verdict(evaluation: Evaluation) -> str:
    """Return what to do after a verdict on a kernel."""
    if not evaluation.is_verified:
        known = None if evaluation.check is None else _AFTER_CHECK.get(evaluation.check)
        return known or "Read `says` and `log`, correct the source and evaluate again."
    speedup = speedup_over(evaluation, "eager")
    if speedup is None or not speedup.is_faster:
        return "It is right but not faster than eager. Call diagnose: it says what limits it."
    if not evaluation.is_final:
        return (
            "It is right and faster. Call diagnose for the next move, or evaluate with options "
            '{"final": true} before you rely on the figure.'
        )
    return "The figure was measured in fresh processes and can be relied on. Deliver this source."


TASK_FINE = "The task can be trusted. Call lower_plan without moves for a first kernel, or optimize."
TASK_BAD = "Do what the flags advise before you trust a speedup on this task, then call check_task again."
COMPARED = "Take the best one on: diagnose says what limits it."
DIAGNOSED = (
    "Read the first skills with skill_read and change the kernel so, or pass a plan with such moves to "
    "lower_plan. Then evaluate."
)
AT_FLOOR = "Nothing worth the effort is left: the kernel is about as fast as this machine can be."
TUNED = "Pass `source` to evaluate as `kernel`: cheap timings are no verdict."
SPACE = "Pick moves for lower_plan from the decisions, or let optimize search the space."
LOWERED = (
    "Pass `source` to evaluate as `kernel`. Add one of `moves` to the plan and call lower_plan again for "
    "the next kernel."
)
RECALLED = "Try the plans' moves with lower_plan; treat findings that are not admitted as guesses."
NOTHING_RECALLED = "This store has learned nothing of it yet. Every run of optimize adds to it."
UNCHANGED = "Nothing faster was found within the budget. Give more evaluations, or write a kernel yourself."
OPTIMIZED = "Save `source` as a file; it defines ModelNew, a drop-in for Model. The report shows how it came."
INSPECTED = "Built ahead of time, not run: a GPU decides about speed. Look at spills and occupancy first."
NOT_INSPECTED = "Correct what `detail` and `log` name, then call inspect again."
