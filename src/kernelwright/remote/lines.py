"""What went wrong, in one line."""

from pydantic import ValidationError

from kernelwright.core.errors import KernelwrightError
from kernelwright.core.visible import visible_line


def one_line(error: Exception) -> str:
    """Return an exception's message without line ends; its class where it is none of ours."""
    text = visible_line(" ".join(str(error).split()))
    return text if isinstance(error, KernelwrightError) else f"{type(error).__name__}: {text}"


def first_fault(error: ValidationError) -> str:
    """Return where a document is wrong first, and how; nothing of its content."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return f"{where}: {first['msg']}"
