"""The steps from a program to CUDA text, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.target.cuda.analysis.local_arrays import as_fragments
from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.codegen import kernel as codegen
from tilelang.target.cuda.codegen import verify
from tilelang.target.cuda.codegen.emitter import KernelOptions
from tilelang.target.cuda.codegen.generate import Generator
from tilelang.target.cuda.codegen.kernel import KernelState, new_state
from tilelang.target.cuda.codegen.tensor_maps import TensorMaps
from tilelang.target.cuda.normalise.async_scope import start_copies
from tilelang.target.cuda.normalise.early_exit import branch_early_exits
from tilelang.target.cuda.normalise.iteration_variables import separate_iterations
from tilelang.target.cuda.normalise.thread_scopes import split_threads
from tilelang.target.cuda.normalise.unroll import unroll_choices
from tilelang.target.cuda.specialize.warp_specialize import specialize
from tilelang.target.cuda.tile.program import check_strides, split_kernels
from tilelang.target.cuda.tile.tree import read_tree
from tilelang.target.request import CompileRequest
from tilelang.transform.bounds import check_bounds
from tilelang.transform.config import PassConfigKey
from tilelang.transform.pipeline import Step
from tilelang.transform.roll import roll


@dataclass(frozen=True)
class CudaContext:
    """Facts that no step changes: the request and the options that it decides."""

    request: CompileRequest
    options: KernelOptions


@dataclass(eq=False)
class Kernels:
    """The kernels of a program between two steps."""

    states: list[KernelState]

    def script(self) -> str:
        """What a dump shows."""
        return "\n".join(state.script() for state in self.states)


def options_of(request: CompileRequest) -> KernelOptions:
    """What the request's pass configurations decide."""
    config = request.config
    arch = arch_of(request.target)
    return KernelOptions(
        guarded=not config(PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS, False),
        fast_math=bool(config(PassConfigKey.TL_ENABLE_FAST_MATH, False)),
        use_async=bool(config(PassConfigKey.TL_ENABLE_ASYNC_COPY, True)) and arch.uses(Feature.CP_ASYNC),
        swizzle=not config(PassConfigKey.TL_DISABLE_SHARED_SWIZZLE, False),
        wgmma=arch.uses(Feature.WGMMA) and not config(PassConfigKey.TL_DISABLE_WGMMA, False),
        tma=arch.uses(Feature.TMA) and not config(PassConfigKey.TL_DISABLE_TMA_LOWER, False),
        barriers=not config(PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC, False),
        shared_alignment=arch.tile_alignment,
    )


def _split(func: Any, context: CudaContext) -> Kernels:
    check_strides(func)
    target = context.request.target
    kernels = (as_fragments(separate_iterations(unroll_choices(start_copies(kernel)))) for kernel in split_kernels(func))
    return Kernels([new_state(kernel, target, context.options) for kernel in kernels])


def _specialize(kernels: Kernels, context: CudaContext) -> Kernels:
    if not context.options.tma or context.request.config(PassConfigKey.TL_DISABLE_WARP_SPECIALIZED, False):
        return kernels
    states = []
    for state in kernels.states:
        kernel = specialize(state.kernel, state.facts, context.options.wgmma)
        states.append(state if kernel is state.kernel else new_state(kernel, state.target, state.options))
    return Kernels(states)


def _read(kernels: Kernels, context: CudaContext) -> Kernels:
    for state in kernels.states:
        state.tree = read_tree(state.kernel.body, state.kernel.thread_count, state.target)
        branch_early_exits(state.tree, dict(state.kernel.threads))
        split_threads(state.tree.root, state.kernel)
    return kernels


def _infer(kernels: Kernels, context: CudaContext) -> Kernels:
    for state in kernels.states:
        codegen.infer_layouts(state)
    return kernels


def _generate(kernels: Kernels, context: CudaContext) -> Kernels:
    for state in kernels.states:
        state.emitter.output.tensor_maps = TensorMaps() if arch_of(state.target).uses(Feature.TMA) else None
        state.generator = Generator(state.emitter)
        state.code = state.generator.block(state.tree.root)
    return kernels


def _plan(kernels: Kernels, context: CudaContext) -> Kernels:
    for state in kernels.states:
        codegen.plan_memory(state)
    return kernels


def _synchronise(kernels: Kernels, context: CudaContext) -> Kernels:
    for state in kernels.states:
        codegen.place_barriers(state)
    return kernels


def _write(kernels: Kernels, context: CudaContext) -> Kernels:
    for state in kernels.states:
        codegen.write_text(state)
    return kernels


PIPELINE = (
    Step(
        "check_bounds", check_bounds, "a static index out of range is the user's error; report it with its line", verify.program
    ),
    Step(
        "roll",
        roll,
        "a program of a thousand statements repeats few; every later step and the compiler see those once",
        verify.program,
    ),
    Step("split_kernels", _split, "a program is a sequence of launches; every later step sees one kernel", verify.statements),
    Step(
        "warp_specialize",
        _specialize,
        "on sm_90a pipelined loops become producer and consumer roles before layouts exist",
        verify.statements,
    ),
    Step(
        "read_tree", _read, "plain records are cheaper to walk than the IR; operators on shared memory get fragments", verify.tree
    ),
    Step("infer_layouts", _infer, "where each tile lives decides the loops, so it comes before any code", verify.inferred),
    Step("generate", _generate, "each node becomes device code once, which says itself what memory it touches", verify.code),
    Step("plan_shared", _plan, "liveness needs the order of the final code, scratch of reductions included", verify.planned),
    Step("place_barriers", _synchronise, "buffers that share bytes conflict, so offsets must be known", verify.code),
    Step("write_text", _write, "declarations and parameters are those that the code mentions", verify.written),
)
"""Every step of the CUDA target."""
