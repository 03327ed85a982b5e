"""What to say when the packages of the extra ``mcp`` are not there."""

from kernelwright.core.errors import UserError


def missing(error: ImportError) -> UserError:
    """Return the one line that says what to install."""
    name = error.name or str(error)
    return UserError(f"{name} is not installed; install it with: pip install 'kernelwright[mcp]'")
