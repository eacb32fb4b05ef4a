"""Values of other packages that have a faithful fingerprint; the packages are not imported for it.

A type counts as theirs only if it is the very object that their compiled part gives.
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from tilelang.fingerprint import ambient, genuine
from tilelang.fingerprint.canonical import canonical
from tilelang.fingerprint.walk import Describer, describes

MAX_ARRAY_BYTES = 1 << 20

_EXPRESSIONS, _CONSTANTS = "tvm.ir.prim.expr", ("IntImm", "FloatImm")

_VERSIONS = "torch.torch_version"

_FILE_NAMES = frozenset(dir(pathlib.Path)) - frozenset(dir(pathlib.PurePath))
_ARRAY_NAMES = frozenset("base data ctypes __array_interface__ __array_struct__ tofile dump dumps".split())


def describer_of(kind: type) -> Callable[[Describer, Any], None] | None:
    """What describes values of the type ``kind``, or None."""
    if kind.__flags__ & genuine.HEAP_TYPE:
        return _path if kind in _PATHS else _constant if _is_constant(kind) else _by_text if _is_version(kind) else None
    for package, name, describe in _SPECIAL:
        if kind is vars(sys.modules[package]).get(name) if package in sys.modules else False:
            return describe
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    return _numpy_scalar if issubclass(kind, numpy.generic) else _dtype if issubclass(kind, numpy.dtype) else None


def _is_constant(kind: type) -> bool:
    module = sys.modules.get(_EXPRESSIONS)
    return module is not None and any(vars(module).get(name) is kind for name in _CONSTANTS)


def _is_version(kind: type) -> bool:
    """Whether a class is that of ``torch.__version__``, a text that compares as versions do."""
    module = sys.modules.get(_VERSIONS)
    if module is None or vars(module).get("TorchVersion") is not kind:
        return False
    home = genuine.class_home(kind, ("torch",))
    return home is not None and genuine.is_genuine_class(kind, home)


def _constant(describer: Describer, value: Any) -> None:
    """A typed number that was made outside of a program: ``T.int32(3)``; no attribute of it can be set."""
    describer.text(f"{type(value).__qualname__} {canonical(value.value)} {value.ty}")


def _numpy_scalar(describer: Describer, value: Any) -> None:
    ambient.numpy_state(describer)
    _dtype(describer, value.dtype)
    describer.text(f"numpy scalar {value.tobytes().hex()}")


def _numpy_array(describer: Describer, value: Any) -> None:
    if value.nbytes > MAX_ARRAY_BYTES:
        raise describer.refuse(f"a numpy array of {value.nbytes} bytes")
    ambient.numpy_state(describer)
    found = _array_content(value)
    describer.record_probe(lambda: _array_content(value), found)
    _memory(describer, value)
    describer.limit("a numpy array", _ARRAY_NAMES)
    _dtype(describer, value.dtype)
    *layout, content = found
    describer.text(f"numpy array {layout} {hashlib.sha256(content).hexdigest()}")


def _array_content(value: Any) -> tuple:
    return value.dtype.str, value.shape, value.strides, str(value.flags), value.tobytes()


def _memory(describer: Describer, value: Any) -> None:
    """Feeds whose memory an array is, and where in it: a program that changes it changes every array of this memory."""
    root = value
    while type(root) is type(value) and root.base is not None:
        root = root.base
    root = root.obj if type(root) is memoryview else root
    if type(root) not in (type(value), bytes, bytearray):
        raise describer.refuse(f"a numpy array in the memory of another object ({type(root).__name__})")
    describer.place(root)
    describer.text(f"from {value.ctypes.data - _address(root)}")


def _address(root: Any) -> int:
    import numpy

    array = root if isinstance(root, numpy.ndarray) else numpy.frombuffer(root, "u1")
    return array.ctypes.data


def _dtype(describer: Describer, value: Any) -> None:
    if value.hasobject or value.names or value.subdtype or value.metadata:
        raise describer.refuse(f"a numpy dtype of several parts ({value})")
    if value.kind == "V":
        raise describer.refuse(f"a numpy dtype of another package ({value})")  # several of them have the same text
    describer.text(f"numpy dtype {value.str} {value.char} {value.name}")  # longlong and int64 have one name, and two types


def _by_text(describer: Describer, value: Any) -> None:
    describer.text(f"{type(value).__module__}.{type(value).__qualname__} {value!s}")


def _size(describer: Describer, value: Any) -> None:
    describer.text("torch.Size")
    describer.contents(tuple(value))


def _path(describer: Describer, value: Any) -> None:
    """A path is its text; code that reads the file is refused elsewhere."""
    describer.text(f"path {type(value).__name__} {value!s}")
    describer.value(type(value))


@describes(*({type(pathlib.PurePath()), pathlib.PurePosixPath}))
def _pure_path(describer: Describer, value: Any) -> None:
    _path(describer, value)


_PATHS = frozenset((type(pathlib.Path()),))
_SPECIAL: tuple[tuple[str, str, Callable[[Describer, Any], None]], ...] = (
    ("torch", "dtype", _by_text),
    ("torch", "device", _by_text),
    ("torch", "Size", _size),
    ("numpy", "ndarray", _numpy_array),
)


def limit_paths(describer: Describer) -> None:
    """Notes that classes of ``pathlib`` are used, whose methods may look at files."""
    describer.limit("a path", _FILE_NAMES)


def by_position(describer: Describer, value: Any) -> None:
    """Feeds what a named tuple reads an item with."""
    describer.text(repr(value.__reduce__()[1]))


def _tuple_getter() -> type:
    import collections

    return type(vars(collections.namedtuple("_", "x"))["x"])


describes(_tuple_getter())(by_position)
