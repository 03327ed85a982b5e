"""Which hosts are trusted to be this machine, and which addresses are every one of it."""

import pytest

from kernelwright.core.hosts import is_everywhere, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "model.localhost", ""]
)
def test_what_a_resolver_may_place_elsewhere_is_not_this_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "says"),
    [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("example.org", False), ("", False)],
)
def test_an_address_for_every_address_is_known(host: str, says: bool) -> None:
    assert is_everywhere(host) is says
