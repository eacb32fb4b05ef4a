"""The CPU pipeline: what happens to a program, in order.

The first steps serve both code generators; then the program goes either through TVM's LLVM or out as C.
"""

from __future__ import annotations

from tilelang.target.cpu import (  # noqa: F401  (each registers its rules)
    atomic,
    copy,
    debug,
    gemm,
    gemm_sparse,
    hints,
    intrinsics,
    reduce,
    scan,
)
from tilelang.target.cpu.accumulate import accumulate
from tilelang.target.cpu.codegen_c import build_c, emit_c
from tilelang.target.cpu.codegen_llvm import generate, lower_host
from tilelang.target.cpu.deepen import deepen
from tilelang.target.cpu.edges import cut_edges
from tilelang.target.cpu.exits import lower_exits
from tilelang.target.cpu.flatten import flatten
from tilelang.target.cpu.forward_copies import forward_copies
from tilelang.target.cpu.host import make_entry
from tilelang.target.cpu.interchange import interchange
from tilelang.target.cpu.jam import jam
from tilelang.target.cpu.legalize import legalize
from tilelang.target.cpu.lower import lower_tiles
from tilelang.target.cpu.machine import lower_machine
from tilelang.target.cpu.outline import each, outline
from tilelang.target.cpu.partial import hold_partial_results
from tilelang.target.cpu.place import place_buffers
from tilelang.target.cpu.random import lower_random
from tilelang.target.cpu.threads import refuse_threads
from tilelang.target.cpu.verify import buffers_are_placed, exits_are_lowered, tiles_are_lowered, types_are_legal
from tilelang.target.cpu.waits import drop_waits
from tilelang.transform.bounds import check_bounds
from tilelang.transform.in_place import note_alias_sensitive
from tilelang.transform.iteration_variables import separate_iterations
from tilelang.transform.pipeline import Step
from tilelang.transform.schedules import check_schedules

COMMON = (
    Step("refuse_threads", refuse_threads, "a CPU block has no threads; say so before anything is rewritten"),
    Step("drop_waits", drop_waits, "statements take effect in program order; barriers and waits have nothing to wait for"),
    Step(
        "note_alias_sensitive", note_alias_sensitive, "the order of reads and writes is plain to see only while tiles are whole"
    ),
    Step("check_bounds", check_bounds, "a static index out of range is the user's error; report it with its line"),
    Step("check_schedules", check_schedules, "statements run in program order here; a schedule that fits no body is an error"),
    Step("separate_iterations", separate_iterations, "a variable or array that iterations store to is each iteration's own"),
    Step("hold_partial_results", hold_partial_results, "sums over the iterations of a T.Parallel are each thread's own"),
    Step("flatten", flatten, "elements that are all treated alike follow each other in memory; tiles break their rows in pieces"),
    Step("jam", jam, "a sum that is stored and loaded again at each of a few steps waits for memory; it can stay in a register"),
    Step("interchange", interchange, "iterations are unordered; neighbours in the innermost loop should be neighbours in memory"),
    Step("cut_edges", cut_edges, "a tile that overhangs its tensor is copied, and multiplied in full; a smaller one is not"),
    Step("forward_copies", forward_copies, "products pack their operands themselves; a copy before them is a pass over memory"),
    Step("deepen", deepen, "depths that suit a GPU's shared memory are shallow here; C stays in registers over more of K"),
    Step("accumulate", accumulate, "zeros, and sums beside their result, are passes over memory that a product can do without"),
    Step("lower_tiles", lower_tiles, "tile operators become loops, kernels parallel loops over blocks", tiles_are_lowered),
    Step("lower_random", lower_random, "each block that draws random numbers gets a generator state"),
    Step("lower_exits", lower_exits, "neither code generator has break and continue", exits_are_lowered),
    Step("outline", outline, "compilers take more than linear time in a function's length; equal parts are compiled once"),
    Step("legalize", each(legalize), "narrow formats, functions and intrinsics become plain arithmetic", types_are_legal),
    Step("place_buffers", place_buffers, "small ones on the stack, large ones in a workspace", buffers_are_placed),
)

LLVM = (
    *COMMON,
    Step("make_entry", make_entry, "the function over plain C arguments"),
    Step("lower_machine", each(lower_machine), "flat buffers, the machine's division and intrinsics; nothing is simplified"),
    Step("lower_host", lower_host, "TVM's passes: closures of parallel loops, the entry that checks arguments"),
    Step("generate", generate, "machine code and the shared library"),
)

C = (
    *COMMON,
    Step("make_entry", make_entry, "the function over plain C arguments"),
    Step("emit_c", emit_c, "one readable C file"),
    Step("build_c", build_c, "the system compiler, and the checked entry point where TVM's convention is wanted"),
)
