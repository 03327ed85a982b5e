"""A run's line to its models."""

from kernelwright.agents.llm.client import INSTALL, Client
from kernelwright.agents.llm.tape import Tape
from kernelwright.core.budget import Meter
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings


def make_client(settings: ModelSettings, meter: Meter, tape: Tape, *, seed: int = 0) -> Client:
    """Return the client of one run; nothing is sent yet (see ``preflight``).

    Answers on the tape are replayed and charged as they were; new ones are added to it. ``seed`` draws the
    jitter of waiting times and nothing else.

    Raises:
        UserError: a library or a key is missing, the provider is unknown, or a budget in USD meets a
            model of unknown price. None of the last three when the tape is ReplayOnly.
    """
    try:
        # lazy: importing the package must not load a model SDK
        from kernelwright.agents.llm.model_client import ModelClient
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("kernelwright"):
            raise
        raise UserError(INSTALL) from None
    return ModelClient(settings, meter, tape, seed=seed)
