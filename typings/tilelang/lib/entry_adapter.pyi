"""The compiled adapter of a kernel's entry, ``src/cython/entry_adapter.pyx``."""

from typing import Any

MAX_FLOATS: int
MAX_INTEGERS: int

def use_tensor_type(type_: type) -> None: ...

class Refused(Exception): ...

class EntryAdapter:
    def __init__(self, **plan: Any) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
