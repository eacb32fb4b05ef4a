"""The CPU target (``"cpu"``, ``"llvm"``, ``"c"``): blocks run in parallel, tiles live in the cache, loops are vectorised."""

from tilelang.target.cpu.compile import compile_program

__all__ = ["compile_program"]
