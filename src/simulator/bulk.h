// The decoded bulk copy, shared by its decoder (exec_bulk.cc) and its two executors: linear copies
// (bulk_linear.cc) and tensor copies (bulk_tensor.cc).
#ifndef TILELANG_SIMULATOR_BULK_H_
#define TILELANG_SIMULATOR_BULK_H_

#include <memory>
#include <vector>

#include "operands.h"
#include "reduction.h"
#include "tensor_map.h"

namespace tilelang {
namespace simulator {

enum class BulkPlace : uint8_t { kNone, kGlobal, kSharedCta, kSharedCluster };

struct BulkInstruction {
  BulkPlace to = BulkPlace::kNone, from = BulkPlace::kNone;
  bool mbarrier = false;    // completion: .mbarrier::complete_tx::bytes, else .bulk_group
  bool multicast = false;
  bool has_policy = false;
  bool byte_mask = false;   // .cp_mask
  Reduction reduction = Reduction::kNone;
  Format format = Format::kU32;  // of a reduction of a linear copy
  bool im2col = false;
  int rank = 0;             // of the tensor; 0 for a linear copy

  Address target, source, barrier;  // the side in global memory is the tensor map for tensor copies
  uint32_t size = 0;                // slot
  uint32_t mask = 0;                // slot of the 16-bit block or byte mask
  uint32_t coordinates[kMaxTensorRank] = {};
  uint32_t offsets[kMaxTensorRank] = {};  // im2col
};

inline const BulkInstruction& bulk_of(const Instruction& instruction) {
  return *static_cast<const BulkInstruction*>(instruction.extra);
}

/// A place in shared memory that a load writes, and the barrier that counts its bytes.
struct BulkTarget {
  uint8_t* data = nullptr;  // null when refused
  uint32_t address = 0;
  uint32_t barrier = 0;
  Agent agent;
};

/// The targets of a load: one, or one for each block of the multicast mask. Their `data` is still null.
std::vector<BulkTarget> bulk_targets(Warp& warp, const Instruction& instruction, int lane);

/// Checks and poisons a range of a target; null after a finding.
uint8_t* claim_target(Warp& warp, const Instruction& instruction, int lane, const BulkTarget& target, uint32_t offset,
                      uint32_t bytes, uint32_t alignment);

/// The shared address of an operand, written as .shared::cta or .shared::cluster.
inline uint32_t bulk_shared_address(Warp& warp, const Address& address, int lane) {
  return static_cast<uint32_t>(lane_address(warp, address, lane));
}

Step execute_linear_copy(Warp& warp, const Instruction& instruction, LaneMask exec);
Step execute_linear_prefetch(Warp& warp, const Instruction& instruction, LaneMask exec);
Step execute_tensor_copy(Warp& warp, const Instruction& instruction, LaneMask exec);
Step execute_tensor_prefetch(Warp& warp, const Instruction& instruction, LaneMask exec);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_BULK_H_
