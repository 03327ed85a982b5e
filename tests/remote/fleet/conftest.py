"""A real Ray cluster on this machine; skips where Ray is not installed."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.fleets import STORE_BYTES

from kernelwright.machine.ray_environment import set_for_ray


@pytest.fixture(scope="session")
def head() -> Iterator[Any]:
    """A head without devices. A node is dead once it has not answered for ten seconds."""
    set_for_ray()
    cluster = pytest.importorskip("ray.cluster_utils").Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            "_system_config": {"health_check_period_ms": 500, "health_check_failure_threshold": 20},
        },
    )
    try:
        yield cluster
    finally:
        cluster.shutdown()


@pytest.fixture
def nodes(head: Any) -> Iterator[Any]:
    """A cluster to which a test adds nodes; they end with it."""
    try:
        yield head
    finally:
        for node in list(head.worker_nodes):
            head.remove_node(node, allow_graceful=False)
