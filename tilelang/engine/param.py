"""What describes a compiled kernel, by the names that programs import it by."""

from tilelang.artifact import KernelArtifact as CompiledArtifact
from tilelang.artifact import KernelParam
from tilelang.attributes import attributes

__all__ = ["CompiledArtifact", "KernelParam"]

__getattr__ = attributes(__name__, {})
