"""TVM's own annotations are few and not checked: for the type checker everything of it is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
