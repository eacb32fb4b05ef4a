"""Immutable records of named fields: frozen dataclasses whose classes are made in a tenth of the time.

For each class, ``dataclasses`` compiles seven functions in 0.3 ms. A process that finds its kernel in the cache declares thirty
classes of records and makes one object of most of them, and the CUDA target declares a hundred before its first kernel; so these
share functions that look at the fields instead.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**properties: Any) -> Any:
        """Only for type checkers; Python 3.10 has none."""
        return lambda kind: kind


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """Base of a class whose annotations are its fields, as under ``@dataclass(frozen=True)``; with ``eq=False`` it compares by
    identity."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _names: ClassVar[tuple[str, ...]] = ()
    _compared: ClassVar[attrgetter[Any]]
    """Gives what objects of the class are compared by."""

    def __init_subclass__(cls, eq: bool = True) -> None:
        super().__init_subclass__()
        dataclass(init=False, repr=False, eq=False)(cls)
        cls._names = tuple(cls.__dataclass_fields__)
        compared = [each.name for each in cls.__dataclass_fields__.values() if each.compare]
        cls._compared = attrgetter(*compared) if compared else attrgetter("_names")
        for name in () if eq else ("__eq__", "__hash__"):
            setattr(cls, name, getattr(object, name))

    def __init__(self, *given: Any, **named: Any) -> None:
        names = self._names
        if len(given) > len(names):
            raise TypeError(f"{type(self).__name__} has fewer fields than {given}")
        values = self.__dict__
        values.update(zip(names, given))
        for name in names[len(given) :]:
            values[name] = named.pop(name) if name in named else _default(self, name)
        if named:
            raise TypeError(f"{type(self).__name__} has no other fields {list(named)}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return self._compared(self) == self._compared(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._compared(self))

    def __repr__(self) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__dataclass_fields__.values() if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _default(record: Record, name: str) -> Any:
    missing = record.__dataclass_fields__[name]
    if missing.default is not MISSING:
        return missing.default
    if missing.default_factory is not MISSING:
        return missing.default_factory()
    raise TypeError(f"{type(record).__name__} needs a value for {name!r}")
