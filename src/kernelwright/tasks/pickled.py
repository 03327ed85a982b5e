"""Files of cloudpickle: written under the hash of their content, and read.

Reading leaves the classes of this process as they are.

A class of ``__main__`` is pickled with its code. Where it is read in its own process, cloudpickle finds the
class again and sets all its attributes: methods that read copies of the user's globals, and older values.

Elsewhere its methods have globals of their own, which still say ``__main__``. torch.compile looks for such
globals in the module of that name, which is another one there. So they get a module of their own.
"""

import hashlib
import itertools
import os
import pickle
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, BinaryIO

import cloudpickle.cloudpickle as by_value

from kernelwright.core.errors import TaskError

MAIN = "__main__"
_numbers = itertools.count()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        found = super().find_class(module, name)
        if found is by_value._class_setstate:
            return _filled
        return _at_home if found is by_value._make_function else found


def _filled(kind: type, state: Any) -> type:
    """Set the attributes of a class that has none yet."""
    is_known = state[0].keys() <= vars(kind).keys()
    return kind if is_known else by_value._class_setstate(kind, state)


def _at_home(code: Any, names: dict[str, Any], *rest: Any) -> FunctionType:
    """Make a function whose globals are those of a module that can be found by its name."""
    if names.get("__name__") == MAIN and names is not vars(sys.modules[MAIN]):
        home = _Globals(names)
        names["__name__"] = home.__name__
        sys.modules[home.__name__] = home
    made: FunctionType = by_value._make_function(code, names, *rest)
    return made


class _Globals(ModuleType):
    """A module that has what a dictionary holds, now and later."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__(f"kernelwright_main_{next(_numbers)}")
        self.__dict__["_names"] = names

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_names"][name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def read_pickle(file: BinaryIO) -> Any:
    """Return the object in a file."""
    return _Reader(file).load()


def write_pickle(name: str, folder: Path, data: bytes) -> Path:
    """Write a pickle whole, also beside others who write it; return its path, which tells its content.

    Raises:
        TaskError: the folder cannot be written; ``name`` is the task's.
    """
    path = folder.resolve() / f"{hashlib.sha256(data).hexdigest()[:20]}.pkl"
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        raise TaskError(f"{name}: cannot write {path} ({error.strerror}); name a writable folder") from error
    return path
