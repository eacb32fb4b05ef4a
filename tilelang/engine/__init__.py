"""The compiler's entry, and its hooks for other programs, by the names that programs import them by."""

from tilelang.attributes import attributes

__getattr__ = attributes(
    __name__,
    {
        "tilelang.jit.compiler": "lower",
        "tilelang.artifact": "KernelParam CompiledArtifact=KernelArtifact",
        "tilelang.engine.callback": "register_cuda_postproc register_c_postproc",
    },
)
