"""The proof that layouts fit the statements: planted faults in its input, and in the rules that make it, are errors."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

import tilelang.language as T
from testing.python.target.cuda.support import cuda, source
from tilelang.errors import LayoutProofError
from tilelang.layout import FragmentLayout, on_register, on_thread, replicated
from tilelang.target.cuda.inference import loop_layout, solver
from tilelang.target.cuda.inference.layouts import Layouts
from tilelang.target.cuda.inference.loop_layout import Dimension, LoopLayout
from tilelang.target.cuda.inference.verify import is_bijective, reaches_copies, verify
from tilelang.target.cuda.pipeline import PIPELINE, CudaContext, options_of
from tilelang.target.cuda.tile.tree import Branch, Parallel, walk
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run


def inferred(program):
    """The tree of a program's kernel, and its layouts to be changed."""
    request = CompileRequest(parse_target(cuda()))
    state = run(PIPELINE, program, CudaContext(request, options_of(request)), stop_after="infer_layouts").value.kernels[0]
    found = state.layouts
    return state.tree, Layouts(**{each.name: dict(getattr(found, each.name)) for each in fields(found) if each.name != "own"})


def named(layouts, name):
    return next(buffer for buffer in layouts.fragments if buffer.name == name)


@T.prim_func
def rows(X: T.Tensor((4, 256), "float32"), Y: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((4, 256), "float32")
        y = T.alloc_fragment((4, 256), "float32")
        o = T.alloc_fragment((4,), "float32")
        flat = T.reshape(y, (1024,))
        T.copy(X, x)
        for i, j in T.Parallel(4, 256):
            y[i, j] = x[i, j] * 2
        for i in T.Parallel(1024):
            flat[i] += 1
        T.reduce_sum(y, o, dim=1)
        T.copy(o, Y)


def swapped_threads(layout):
    """The layout with each thread mode of an axis turned around: its digits are elsewhere."""
    first, last = on_thread(2, layout.threads // 2), on_thread(layout.threads // 2, 1)
    count = layout.padded(1) // layout.threads
    return FragmentLayout(layout.shape, ((on_register(4, count),), (first, last, on_register(count, 1))))


FRAGMENT_FAULTS = {
    "other threads": ("x", swapped_threads),
    "a copy too many": ("x", lambda layout: replicated(layout.shape, 128)),
    "one register twice": ("x", lambda layout: FragmentLayout(layout.shape, (layout.modes[1][:1], layout.modes[1]), ())),
    "threads too few": ("o", lambda layout: replicated(layout.shape, 64)),
}


@pytest.mark.parametrize("fault", FRAGMENT_FAULTS)
def test_a_wrong_fragment_is_found(fault):
    tree, layouts = inferred(rows)
    verify(tree, layouts)
    name, change = FRAGMENT_FAULTS[fault]
    buffer = named(layouts, name)
    layouts.fragments[buffer] = change(layouts.fragments[buffer])
    with pytest.raises(LayoutProofError, match="internal error in layout inference: fragment "):
        verify(tree, layouts)


def test_a_view_that_lies_elsewhere_is_found():
    tree, layouts = inferred(rows)
    flat = named(layouts, "flat")
    layouts.fragments[flat] = FragmentLayout((1024,), ((on_register(8, 1), on_thread(128, 1)),))
    with pytest.raises(LayoutProofError, match="fragment flat: a view of it lies elsewhere"):
        verify(tree, layouts)


def turned(loop):
    """Neighbouring threads run iterations that are far apart."""
    dims = (*loop.dims[:-1], replace(loop.dims[-1], modes=loop.dims[-1].modes[::-1]))
    return LoopLayout(dims, loop.replicas)


def shifted(loop):
    return LoopLayout((*loop.dims[:-1], replace(loop.dims[-1], shift=1)), loop.replicas)


@pytest.mark.parametrize("change", [turned, shifted])
def test_a_wrong_loop_is_found(change):
    tree, layouts = inferred(rows)
    node = next(node for node in walk(tree.root) if isinstance(node, Parallel) and node.nest.origin == "T.Parallel")
    layouts.loops[node] = change(layouts.loops[node])
    with pytest.raises(LayoutProofError, match="a thread does not hold an element that it uses") as error:
        verify(tree, layouts)
    assert "for i, j in T.Parallel(4, 256):" in str(error.value)


def test_threads_that_hold_copies_run_the_same_iterations():
    columns = (on_register(8, 1), on_thread(32, 1))
    copied = FragmentLayout((256,), (columns,), (on_thread(4, 32),))
    j = Dimension("j", columns, 256)
    assert reaches_copies(copied, LoopLayout((j,), (on_thread(4, 32),)))
    assert not reaches_copies(copied, LoopLayout((j,)))
    assert not reaches_copies(copied, LoopLayout((Dimension("i", (on_thread(4, 32),), 4), j)))
    assert not reaches_copies(copied, LoopLayout((Dimension(None, (on_thread(4, 32),), 4, equals=3), j)))


def test_an_element_that_all_threads_use_is_in_all():
    @T.prim_func
    def main(Y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_fragment((4,), "float32")
            T.clear(s)
            if s[1] == 0:
                Y[0] = 1

    tree, layouts = inferred(main)
    layouts.fragments[named(layouts, "s")] = FragmentLayout((4,), ((on_thread(4, 1),),), (on_thread(32, 4),))
    branch = next(node for node in walk(tree.root) if isinstance(node, Branch))
    with pytest.raises(LayoutProofError, match="some threads do not hold an element that all of them use"):
        verify(replace(tree, root=branch), layouts)


@T.prim_func
def product(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.gemm(a, a, c, clear_accum=True)


def test_an_accumulator_lies_as_the_instruction_wants_it():
    tree, layouts = inferred(product)
    c = named(layouts, "c")
    rows = (on_thread(2, 64), on_register(32, 64))
    layouts.fragments[c] = FragmentLayout((64, 64), (rows, (on_register(64, 1),)), (on_thread(64, 1),))
    with pytest.raises(LayoutProofError, match="an operator needs it in other places"):
        verify(tree, layouts)


RULE_FAULTS = {
    "copies are forgotten": (solver, "_reaches", lambda *arguments: True),
    "threads are not compared": (loop_layout, "_threads_agree", lambda *arguments: True),
}


@pytest.mark.parametrize("fault", RULE_FAULTS)
def test_a_fault_in_a_rule_of_the_solver_makes_no_code(monkeypatch, fault):
    @T.prim_func
    def main(X: T.Tensor((4, 256), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((4, 256), "float32")
            o = T.alloc_fragment((256,), "float32")
            T.annotate_layout({x: T.Fragment((4, 256), lambda i, j: (i * 32 + j // 8, j % 8))})
            T.copy(X, x)
            for j in T.Parallel(256):
                o[j] = x[3, j] * 2
            T.copy(o, Y)

    source(main)
    monkeypatch.setattr(*RULE_FAULTS[fault])
    with pytest.raises(LayoutProofError):
        source(main)


@pytest.mark.parametrize(
    "layout",
    [
        FragmentLayout((4,), ((on_thread(4, 2),),)),
        FragmentLayout((4, 2), ((on_thread(4, 1),), (on_thread(2, 2),))),
        FragmentLayout((4, 2), ((on_register(4, 1),), (on_register(2, 3),))),
    ],
    ids=["a gap between threads", "threads twice", "registers twice"],
)
def test_layouts_that_number_wrongly(layout):
    assert not is_bijective(layout)


def test_the_table_of_layouts_cannot_be_changed():
    request = CompileRequest(parse_target(cuda()))
    state = run(PIPELINE, rows, CudaContext(request, options_of(request)), stop_after="infer_layouts").value.kernels[0]
    layouts = state.layouts
    with pytest.raises(TypeError):
        layouts.fragments[named(layouts, "x")] = None
