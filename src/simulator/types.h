// Small vocabulary shared by every file of the simulator.
#ifndef TILELANG_SIMULATOR_TYPES_H_
#define TILELANG_SIMULATOR_TYPES_H_

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tilelang {
namespace simulator {

constexpr int kLanes = 32;

/// One bit per lane of a warp; bit 0 is lane 0.
using LaneMask = uint32_t;
constexpr LaneMask kAllLanes = 0xffffffffu;

/// Value of every byte that no operation has made visible yet: NaN in all float formats, -1 in the others.
constexpr uint8_t kPoison = 0xff;

/// Shared-window addresses are 32 bits wide: the rank of the block in its cluster, then the offset.
constexpr uint32_t kSharedRankShift = 24;
constexpr uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;
/// Offset of the first byte a kernel may use; smaller offsets (null pointers) are out of bounds.
constexpr uint32_t kSharedBase = 1024;

/// Generic addresses of the shared and the local window. Global addresses are host addresses (below 2^56).
constexpr uint64_t kSharedWindow = 0x0200000000000000ull;
constexpr uint64_t kLocalWindow = 0x0300000000000000ull;
/// Kernel parameters, as spaces and as generic addresses: fits 32 bits, and no host memory lies so low.
constexpr uint64_t kParamWindow = 0x10000;
constexpr uint64_t kWindowMask = 0xff00000000000000ull;

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kConst, kParam };

/// Strong accesses (atomic, volatile, relaxed, acquire, release) do not race with each other. An update is an atomic operation
/// whose result is not read, and which says itself what it defines (define_bits).
enum class AccessKind : uint8_t { kRead, kWrite, kAtomic, kStrongRead, kStrongWrite, kUpdate };

inline bool reads(AccessKind kind) { return kind != AccessKind::kWrite && kind < AccessKind::kStrongWrite; }
inline bool writes(AccessKind kind) { return kind != AccessKind::kRead && kind != AccessKind::kStrongRead; }
inline bool is_strong(AccessKind kind) { return kind >= AccessKind::kAtomic; }

/// What another library may call: the driver of the tests is built on the simulator (testing/native/driver).
#define TILELANG_SIMULATOR_EXPORT __attribute__((visibility("default")))

/// A malformed or unsupported program: the message names the PTX line.
class TILELANG_SIMULATOR_EXPORT ProgramError : public std::runtime_error {
 public:
  ProgramError(uint32_t line, const std::string& message)
      : std::runtime_error("PTX line " + std::to_string(line) + ": " + message), line(line) {}
  uint32_t line;
};

/// A launch that cannot start: wrong arguments, unknown kernel, impossible sizes.
class TILELANG_SIMULATOR_EXPORT LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ends the launch at once; the finding that explains it has been recorded.
class KernelAbort : public std::exception {};

template <class T, class U>
inline T bit_cast(const U& value) {
  static_assert(sizeof(T) == sizeof(U), "bit_cast needs equal sizes");
  T result;
  std::memcpy(&result, &value, sizeof(T));
  return result;
}

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_TYPES_H_
