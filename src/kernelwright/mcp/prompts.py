"""Prompts for common jobs."""

from typing import Any

from kernelwright.core.errors import missing

try:
    from mcp.server.mcpserver import MCPServer
except ImportError as error:
    raise missing(error, "mcp") from error

_LOOP = (
    "Keep to the loop: check_task, a first kernel (lower_plan without moves, or your own), evaluate, "
    "diagnose, one change at a time, evaluate. Compare by intervals, never by single figures. Stop when "
    "diagnose says at_floor, or after {budget} evaluations. Judge the best kernel once more with "
    'options {{"final": true}} and report its speedup with the interval.'
)


def add_prompts(server: MCPServer[Any]) -> None:
    """Register every prompt."""

    @server.prompt(title="Make a module faster")
    def make_faster(task: str, budget: int = 12) -> str:
        """Work on a task with the tools until a verified faster kernel is found."""
        return (
            "Make this PyTorch module faster with the kernelwright tools. The result must compute the same. "
            f"{_LOOP.format(budget=budget)}\n\nThe task:\n\n```python\n{task}\n```"
        )

    @server.prompt(title="Let the search do it")
    def search_for_me(task: str, evaluations: int = 16) -> str:
        """Have optimize search, and explain what came of it."""
        return (
            f"Call optimize on this task with a budget of {evaluations} evaluations. Then explain in a few "
            "sentences what it found: the speedup with its interval, the plan's moves and why they help, and "
            f"how far the kernel is from what the machine could do.\n\n```python\n{task}\n```"
        )

    @server.prompt(title="Find out why a kernel is rejected")
    def why_rejected(task: str, kernel: str) -> str:
        """Find the reason of a bad verdict and correct the kernel."""
        return (
            "Call evaluate on this task and kernel. Explain the verdict, correct the kernel's source without "
            "giving up its speed, and evaluate again until it is verified.\n\n"
            f"Task:\n\n```python\n{task}\n```\n\nKernel:\n\n```python\n{kernel}\n```"
        )

    @server.prompt(title="Review a task")
    def review_task(task: str) -> str:
        """Say whether a speedup on a task would mean anything."""
        return (
            "Call check_task on this task. Say in plain words whether a speedup on it would mean anything, "
            f"and propose a corrected task where it would not.\n\n```python\n{task}\n```"
        )
