"""What Ray reads from the environment of a process that uses it, before it is imported."""

import os

_SET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody about what runs here
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a referee of the processor is no reason to hide GPUs
}


def set_for_ray() -> None:
    """Set what the user has not set."""
    for name, value in _SET.items():
        os.environ.setdefault(name, value)
