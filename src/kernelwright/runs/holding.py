"""Holding a run while this process carries it on."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kernelwright.core.errors import StoreError
from kernelwright.store.base import Store
from kernelwright.store.lease import Lease, LeaseLost, Owner

HEARTBEAT_S = 15.0
"""Seconds between renewals of the lease."""


@contextmanager
def held(store: Store, run_id: str) -> Iterator[Lease]:
    """Be the only one that writes a run; the lease is renewed until the block ends, then given back.

    Raises:
        RunHeld: another process is at work on it.
    """
    lease = store.take_lease(run_id, Owner.here())
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(HEARTBEAT_S):
            try:
                store.renew_lease(lease)
            except LeaseLost:
                return  # the next write of the run says so
            except StoreError:
                continue

    heart = threading.Thread(target=renew, name=f"lease of {run_id}", daemon=True)
    heart.start()
    is_given_back = True
    try:
        yield lease
    except StoreError:
        is_given_back = False  # it cannot be: the store is away, or the run is another's
        raise
    finally:
        is_over.set()
        if is_given_back:
            heart.join()
            with suppress(StoreError):
                store.release_lease(lease)
