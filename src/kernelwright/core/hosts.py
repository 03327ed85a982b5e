"""What names and addresses of hosts say of this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Say whether a host name or address is this machine's own.

    Names below ``localhost`` are not: which machine they are, some resolvers ask the network.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Say whether who listens on this address listens on every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
