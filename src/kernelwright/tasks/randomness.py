"""Keeps the user's random generators where they stand, whatever a task seeds and draws."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def kept_random_state() -> Iterator[None]:
    """Put torch's generators back afterwards, the accelerator's among them.

    ``torch.manual_seed`` seeds those too. Where the accelerator was not in use yet, it gets the process's own
    seed.
    """
    kind = torch.accelerator.current_accelerator()
    accelerator = None if kind is None else torch.get_device_module(kind)
    is_used = accelerator is not None and getattr(accelerator, "is_initialized", accelerator.is_available)()
    every, seed = "_all" if hasattr(accelerator, "get_rng_state_all") else "", torch.initial_seed()
    states = getattr(accelerator, f"get_rng_state{every}")() if is_used else None
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            if is_used:
                getattr(accelerator, f"set_rng_state{every}")(states)
            elif accelerator is not None:
                getattr(accelerator, f"manual_seed{every}")(seed)
