// The state of a running grid: launch, cluster, block, warp, fragment; and the services instruction handlers use.
#ifndef TILELANG_SIMULATOR_MACHINE_H_
#define TILELANG_SIMULATOR_MACHINE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "async.h"
#include "counters.h"
#include "findings.h"
#include "mbarrier.h"
#include "program.h"
#include "trace.h"
#include "random.h"
#include "types.h"
#include "undefined.h"

namespace tilelang {
namespace simulator {

struct Launch;
struct Cluster;
struct Block;
class RaceChecker;
class AllocationMap;
class Prefetcher;

/// Switchable checkers. Out-of-bounds, misaligned and deadlock findings are always on.
enum Check : uint32_t {
  kCheckInit = 1,  // uninitialised shared and local reads
  kCheckRace = 2,
  kCheckBarrier = 4,     // divergence
  kCheckDescriptor = 8,  // matrix descriptors, swizzle and alignment rules
  kCheckAsync = 16,      // missing fence, commit, wait
  // Not checks, but set like them.
  kRecordTrace = 256,  // of the cluster in the middle of the grid
  kOnlyTraced = 512,   // no other cluster runs: results are incomplete
};

/// What a fragment waits for.
enum class WaitKind : uint8_t {
  kRunning,
  kConverge,        // lanes of its own warp
  kBarrier,         // bar/barrier; key = barrier number
  kClusterBarrier,  // barrier.cluster.wait
  kMBarrier,        // failed try_wait; key = shared address, detail = parity
  kWarpgroup,       // wgmma.wait_group; key = first warp of the group
  kSleep,           // nanosleep, griddepcontrol, a yielded spin loop
};

/// A call frame; fragments of the same call share it.
struct Frame {
  std::shared_ptr<Frame> caller;
  uint32_t return_pc = 0;
  uint32_t function = 0;
  uint32_t base = 0;                    // byte offset in Warp::registers
  uint32_t local_base = 0;              // first byte of its .local variables in the thread's stack
  std::vector<ParamArea> result_areas;  // in the caller's frame
};

/// Lanes that run together. A warp starts with one; branches split it, meeting again merges them.
struct Fragment {
  LaneMask mask = 0;
  uint32_t pc = 0;
  std::shared_ptr<Frame> frame;
  WaitKind wait = WaitKind::kRunning;
  bool resumed = false;
  uint64_t key = 0;
  uint32_t detail = 0;
  uint32_t fuel = 0;  // backward jumps until another fragment has its turn
};

/// A strong read (or an atomic operation that changed nothing) of a warp, by its first lane.
struct Poll {
  uint32_t pc = ~0u;
  uint64_t address = 0;
  uint64_t value = 0;
  bool operator==(const Poll& other) const {
    return pc == other.pc && address == other.address && value == other.value;
  }
};

struct alignas(64) Warp {
  // The running fragment (copied in and out by the interpreter).
  uint8_t* frame = nullptr;  // register frame
  LaneMask mask = 0;
  uint32_t pc = 0;
  bool resumed = false;  // the handler is run again after kBlock

  Block* block = nullptr;
  uint32_t index = 0;     // in the block
  LaneMask live = 0;      // lanes that have not exited
  LaneMask existing = 0;  // lanes that exist (partial last warp)
  std::vector<Fragment> fragments;
  uint32_t current = 0;
  std::vector<uint8_t> register_storage;
  uint8_t* registers = nullptr;
  std::shared_ptr<Frame> first_frame;  // of the kernel itself
  std::vector<std::vector<uint8_t>> local;              // per lane
  std::vector<std::vector<uint8_t>> local_initialised;  // per lane, when checked
  UndefinedRegisters undefined;                         // by loads of local memory, when checked
  GroupQueue copy_groups;                               // cp.async
  GroupQueue bulk_groups;                               // cp.async.bulk with .bulk_group completion
  GroupQueue wgmma_groups;                              // wgmma.mma_async
  void* wgmma_state = nullptr;                          // free for exec_matrix.cc; lives as long as wgmma_owner
  std::shared_ptr<void> wgmma_owner;
  Counters* counters = nullptr;      // of the worker that runs this block
  Prefetcher* prefetcher = nullptr;  // likewise
  uint32_t checks = 0;           // Launch::checks
  bool counting = false;         // Launch::count
  uint64_t instructions = 0;
  LaneMask carry = 0;                   // the condition-code register: add.cc, subc, ...
  uint32_t cluster_phase[kLanes] = {};  // generation of barrier.cluster each lane has arrived at
  bool same_value = false;              // the store being checked writes what is there already
  Poll last_poll;                       // the last strong read
  uint32_t allocation_hint = 0;         // allocation of the last global access
  Trace* trace = nullptr;               // where executed instructions are recorded; null: nowhere
  uint32_t traced_barrier = 0;          // what the running instruction has to do with an mbarrier ...
  uint32_t traced_phase = 0;            // ... and with which of its phases

