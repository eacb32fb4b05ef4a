"""st.async and red.async: data and its announcement travel to another block of the cluster."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels

SOURCE = """
extern "C" __global__ void k(int* out) {
  __shared__ u64 barrier;
  __shared__ int tile[64];
  unsigned rank, there, bar; int t = threadIdx.x;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  tile[t] = 1;
  if (t == 0) { barrier_init(&barrier, 1); fence_barrier_init(); barrier_expect(&barrier, 256); }
  cluster_sync();
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(&tile[t])), "r"(1 - rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(shared_address(&barrier)), "r"(1 - rank));
  asm volatile("INSTRUCTION [%0], %1, [%2];" :: "r"(there), "r"((int)(100 * rank + t)), "r"(bar) : "memory");
  WAIT
  out[64 * rank + t] = tile[t];
  cluster_sync();
}"""
STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32"
REDUCE = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"


@pytest.mark.parametrize("instruction,base", [(STORE, 0), (REDUCE, 1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_values_arrive_with_the_barrier(instruction, base, seed):
    source = SOURCE.replace("INSTRUCTION", instruction).replace("WAIT", "barrier_wait(&barrier, 0);")
    out = np.zeros(128, np.int32)
    kernels.clean(cuda.run(source, [out], 64, grid=(2, 1, 1), cluster=(2, 1, 1), seed=seed))
    t = np.arange(64)
    assert np.array_equal(out, np.concatenate([base + 100 + t, base + t]))


def test_missing_wait_is_seen():
    source = SOURCE.replace("INSTRUCTION", STORE).replace("WAIT", "")
    report = cuda.run(source, [np.zeros(128, np.int32)], 64, grid=(2, 1, 1), cluster=(2, 1, 1))
    assert cuda.kinds(report) & {"race", "uninitialised"}
