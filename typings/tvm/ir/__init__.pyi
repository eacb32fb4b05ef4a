"""See ``tvm``; the names that ``tilelang.ir.nodes`` takes are listed, since a name of ``__getattr__`` counts as unknown."""

from typing import Any

Op: Any
Range: Any
SourceName: Any
Span: Any
StringImm: Any
TensorLoad: Any
TensorRegion: Any

def __getattr__(name: str) -> Any: ...
