"""Every exception of the project. A bad candidate is a status, never one of these."""


class KernelwrightError(Exception):
    """Base of the project's exceptions; the message says what, where, and what to do next."""


class UserError(KernelwrightError):
    """The input is at fault: a file, an option or a name. The CLI prints one line and exits 2."""


class TaskError(UserError):
    """The task cannot be used: it does not load, does not run, or has no single right answer."""


class CaptureError(KernelwrightError):
    """The module cannot be captured to a graph; it can still run unchanged."""


class LoweringError(KernelwrightError):
    """A plan cannot be carried out on this graph; the caller records it as a failed move."""


class UnusableAnswer(LoweringError):
    """A model's answer could not be used; the message begins with the named outcome. The step ends."""


class MachineError(KernelwrightError):
    """Kernelwright or the machine failed: no compiler, no memory, a worker that cannot start."""


class StoreError(KernelwrightError):
    """The store cannot be opened, read or written."""


class BudgetUsedUp(KernelwrightError):
    """An amount of the budget is used up (named by ``amount``); the run ends with its best candidate."""

    def __init__(self, amount: str) -> None:
        super().__init__(f"the budget of {amount.replace('_', ' ')} is used up")
        self.amount = amount


class ModelUnavailable(KernelwrightError):
    """The model's API refuses or fails for good: wrong key, no such model, down for too long."""


def missing(error: ImportError, extra: str) -> UserError:
    """Return the one line that says what to install where a package of an extra is not there."""
    name = error.name or str(error)
    return UserError(f"{name} is not installed; install it with: pip install 'kernelwright[{extra}]'")
