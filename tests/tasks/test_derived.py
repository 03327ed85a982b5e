"""A class that hears of its subclasses hears of none of ours."""

import abc
from typing import Any, Generic, TypeVar

import pytest

from kernelwright.tasks.derived import derived

T = TypeVar("T")


class Keyed:
    """Asks each subclass for a key of its own."""

    known: dict[str, type] = {}  # noqa: RUF012 (all subclasses share it)

    def __init_subclass__(cls, *, key: str, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.known[key] = cls


class First(Keyed, key="first"):
    pass


class Abstract(abc.ABC, Generic[T]):
    @abc.abstractmethod
    def run(self) -> T: ...


class Plain:
    pass


@pytest.mark.parametrize("kind", [First, Abstract[int], Plain])
def test_it_is_a_subclass_like_any_other(kind: Any) -> None:
    kind = getattr(kind, "__origin__", kind)
    made: Any = derived(kind, {"run": lambda self: 3})
    assert kind in made.__bases__ and made.__name__ == kind.__name__ and type(made) is type(kind)
    assert made().run() == 3 and isinstance(made(), kind)


def test_a_registry_does_not_hear_of_it_and_of_what_others_derive_it_does() -> None:
    made: Any = derived(First, {})
    assert Keyed.known == {"first": First} and made.__bases__ == (First,)

    class Second(made, key="second"):
        pass

    assert Keyed.known.pop("second") is Second
    with pytest.raises(TypeError, match="key"):
        type("Third", (made,), {})
