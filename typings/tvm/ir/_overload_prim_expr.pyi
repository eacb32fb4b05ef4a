"""See ``tvm``; the names that ``tilelang.ir.nodes`` takes are listed, since a name of ``__getattr__`` counts as unknown."""

from typing import Any

EqualOp: Any
NotEqualOp: Any

def __getattr__(name: str) -> Any: ...
