"""Revalidation: whether anything that a kernel was made from has changed, by a flat list of identity checks (compiled, if built).

Every value that was read is held, so that an identity cannot come to mean another object. A check that fails does not mean that
the value has changed: it is then fingerprinted again.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.plain import plain_key

_MRO_OF = type.__dict__["__mro__"].__get__  # a metaclass may have a `__mro__` of its own


def _item(container: dict, key: Any, expected: Any) -> bool:
    return container.get(key, MISSING) is expected


def _cell(cell: CellType, _: None, expected: Any) -> bool:
    try:
        return cell.cell_contents is expected
    except ValueError:
        return expected is MISSING


def _function(function: FunctionType, _: None, expected: tuple) -> bool:
    *code, attributes, name, qualified, notes = expected
    found = (function.__dict__, function.__name__, function.__qualname__, function.__annotations__)
    return _function_code(function, None, code) and all(a is b for a, b in zip(found, (attributes, name, qualified, notes)))


def _function_code(function: FunctionType, _: None, expected: Sequence) -> bool:
    found = (function.__code__, function.__defaults__, function.__kwdefaults__)
    return all(a is b for a, b in zip(found, expected, strict=True))


def own_dict(value: Any) -> dict[str, Any] | None:
    """The instance dictionary of an object, also where its class overrides ``__dict__``; None where it has none."""
    for base in type(value).__mro__:
        found = base.__dict__.get("__dict__")
        if type(found) is GetSetDescriptorType or type(found) is MemberDescriptorType:
            return found.__get__(value)
    return None


def _own_dict(value: Any, _: None, expected: dict) -> bool:
    return own_dict(value) is expected


def _list(container: list, _: None, expected: tuple) -> bool:
    return len(container) == len(expected) and all(a is b for a, b in zip(container, expected, strict=False))


def _dict(container: dict, keys: tuple, values: tuple) -> bool:
    return _list(list(container), None, keys) and _list(list(container.values()), None, values)


def _type(value: Any, _: None, expected: type) -> bool:
    return type(value) is expected


def _mro(kind: type, _: None, expected: tuple) -> bool:
    return _MRO_OF(kind) is expected


def _call(probe: Callable, _: None, expected: Any) -> bool:
    return probe() == expected


def _untraced(_: None, __: None, ___: None) -> bool:
    return sys.gettrace() is None


def nothing_pending(queue: int, _: None, __: None) -> bool:
    """Whether no bytes wait to be read from the descriptor ``queue``."""
    import termios  # a library of its own, which a process that finds one kernel does not need

    waiting = fcntl.ioctl(queue, termios.FIONREAD, b"\0\0\0\0")
    return not any(waiting)


CHECKS = {
    # kind -> check; the numbers are those of the compiled version
    0: _item,
    1: _cell,
    2: _function,
    3: _list,
    4: _dict,
    5: _type,
    6: _mro,
    7: _call,
    8: nothing_pending,
    9: _function_code,
    10: _own_dict,
    11: _untraced,
}
ITEM, CELL, FUNCTION, LIST, DICT, TYPE, MRO, CALL, PENDING, FUNCTION_CODE, OWN_DICT, UNTRACED = CHECKS


class PythonWatch:
    """Records of what was read.

    Args:
        records: (kind, container, key, expected); see :data:`CHECKS`.
    """

    __slots__ = ("_checks",)

    def __init__(self, records: list[tuple[int, Any, Any, Any]]):
        self._checks = [(CHECKS[kind], *rest) for kind, *rest in records]

    def holds(self) -> bool:
        """Whether every record finds the very object that it found before."""
        return all(check(container, key, expected) for check, container, key, expected in self._checks)


class PythonRecall:
    """Objects by plain arguments, valid while a watch holds."""

    __slots__ = ("_rows", "_watch")

    def __init__(self, watch: Any):
        self._watch = watch
        self._rows: dict[bytes, Any] = {}

    def get(self, args: tuple, kwargs: dict) -> Any:
        """The object of these arguments, or None.

        Raises:
            NotPlain: an argument needs a full fingerprint.
        """
        found = self._rows.get(plain_key((args, kwargs)))
        return found if found is not None and self._watch.holds() else None

    def holds(self) -> bool:
        """Whether the watch holds."""
        return self._watch.holds()

    def rows(self) -> dict[bytes, Any]:
        """The table itself: plain key of (args, kwargs) -> object."""
        return self._rows


try:
    from tilelang.lib.revalidate import Recall, Watch
except ImportError:
    Watch, Recall = PythonWatch, PythonRecall
