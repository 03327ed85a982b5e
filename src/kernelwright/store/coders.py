"""The upgrade to version 3: outcomes of older stores are told which team's Coder they are of."""

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.engine import Connection

from kernelwright.core.run import Outcome, RunSpec
from kernelwright.store.schema import outcomes, runs

NAMES_CODERS = 3
"""The version whose outcomes name their coder."""


def name_coders(connection: Connection) -> None:
    """Write the run's coder into every outcome; what cannot be read, or has lost its run, stays as it is."""
    joined = outcomes.join(runs, outcomes.c.run_id == runs.c.run_id)
    query = sa.select(outcomes.c.outcome_id, outcomes.c.payload, runs.c.spec).select_from(joined)
    for number, payload, spec in connection.execute(query).all():
        try:
            coder = RunSpec.model_validate_json(spec).coder
            named = Outcome.model_validate_json(payload).model_copy(update={"coder": coder})
        except ValidationError:
            continue
        is_this = outcomes.c.outcome_id == number
        connection.execute(outcomes.update().where(is_this).values(payload=named.model_dump_json()))
