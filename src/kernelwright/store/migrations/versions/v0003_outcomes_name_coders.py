"""Version 3: every outcome names the team whose Coder carried its move out."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"

_RUNS = sa.table("runs", sa.column("run_id"), sa.column("spec"))
_OUTCOMES = sa.table("outcomes", sa.column("outcome_id"), sa.column("run_id"), sa.column("payload"))


def upgrade() -> None:
    """Write the run's coder into every outcome; what cannot be read, or has lost its run, stays."""
    connection = op.get_bind()
    joined = _OUTCOMES.join(_RUNS, _OUTCOMES.c.run_id == _RUNS.c.run_id)
    query = sa.select(_OUTCOMES.c.outcome_id, _OUTCOMES.c.payload, _RUNS.c.spec).select_from(joined)
    for number, payload, spec in connection.execute(query).all():
        outcome, run = _object(payload), _object(spec)
        if outcome is not None and run is not None:
            named = json.dumps(outcome | {"coder": _coder(run.get("team", "expert"))})
            connection.execute(
                _OUTCOMES.update().where(_OUTCOMES.c.outcome_id == number).values(payload=named)
            )


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _coder(team: str) -> str:
    """Return who sits in the Coder's seat of a team such as ``expert+planner=llm,coder=llm``."""
    base, _, swaps = team.partition("+")
    seats = dict(swap.replace(" ", "").partition("=")[::2] for swap in swaps.split(","))
    return seats.get("coder", base.strip())
