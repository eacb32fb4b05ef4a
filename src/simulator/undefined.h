// Registers that hold what was never written. A compiler may load local memory above the condition under which the value is
// used, and a program may compute rows of a tile that it drops: such a load is no fault, so an undefined value is followed
// through computations, shuffles, shared and local memory to what depends on it.
#ifndef TILELANG_SIMULATOR_UNDEFINED_H_
#define TILELANG_SIMULATOR_UNDEFINED_H_

#include <cstdint>
#include <vector>

#include "program.h"
#include "types.h"

namespace tilelang {
namespace simulator {

/// The registers of a warp that hold undefined values.
class UndefinedRegisters {
 public:
  bool empty() const { return entries_.empty() && stored_.empty(); }
  /// Whether the store that runs writes undefined values to shared or local memory: it then gives its accesses lane by lane.
  bool storing() const { return !stored_.empty(); }
  /// Memory has been written by the store that runs: clears the flags of what is undefined.
  void written(int lane, uint8_t* flags, uint32_t bytes) const;
  /// A load has found bytes that were never written: `written` has one flag byte for each byte that it wants, of `whole`.
  void loaded(Warp& warp, const Instruction& load, int lane, Space space, uint64_t address, const uint8_t* written,
              uint32_t bytes, uint32_t whole);
  /// In these lanes a shuffle's result is undefined: they read from lanes that do not take part.
  void not_given(Warp& warp, const Instruction& shuffle, LaneMask lanes);
  /// Call it before an instruction runs: results of computations become undefined, other uses are findings.
  void before(Warp& warp, const Instruction& instruction, LaneMask exec);

 private:
  /// The load that an undefined value comes from, or the shuffle, which has no bytes.
  struct Origin {
    uint32_t pc = 0;
    Space space = Space::kLocal;
    uint32_t bytes = 0;
    uint64_t address = 0;
  };
  struct Entry {
    uint32_t offset;  // of the register, in all of the warp's
    LaneMask lanes;
    Origin origin;
  };
  const Entry* find(uint32_t offset) const;
  void set(uint32_t offset, LaneMask exec, LaneMask undefined, const Origin& origin);
  void store(Warp& warp, const Instruction& instruction, const RegisterUse& use, LaneMask exec);
  void shuffle(Warp& warp, const Instruction& instruction, const RegisterUse& use, LaneMask exec);
  LaneMask result_lanes(Warp& warp, const RegisterUse& use, LaneMask exec) const;
  LaneMask source_lanes(const Warp& warp, const RegisterUse& use, size_t source) const;
  void report(Warp& warp, const Instruction& instruction, LaneMask lanes, const Origin& origin) const;

  std::vector<Entry> entries_;    // none without lanes
  std::vector<LaneMask> stored_;  // of the store that runs: where each element is undefined; empty if none is
};

/// What a statement does with registers, with their places in the frame.
RegisterUse register_use(const Statement& statement, const std::vector<uint32_t>& slots);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_UNDEFINED_H_
