"""The steps from a program to CUDA text, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tilelang.target.cuda.analysis.features import check_features
from tilelang.target.cuda.arch import Feature, arch_of
from tilelang.target.cuda.codegen import verify
from tilelang.target.cuda.codegen.emitter import KernelOptions
from tilelang.target.cuda.codegen.kernel import generate, place_barriers, plan_memory
from tilelang.target.cuda.codegen.stages import (
    CudaContext,
    KernelLayouts,
    KernelStatements,
    KernelTree,
    Program,
    check_each,
    of_each,
)
from tilelang.target.cuda.codegen.write_text import write_text
from tilelang.target.cuda.inference.infer import infer
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.normalise.loops import unroll_choices, widen_parallel
from tilelang.target.cuda.normalise.shared_results import separate_iterations, share_fragments
from tilelang.target.cuda.normalise.thread_groups import kernel_tree
from tilelang.target.cuda.specialize.warp_specialize import specialize
from tilelang.target.cuda.tile.program import split_kernels
from tilelang.target.request import CompileRequest
from tilelang.transform.accumulations import accumulate_in_order
from tilelang.transform.bounds import check_bounds
from tilelang.transform.config import PassConfigKey
from tilelang.transform.decide import decide_conditions
from tilelang.transform.pipeline import Step
from tilelang.transform.roll import roll


def options_of(request: CompileRequest) -> KernelOptions:
    """What the request's pass configurations decide."""
    config = request.config
    arch = arch_of(request.target)
    swizzle = not config(PassConfigKey.TL_DISABLE_SHARED_SWIZZLE, False)
    return KernelOptions(
        guarded=not config(PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS, False),
        fast_math=bool(config(PassConfigKey.TL_ENABLE_FAST_MATH, False)),
        use_async=bool(config(PassConfigKey.TL_ENABLE_ASYNC_COPY, True)) and arch.uses(Feature.CP_ASYNC),
        swizzle=swizzle,
        # its operands lie in swizzled panels
        wgmma=swizzle and arch.uses(Feature.WGMMA) and not config(PassConfigKey.TL_DISABLE_WGMMA, False),
        tma=arch.uses(Feature.TMA) and not config(PassConfigKey.TL_DISABLE_TMA_LOWER, False),
        barriers=not config(PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC, False),
    )


def _split(func: Any, context: CudaContext) -> Program:
    kernels = split_kernels(func)
    return Program(tuple(KernelStatements(replace(kernel, gathers=context.options.gathers)) for kernel in kernels))


_OF_STATEMENTS = (widen_parallel, accumulate_in_order, unroll_choices)
_OF_KERNELS = (separate_iterations, share_fragments)
"""What programs may say and later steps do not know becomes what they do, in this order; most kernels have none of it."""


def _normalise(stage: KernelStatements, context: CudaContext) -> KernelStatements:
    kernel, body = stage.kernel, stage.kernel.body
    for rewrite in _OF_STATEMENTS:
        body = rewrite(body)
    kernel = replace(kernel, body=body)
    for rewrite in _OF_KERNELS:
        kernel = rewrite(kernel, context.target)
    return KernelStatements(kernel)


def _specialize(stage: KernelStatements, context: CudaContext) -> KernelStatements:
    if not context.options.tma or context.request.config(PassConfigKey.TL_DISABLE_WARP_SPECIALIZED, False):
        return stage
    return KernelStatements(specialize(stage.kernel, stage.facts(), context.options.wgmma))


def _read(stage: KernelStatements, context: CudaContext) -> KernelTree:
    return stage.then(KernelTree, tree=kernel_tree(stage.kernel, context.target))


def _infer(stage: KernelTree, context: CudaContext) -> KernelLayouts:
    options = context.options
    problem = Problem(stage.tree, stage.kernel, context.target, stage.facts(), options.swizzle, options.wgmma)
    tree, layouts = infer(problem, partial(kernel_tree, stage.kernel, context.target))
    return stage.then(KernelLayouts, tree=tree, layouts=layouts, uniformity=problem.with_tree(tree).uniformity)


def _step(name: str, run: Callable[[Any, CudaContext], Any], reason: str, check: Callable[[Any], None]) -> Step:
    """A step of each kernel, and what must hold of each afterwards."""
    return Step(name, of_each(run), reason, check_each(check))


PIPELINE = (
    Step(
        "check_bounds", check_bounds, "a static index out of range is the user's error; report it with its line", verify.program
    ),
    Step(
        "check_features",
        check_features,
        "what the architecture does not have is the user's error, too; nothing after this asks again",
        verify.program,
    ),
    Step(
        "decide_conditions",
        decide_conditions,
        "a guard that always holds costs vectors and branches, and the device compiler does not know the number of blocks",
        verify.program,
    ),
    Step(
        "roll",
        roll,
        "a program of a thousand statements repeats few; every later step and the compiler see those once",
        verify.program,
    ),
    Step(
        "split_kernels",
        _split,
        "a program is a sequence of launches; every later step sees one kernel",
        check_each(verify.statements),
    ),
    _step("normalise", _normalise, "fragments are used as layouts can have them, before anything is decided", verify.statements),
    _step(
        "warp_specialize",
        _specialize,
        "on sm_90a pipelined loops become producer and consumer roles before layouts exist",
        verify.statements,
    ),
    _step(
        "read_tree", _read, "plain records are cheaper to walk than the IR; operators on shared memory get fragments", verify.tree
    ),
    _step("infer_layouts", _infer, "where each tile lives decides the loops, so it comes before any code", verify.inferred),
    _step("generate", generate, "each node becomes device code once, which says itself what memory it touches", verify.code),
    _step(
        "plan_shared", plan_memory, "liveness needs the order of the final code, scratch of reductions included", verify.planned
    ),
    _step("place_barriers", place_barriers, "buffers that share bytes conflict, so offsets must be known", verify.code),
    _step("write_text", write_text, "declarations and parameters are those that the code mentions", verify.written),
)
"""Every step of the CUDA target."""