  /// Lanes of an operand. T is the register's own width: uint16_t, uint32_t, uint64_t, float, double, ...
  template <class T>
  T* reg(uint32_t offset) {
    return reinterpret_cast<T*>(frame + offset);
  }
  LaneMask& predicate(uint32_t offset) { return *reinterpret_cast<LaneMask*>(frame + offset); }

  Cluster& cluster();
  Launch& launch();
  Random& random();
  /// Linear thread number in the block.
  uint32_t thread(int lane) const { return index * kLanes + static_cast<uint32_t>(lane); }
  /// Use with `return warp.block_on(...)`.
  Step block_on(WaitKind kind, uint64_t key, uint32_t detail = 0);
  /// The warp gives way; it goes on with the next instruction after others had a turn. For a failed try_wait:
  /// kind kMBarrier, key = shared address, detail = parity; woken early when that barrier completes a phase.
  Step retry_later(WaitKind kind, uint64_t key, uint32_t detail = 0);
  /// Use with `return warp.polled(...)` after a strong read. A read that gives what the same instruction read there the
  /// last time is a turn of a spin loop: the warp gives way, so that waiting for another block costs no instructions.
  Step polled(const Poll& poll);
  /// Records a finding. Findings never stop the kernel by themselves.
  void report(FindingKind kind, const Instruction& instruction, int lane, const std::string& message) const;
  bool checking(Check check) const { return (checks & check) != 0; }
};

struct BarrierState {
  uint32_t expected = 0;     // threads
  bool whole_block = false;  // without a thread count
  uint32_t arrived = 0;
  uint32_t generation = 0;
  uint32_t pc = 0;                                      // of the first arrival
  uint32_t count_and = 1, count_or = 0, count_sum = 0;  // bar.red, being gathered
  uint32_t red_and = 0, red_or = 0, red_sum = 0;        // of the last completed generation
  std::vector<uint32_t> waiting_threads;                // that arrived with .sync or .red
  VectorClock released;                                 // by those that only arrived (race checker)
};

struct Block {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;  // in the cluster
  std::array<uint32_t, 3> index{};
  std::vector<std::unique_ptr<Warp>> warps;
  uint32_t live_threads = 0;
  uint32_t shared_bytes = 0;  // from kSharedBase
  std::unique_ptr<uint8_t[]> shared_storage;
  uint8_t* shared = nullptr;                // byte at offset kSharedBase (1024-aligned)
  std::vector<uint8_t> shared_initialised;  // the bits of each byte that have been written, when checked
  BarrierState barriers[16];
};

/// Blocks that run together on one worker.
struct Cluster {
  Launch* launch = nullptr;
  uint64_t index = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  PendingQueue pending;
  Random random;
  std::unique_ptr<RaceChecker> race;  // null when not checked
  uint64_t progress = 0;              // events that may let a waiting warp go on
  // barrier.cluster
  uint32_t barrier_arrived = 0;
  uint32_t barrier_generation = 0;
  VectorClock barrier_pending, barrier_completed;
  uint32_t live_threads = 0;
  uint64_t instructions = 0;              // of all warps
  uint64_t progress_seen = 0;             // Cluster::progress when the scheduler last looked ...
  uint64_t instructions_at_progress = 0;  // ... and the instructions executed then
  // mbarrier objects that live in this cluster's shared memory, by shared address (rank included)
  std::unordered_map<uint32_t, MBarrierShadow> mbarriers;
  Cluster();
  ~Cluster();
};

/// Bytes on a 128-byte boundary (tensor maps among the parameters need 64).
class AlignedBytes {
 public:
  void assign(const uint8_t* bytes, size_t size) {
    storage_.assign(size + 128, 0);
    size_ = size;
    if (size) std::memcpy(data(), bytes, size);
  }
  uint8_t* data() { return storage_.data() + (128 - reinterpret_cast<uint64_t>(storage_.data()) % 128) % 128; }
  const uint8_t* data() const { return const_cast<AlignedBytes*>(this)->data(); }
  size_t size() const { return size_; }

