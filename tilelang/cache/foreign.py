"""Values of other packages that have a faithful fingerprint, by the name of their type: the packages are not imported.

Each function takes the :class:`~tilelang.cache.values.Describer` and the value.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

from tilelang.cache import watch

MAX_ARRAY_BYTES = 1 << 20


def describer_of(kind: type) -> Callable[[Any, Any], None] | None:
    """What describes values of the type ``kind``, or None."""
    found = _SPECIAL.get(f"{kind.__module__}.{kind.__qualname__}")
    return found or (_numpy_scalar if _is_numpy_scalar(kind) else None)


def _is_numpy_scalar(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.generic)


def _numpy_scalar(describer: Any, value: Any) -> None:
    if value.dtype.hasobject:
        raise describer.refuse("a numpy object scalar")
    describer.text(f"numpy {value.dtype.str} {value.tobytes().hex()}")


def _numpy_array(describer: Any, value: Any) -> None:
    if value.dtype.hasobject or value.nbytes > MAX_ARRAY_BYTES:
        raise describer.refuse(f"a numpy array of {value.nbytes} bytes of {value.dtype}")

    def content() -> tuple:
        return value.dtype.str, value.shape, value.tobytes()

    found = content()
    describer.record(watch.CALL, content, None, found)
    describer.text(f"numpy array {found[0]} {found[1]} {hashlib.sha256(found[2]).hexdigest()}")


def _by_text(describer: Any, value: Any) -> None:
    describer.text(f"{type(value).__module__}.{type(value).__qualname__} {value!s}")


def _by_position(describer: Any, value: Any) -> None:
    describer.text(repr(value.__reduce__()[1]))


_SPECIAL: dict[str, Callable[[Any, Any], None]] = {
    # types of packages that must not be imported here
    "torch.dtype": _by_text,
    "torch.Size": lambda describer, value: describer.value(tuple(value)),
    "numpy.ndarray": _numpy_array,
    "numpy.dtype": _by_text,
    "fractions.Fraction": _by_text,
    "decimal.Decimal": _by_text,
    "pathlib.PosixPath": _by_text,
    "_collections._tuplegetter": _by_position,
    "collections._tuplegetter": _by_position,  # its name since Python 3.12
    "dataclasses._HAS_DEFAULT_FACTORY_CLASS": _by_text,
    # a logger tells the user something and decides nothing
    "logging.Logger": lambda describer, value: describer.text(f"logger {value.name}"),
    "logging.RootLogger": lambda describer, value: describer.text("logger"),
    **dict.fromkeys(
        (
            "types.GenericAlias",
            "types.UnionType",
            "typing._GenericAlias",
            "typing._UnionGenericAlias",
            "typing.Union",
        )
        + ("typing._SpecialForm", "typing.TypeVar", "typing._LiteralGenericAlias", "typing._AnyMeta"),
        _by_text,
    ),
}
