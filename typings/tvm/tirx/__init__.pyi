"""See ``tvm``; the names that ``tilelang.ir.nodes`` takes are listed, since a name of ``__getattr__`` counts as unknown."""

from typing import Any

Add: Any
AllocBuffer: Any
And: Any
AssertStmt: Any
AttrStmt: Any
Bind: Any
BitwiseAnd: Any
BitwiseNot: Any
BitwiseOr: Any
BitwiseXor: Any
Break: Any
Broadcast: Any
BufferLoad: Any
BufferRegion: Any
BufferStore: Any
Cast: Any
Continue: Any
DeclBuffer: Any
Div: Any
EQ: Any
Evaluate: Any
FloatImm: Any
FloorDiv: Any
FloorMod: Any
For: Any
ForKind: Any
GE: Any
GT: Any
IfThenElse: Any
IndexMap: Any
IntImm: Any
IterVar: Any
LE: Any
LShift: Any
LT: Any
Let: Any
Max: Any
Min: Any
Mod: Any
Mul: Any
NE: Any
Not: Any
Or: Any
RShift: Any
Ramp: Any
Select: Any
SeqStmt: Any
Shuffle: Any
Stmt: Any
Sub: Any
While: Any
buffer_data: Any
decl_buffer: Any

class PrimFunc:
    __copy__: Any
    __deepcopy__: Any
    buffer_map: Any
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