 private:
  std::vector<uint8_t> storage_;
  size_t size_ = 0;
};

/// Everything that is the same for all blocks.
struct Launch {
  const Program* program = nullptr;
  const DecodedFunction* kernel = nullptr;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t dynamic_shared = 0;
  uint32_t shared_bytes = 0;  // static and dynamic
  uint32_t dynamic_base = 0;  // offset of the dynamic shared memory
  AlignedBytes parameters;
  const AllocationMap* allocations = nullptr;
  uint32_t checks = 0;
  bool count = true;
  uint64_t seed = 0;
  uint64_t max_instructions = 0;  // of one cluster; 0: no limit
  FindingLog findings;
  std::atomic<bool> abort{false};
  /// Counts turns in which some block got on. While it stands still, every block waits for another.
  std::atomic<uint64_t> heartbeat{0};
  std::mutex print_mutex;
  std::string printed;
  Trace trace;
  std::mutex atomic_mutex;  // global atomics wider than the host's
  /// Host address of an address in the parameter window; other addresses as they are.
  uint64_t resolve_parameter(uint64_t address) const {
    bool inside = address >= kParamWindow && address - kParamWindow < parameters.size();
    return inside ? reinterpret_cast<uint64_t>(parameters.data()) + (address - kParamWindow) : address;
  }
  uint32_t threads_per_block() const { return block[0] * block[1] * block[2]; }
  /// The cluster whose instructions are recorded when that is asked for.
  uint64_t traced_cluster() const {
    return uint64_t{grid[0]} * grid[1] * grid[2] / blocks_per_cluster() / 2;
  }
  uint32_t blocks_per_cluster() const { return cluster[0] * cluster[1] * cluster[2]; }
};

// ---------------------------------------------------------------------------------------------------------------
// Memory. All functions return a host pointer, or nullptr after recording a finding: then skip the access (reads
// give poison, writes are dropped).

/// One access by the thread in `lane`: bounds, alignment to `bytes`, initialised bits and races are checked.
/// `space` may be kGeneric; a shared address may name another block of the cluster.
uint8_t* access(Warp& warp, const Instruction& instruction, int lane, Space space, uint64_t address, uint32_t bytes,
                AccessKind kind);

/// The same for another access width than alignment (a row of ldmatrix: 16 bytes; a bulk copy: any).
uint8_t* access_aligned(Warp& warp, const Instruction& instruction, int lane, Space space, uint64_t address,
                        uint32_t bytes, uint32_t alignment, AccessKind kind);

/// One access made by an asynchronous operation that `lane` issued; `agent` comes from async_agent. Call it when
/// the operation is issued (that is when its range must be free of races), and move the data when it lands.
/// Writes mark the range uninitialised until mark_initialised; with `poison` they also fill it with kPoison.
uint8_t* access_async(Warp& warp, const Instruction& instruction, int lane, Agent agent, Space space, uint64_t address,
                      uint32_t bytes, uint32_t alignment, AccessKind kind, bool poison = true);

/// Marks bits of shared memory as initialised: those of `bits`, one byte for each byte (p as mark_initialised).
void define_bits(Cluster& cluster, const uint8_t* p, const uint8_t* bits, uint32_t bytes);

/// Marks shared memory as initialised (p as returned by access_async; other memory is ignored).
void mark_initialised(Cluster& cluster, const uint8_t* p, uint32_t bytes);

/// Splits a generic address: the space it lies in and the address in that space.
Space classify(uint64_t generic, uint64_t* address);

/// The shared address (rank included) of offset 0 of the warp's own block.
uint32_t own_shared_window(const Warp& warp);

// ---------------------------------------------------------------------------------------------------------------
// Happens-before (no-ops when races are not checked).

enum class AsyncDomain : uint8_t { kCopyGroup, kBulkGroup, kWgmma, kMBarrier, kRemoteStore };

/// A fresh agent for an operation `lane` issues now. `key`: the shared address of the mbarrier that will report its completion
/// to threads, for the last two domains, else 0. The operation is ordered after everything the thread has done so far.
Agent async_agent(Warp& warp, int lane, AsyncDomain domain, uint32_t key = 0);

/// The thread in `lane` has waited for that operation: what it did happens before what the thread does next.
void async_done(Warp& warp, int lane, Agent agent);

/// fence / membar by these lanes. `proxy_async`: fence.proxy.async (also needed between generic writes and the
/// async proxy that reads them; the checker asks for it when kCheckAsync is on).
void fence(Warp& warp, LaneMask lanes, bool proxy_async);

/// wgmma.fence, barriers and similar: orders the lanes of the warp with each other.
void warp_sync(Warp& warp, LaneMask lanes);

// ---------------------------------------------------------------------------------------------------------------
// mbarrier objects: 8 opaque bytes in shared memory plus checker state. `address` is a 32-bit shared address (rank
// included) or a generic one already classified. All report misuse (not initialised, misaligned, overwritten,
// counts out of range, remote where local is required) and then return a harmless value.

void mbarrier_init(Warp& warp, const Instruction& instruction, int lane, uint32_t address, uint32_t count);

/// Reports a thread that uses the object although nothing orders it after its initialisation.
void check_mbarrier_known(Warp& warp, const Instruction& instruction, int lane, uint32_t address, const MBarrierShadow& shadow);
void mbarrier_invalidate(Warp& warp, const Instruction& instruction, int lane, uint32_t address);
/// Arrives `count` times and returns the state word before the arrival. `expect_tx` is added to the tx-count first.
/// `drop`: also lowers the expected count of later phases. `release`: orders the thread's accesses (.release).
uint64_t mbarrier_arrive(Warp& warp, const Instruction& instruction, int lane, uint32_t address, uint32_t count,
                         int64_t expect_tx = 0, bool drop = false, bool release = true);
void mbarrier_expect_tx(Warp& warp, const Instruction& instruction, int lane, uint32_t address, int64_t bytes);
/// Completion of `bytes` by an asynchronous operation (also the explicit mbarrier.complete_tx).
void mbarrier_complete_tx(Cluster& cluster, uint32_t address, int64_t bytes, Agent agent);
/// Arrival triggered by an asynchronous operation of `agent` (cp.async.mbarrier.arrive). `increment`: without
/// .noinc, the pending count was raised by mbarrier_increment when the operation was issued.
void mbarrier_arrive_async(Cluster& cluster, uint32_t address, Agent agent);
void mbarrier_increment(Warp& warp, const Instruction& instruction, int lane, uint32_t address);
/// True when the phase with that parity (0 or 1) has completed; then (with `acquire`) the threads in these lanes, which all ask,
/// see what was released to them.
bool mbarrier_test(Warp& warp, const Instruction& instruction, LaneMask lanes, uint32_t address, uint32_t parity,
                   bool acquire);
/// mbarrier.pending_count of a state word.
uint32_t mbarrier_pending_count(uint64_t state);

// ---------------------------------------------------------------------------------------------------------------
// Counters (no-ops when counting is off).

/// Shared access of `bytes` per lane at these shared addresses: wavefronts and bank conflicts. ldmatrix: call it once
/// per 8x8 matrix with the 8 row addresses (bytes = 16).
void count_shared(Warp& warp, const Instruction& instruction, const uint32_t* addresses, LaneMask lanes, uint32_t bytes,
                  bool write);
/// Global access: sectors per request and bytes.
void count_global(Warp& warp, const Instruction& instruction, const uint64_t* addresses, LaneMask lanes, uint32_t bytes,
                  bool write);
/// Bytes moved by an asynchronous copy between global and shared memory.
void count_bulk(Warp& warp, const Instruction& instruction, uint64_t bytes, bool to_shared);
/// Multiply-adds of a tensor-core instruction (the whole warp's share).
void count_tensor(Warp& warp, const Instruction& instruction, uint64_t multiply_adds);

/// Calls `f(lane)` for every set bit.
template <class F>
inline void for_lanes(LaneMask lanes, F&& f) {
  while (lanes) {
    int lane = __builtin_ctz(lanes);
    lanes &= lanes - 1;
    f(lane);
  }
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_MACHINE_H_
