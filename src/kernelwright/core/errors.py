"""Every exception of the project. A bad candidate is a status, never one of these."""


class KernelwrightError(Exception):
    """Base of all our exceptions; the message says what, where, and what to do next."""


class UserError(KernelwrightError):
    """The input is at fault: a file, an option or a name. The CLI prints one line and exits 2."""


class TaskError(UserError):
    """The task cannot be used: it does not load, does not run, or has no single right answer."""


class CaptureError(KernelwrightError):
    """The module cannot be captured to a graph; it can still run unchanged."""


class LoweringError(KernelwrightError):
    """A plan cannot be carried out on this graph; the caller records it as a failed move."""


class MachineError(KernelwrightError):
    """Our side or the machine failed: no compiler, no memory, a worker that cannot start."""


class StoreError(KernelwrightError):
    """The store cannot be opened, read or written."""
