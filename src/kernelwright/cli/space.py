"""``kernelwright space``: which programs may be generated for a task."""

from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_json, print_table, tell
from kernelwright.core.request import SpaceRequest


@takes(SpaceRequest)
def space(request: SpaceRequest, *, as_json: AsJson = False) -> None:
    """Say which programs may be generated for a task: the decisions, their number, what is illegal."""
    # lazy: loads torch
    from kernelwright import api

    result = api.run_space(request)
    if as_json:
        print_json(result.document())
        return
    tell(result.headline)
    for table in result.tables():
        tell("")
        print_table(table)
