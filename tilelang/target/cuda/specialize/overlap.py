"""Which products of a fed loop stay in flight or start one iteration early, so that the tensor cores work while the threads do.

An iteration of flash attention, in the program's order and as the consumers run it:

    S(i) = Q K(i)                        (S(0) is computed before the loop)
    softmax of S(i) into P               softmax of S(i) into P; in its course, wait for O += P V(i - 1)
    O += P V(i)                          start S(i + 1) = Q K(i + 1), start O += P V(i)
                                         wait for S(i + 1)

The only change of order is that the *head* of the next iteration runs before the *tail* of this one. It is legal where neither
writes what the other touches; tiles that a producer loads have a version for each iteration and do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment
from tilelang.ir.visit import is_parallel
from tilelang.records import Record
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.specialize.ring import Ring, Statement

_OTHER_REGISTERS = 48
"""What addresses, counters and temporaries of a consumer need beside its tiles; more than that and tiles would spill."""


class Overlap(Record):
    """Parts of a loop's body, as positions in it (the copies of the producer are in none).

    Attributes:
        head: statements that run one iteration early; its products are the last of them.
        middle: what stays between.
        tail: products that stay in flight into the next iteration.
        has_spare_registers: whether they suffice for a head that is computed while the middle's results wait for the tail.
    """

    head: tuple[int, ...]
    middle: tuple[int, ...]
    tail: tuple[int, ...]
    has_spare_registers: bool


def find_overlap(ring: Ring, threads: int, registers: int) -> Overlap | None:
    """The parts of a ring's body, by the consumers' threads and the registers of each; None where nothing can, or need, start
    early."""
    stmts = ring.consumed
    products = ring.products(stmts)
    # Head and tail are in flight at once, so that the tiles of both are in registers at the same time.
    spare = registers - _OTHER_REGISTERS - _registers(_touched(ring.body), threads)
    if len(products) < 2 or spare < 0:
        return None
    tail_start = _tail_start(stmts, products)
    tail = tuple(at for at in stmts if at >= tail_start)
    # The longest head first: the more is started early, the more the tensor cores have to do while the threads compute.
    for last in reversed([at for at in products if at < tail_start]):
        head = tuple(at for at in stmts if at <= last)
        middle = tuple(at for at in stmts if last < at < tail_start)
        if middle and _is_legal(ring, head, middle, tail, threads):
            # About half of what loops of the head compute (masked scores) is live beside the tiles where the tail is waited for:
            # an estimate, by what ptxas was seen to fit. A causal mask with a head dimension of 128 takes two registers too many.
            computed = _written(ring.body[at] for at in head if isinstance(ring.body[at].stmt, ir.For))
            return Overlap(head, middle, tail, _registers(computed, threads) // 2 < max(spare, 1))
    return None


def deferred_products(ring: Ring, threads: int) -> list[int]:
    """Positions of products that may stay in flight: all feeds end in one, and only products touch the accumulators."""
    found = ring.products(range(len(ring.body)))
    products = {at: ring.body[at] for at in found if ring.body[at].asynchronous.accumulates}
    if not products or not all(feed.last_use in products for feed in ring.feeds):
        return []
    fed, accumulators = ring.versions.keys(), set()
    for stmt in products.values():
        operands, results = stmt.operands
        # Only the slots of a ring are kept until a product in flight has read them.
        if not operands <= fed or not stmt.asynchronous.may_stay_in_flight(threads):
            return []
        accumulators |= results
    others = (stmt for at, stmt in enumerate(ring.body) if at not in products)
    # Registers of a product in flight may be touched by nothing but the next product.
    return [] if any(accumulators & stmt.buffers for stmt in others) else list(products)


def _tail_start(stmts: Sequence[int], products: Sequence[int]) -> int:
    """Where the run of products that ends the body begins."""
    start = len(stmts)
    while start > 0 and stmts[start - 1] in products:
        start -= 1
    return stmts[start] if start < len(stmts) else stmts[-1] + 1


def _is_legal(ring: Ring, head: Sequence[int], middle: Sequence[int], tail: Sequence[int], threads: int) -> bool:
    if not tail or not all(_may_start_early(ring.body[at]) for at in head):
        return False
    early, late = [ring.body[at] for at in head], [ring.body[at] for at in tail]
    if not all(_may_be_in_flight(part, ring, threads) for part in (early, late)) or ring.products(middle):
        return False
    versioned = ring.versions.keys()
    written_early, written_late = _written(early), _written(late)
    # The head runs an iteration early, where what it wrote to memory would be seen by statements of the iteration before.
    if any(not is_fragment(buffer) for buffer in written_early):
        return False
    # A name that the head binds is bound again for the middle, which comes after the head and elsewhere in the ring.
    bound = (stmt for stmt in early if isinstance(stmt.stmt, ir.Bind))
    if not _written(ring.body).isdisjoint(_touched(bound)):
        return False
    # Head and tail are in flight at once and in no order. Tiles of the ring have a slot for each of the two iterations.
    if (written_early & _touched(late) | written_late & _touched(early)) - versioned:
        return False
    # Something must wait for the head's products, else leaving them in flight over an iteration does as well.
    return bool(written_early & _touched(ring.body[at] for at in middle))


def _may_start_early(each: Statement) -> bool:
    """Whether a statement does nothing but compute a tile in registers."""
    return isinstance(each.stmt, ir.Bind) or is_parallel(each.stmt) or (each.op is not None and rule_of(each.op).local)


def _may_be_in_flight(stmts: Sequence[Statement], ring: Ring, threads: int) -> bool:
    """Whether the products among some statements can be in flight together, up to the last of the statements."""
    written = _written(ring.body) - ring.versions.keys()
    in_flight: set[Any] = set()  # accumulators, and operands in registers
    for stmt in stmts:
        if stmt.asynchronous is None:
            if in_flight & stmt.buffers:
                return False
            continue
        operands, results = stmt.operands
        if not stmt.asynchronous.may_stay_in_flight(threads) or in_flight & operands:
            return False
        if any(buffer in written and not is_fragment(buffer) for buffer in operands):
            return False
        in_flight |= {*results, *(buffer for buffer in operands if is_fragment(buffer))}
    return True


def _registers(buffers: Iterable[Any], threads: int) -> int:
    """Registers of a thread that the fragments among some buffers take."""
    fragments = (buffer for buffer in buffers if is_fragment(buffer))
    bits = sum(canonical(str(buffer.dtype)).stored_bits * math.prod(map(int, buffer.shape)) for buffer in fragments)
    return bits // (32 * threads)


def _written(stmts: Iterable[Statement]) -> set[Any]:
    return {buffer for stmt in stmts for buffer in stmt.written}


def _touched(stmts: Iterable[Statement]) -> set[Any]:
    return {buffer for stmt in stmts for buffer in stmt.buffers}
