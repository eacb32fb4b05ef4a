"""The m16n8 products of 16-bit floats by vectors of each width that this machine has, against sums in the order of k."""

import numpy as np
import pytest

from testing.python.simulator.models import fragments
from testing.python.simulator.models.native import call
from testing.python.simulator.models.products import ordered_sum, random_codes, values_of

SEED = 20261122
NAN = 0x7FFFFFFF


def product(bits, name, a_codes, b_codes, c):
    """D's bits [16, 8]; None where the machine has no such vectors."""
    depth = a_codes.shape[1]
    a = fragments.pack(a_codes, lambda lane, i: fragments.a_place(lane, i, 16, 16), 16, depth // 2)
    b = fragments.pack(b_codes, lambda lane, i: fragments.b_place(lane, i, 16), 16, depth // 4)
    accumulators = fragments.pack(c.view(np.uint32), fragments.c_place, 32, 4)
    words = [np.ascontiguousarray(w.T.astype(np.uint32)) for w in (a, b, accumulators)]
    d = np.zeros((4, 32), np.uint32)
    if not call("warp_product", bits, name == "bf16", *words, d):
        return None
    return fragments.unpack(np.ascontiguousarray(d.T), fragments.c_place, 32, 4, (16, 8)).astype(np.uint32)


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_product(name, depth, bits):
    rng = np.random.default_rng(SEED)
    a, b = random_codes(rng, (16, depth), name), random_codes(rng, (depth, 8), name)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    got = product(bits, name, a, b, c)
    if got is None:
        assert bits == 512
        return
    want = ordered_sum(values_of(a, name), values_of(b, name), c)
    np.testing.assert_array_equal(got, want.view(np.uint32))


@pytest.mark.parametrize("bits", [256, 512])
def test_what_is_no_number_is_the_canonical_nan(bits):
    a, b = np.zeros((16, 8), np.uint64), np.zeros((8, 8), np.uint64)
    a[1, 1] = 0x7C00  # infinity
    a[2, 2] = 0x7C01  # NaN
    b[1, 1] = b[2, 2] = 0x3C00
    got = product(bits, "f16", a, b, np.zeros((16, 8), np.float32))
    if got is None:
        assert bits == 512
        return
    assert got[1, 1] == 0x7F800000
    assert got[1, 0] == NAN  # infinity times zero
    assert (got[2] == NAN).all()
    assert (got[3:] == 0).all()
