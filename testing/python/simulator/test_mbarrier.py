"""mbarrier objects: phases, counts, transactions, and the reports of their misuse."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels

HEAD = """
extern "C" __global__ void k(u32* out, int n) {
  __shared__ alignas(8) u64 barrier, other;
  __shared__ u32 values[128];
  int t = threadIdx.x;
"""


def run(body, out, threads=64, n=0, **options):
    return cuda.run(HEAD + body + "}", [out], threads, scalars=[n], **options)


def test_phases_alternate():
    out = np.zeros(64, np.uint32)
    body = """
  if (t == 0) barrier_init(&barrier, 64);
  __syncthreads();
  u32 sum = 0;
  for (int round = 0; round < 5; ++round) {
    values[t] = t + round;
    barrier_arrive(&barrier);
    barrier_wait(&barrier, 0);
    sum += values[63 - t];
    barrier_arrive(&barrier);
    barrier_wait(&barrier, 1);
  }
  out[t] = sum;
"""
    for seed in range(3):
        kernels.clean(run(body, out, seed=seed))
        assert np.array_equal(out, 5 * (63 - np.arange(64)) + 10)


def test_state_tokens_counts_and_pending_count():
    out = np.zeros(4, np.uint32)
    body = """
  if (t == 0) {
    barrier_init(&barrier, 5);
    u64 s; u32 p, q, r, left;
    asm volatile("{.reg .pred w;\\nmbarrier.arrive.shared::cta.b64 %0, [%4], 2;\\n"
      "mbarrier.pending_count.b64 %3, %0;\\n"
      "mbarrier.test_wait.shared::cta.b64 w, [%4], %0;\\nselp.u32 %1, 1, 0, w;\\n"
      "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 _, [%4], 2;\\n"
      "mbarrier.arrive.release.cta.shared::cta.b64 _, [%4];\\n"
      "mbarrier.test_wait.acquire.cta.shared::cta.b64 w, [%4], %0;\\nselp.u32 %2, 1, 0, w;}"
      : "=l"(s), "=r"(p), "=r"(q), "=r"(left) : "r"(shared_address(&barrier)) : "memory");
    asm volatile("{.reg .pred w;\\nmbarrier.test_wait.parity.shared::cta.b64 w, [%1], 1;\\nselp.u32 %0, 1, 0, w;}"
      : "=r"(r) : "r"(shared_address(&barrier)) : "memory");
    out[0] = p; out[1] = q; out[2] = left; out[3] = r;
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(shared_address(&barrier)) : "memory");
  }
"""
    kernels.clean(run(body, out, threads=32))
    # Incomplete after two of five arrivals, complete after five; the state was taken with five pending.
    # The phase in progress is the second one, so parity 1 has not completed.
    assert list(out) == [0, 1, 5, 0]


def test_arrive_drop_lowers_later_phases():
    out = np.zeros(1, np.uint32)
    body = """
  if (t == 0) {
    barrier_init(&barrier, 2);
    u32 addr = shared_address(&barrier), p;
    asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" :: "r"(addr) : "memory");
    barrier_arrive(&barrier);
    barrier_wait(&barrier, 0);
    barrier_arrive(&barrier);
    barrier_wait(&barrier, 1);
    out[0] = 7;
  }
"""
    kernels.clean(run(body, out, threads=32))
    assert out[0] == 7


def test_transactions_complete_a_phase():
    out = np.zeros(2, np.uint32)
    body = """
  if (t == 0) {
    barrier_init(&barrier, 1);
    u32 addr = shared_address(&barrier), p, q;
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 48;" :: "r"(addr) : "memory");
    barrier_expect(&barrier, 16);
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 32;" :: "r"(addr) : "memory");
    asm volatile("{.reg .pred w;\\nmbarrier.test_wait.parity.shared::cta.b64 w, [%1], 0;\\nselp.u32 %0, 1, 0, w;}"
      : "=r"(p) : "r"(addr) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 32;" :: "r"(addr) : "memory");
    asm volatile("{.reg .pred w;\\nmbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 w, [%1], 0, 100;\\nselp.u32 %0, 1, 0, w;}"
      : "=r"(q) : "r"(addr) : "memory");
    out[0] = p; out[1] = q;
  }
"""
    kernels.clean(run(body, out, threads=32))
    assert list(out) == [0, 1]


INIT = "if (t == 0) barrier_init(&barrier, %d);\n__syncthreads();\n"
MISUSE = {
    "not initialised": ("mbarrier", "if (t == 0) barrier_arrive(&barrier);"),
    "count of zero": ("mbarrier", "if (t == 0) barrier_init(&barrier, n);"),
    "too many arrivals": (
        "mbarrier",
        INIT % 32
        + """if (t == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 33;" :: "r"(shared_address(&barrier)) : "memory");""",
    ),
    "overwritten": (
        "mbarrier",
        INIT % 64 + "if (t == 0) barrier = 5;\n__syncthreads();\nbarrier_arrive(&barrier);",
    ),
    "wrong parity": (
        "deadlock",
        INIT % 64 + "barrier_arrive(&barrier);\nbarrier_wait(&barrier, 0);\nbarrier_wait(&barrier, 0 + 1);",
    ),
    "missing arrival": (
        "deadlock",
        INIT % 64 + "if (t < 63) barrier_arrive(&barrier);\nbarrier_wait(&barrier, 0);",
    ),
    "no wait": ("race", INIT % 64 + "values[t] = t;\nbarrier_arrive(&barrier);\nout[t] = values[63 - t];"),
}


@pytest.mark.parametrize("name", list(MISUSE))
def test_misuse_is_reported(name):
    kind, body = MISUSE[name]
    try:
        report = run(body, np.zeros(64, np.uint32))
    except Exception as error:  # a deadlock ends the launch
        assert kind in str(error)
        return
    assert kind in cuda.kinds(report)


UNORDERED = """
extern "C" __global__ void k(int* out) {
  __shared__ u64 barrier;
  __shared__ int values[64];
  int t = threadIdx.x;
  if (t == 0) { barrier_init(&barrier, 64); fence_barrier_init(); }
  SYNC
  values[t] = t;
  barrier_arrive(&barrier);
  barrier_wait(&barrier, 0);
  out[t] = values[63 - t];
}"""


@pytest.mark.parametrize("sync", ["", "__syncwarp();", "__syncthreads();"])
def test_threads_are_ordered_after_the_initialisation(sync):
    """Whether a thread that is not sees the object is a matter of luck; here it does."""
    report = cuda.run(UNORDERED.replace("SYNC", sync), [np.zeros(64, np.int32)], 64)
    assert cuda.kinds(report) == (set() if sync == "__syncthreads();" else {"mbarrier"})
