// A kernel without a purpose that uses many instruction families: the seed of the PTX fuzzer.
__constant__ int table[4] = {1, 2, 3, 4};
__device__ float global_value = 1.5f;
__device__ int* pointer_to_table = table;
__device__ __noinline__ int recursive(int n) { return n <= 1 ? 1 : n * recursive(n - 1) + table[n & 3]; }
extern "C" __device__ int printf(const char*, ...);

extern "C" __global__ void mixed(int* out, const float* in, int n, float f, double d) {
  __shared__ int shared[128];
  __shared__ u64 barrier;
  int local[8];
  int t = threadIdx.x;
  for (int i = 0; i < 8; ++i) local[(i * n) & 7] = i;
  if (t == 0) barrier_init(&barrier, blockDim.x);
  shared[t] = t;
  __syncthreads();
  barrier_arrive(&barrier);
  barrier_wait(&barrier, 0);
  int v = __shfl_xor_sync(~0u, shared[t ^ 1], 3) + __popc(__ballot_sync(~0u, t & 1)) + local[(t * n) & 7];
  if (t % 3 == 0) v += recursive(n & 7); else if (t % 3 == 1) v ^= __funnelshift_l(v, t, 5);
  switch (t & 7) { case 0: v += 1; break; case 1: v *= 3; break; case 2: v -= 7; break; case 3: v ^= 9; break; case 5: v |= 64; break; default: v &= ~2; }
  atomicAdd(out, v);
  atomicMax(&shared[t & 3], v);
  __syncthreads();
  float x = __expf(in[t & 15]) * f + rsqrtf(fabsf(global_value) + 1.0f);
  out[t + 1] = (int)x + (int)(d * x) + shared[t & 3] + __brev(v) + __clz(v);
  if (n == 77) printf("%d %f\n", v, x);
}
