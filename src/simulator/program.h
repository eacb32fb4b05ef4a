// A decoded program: what the interpreter runs. Names are gone; operands are byte offsets in a register frame.
#ifndef TILELANG_SIMULATOR_PROGRAM_H_
#define TILELANG_SIMULATOR_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptx_ast.h"
#include "shuffle.h"
#include "types.h"

namespace tilelang {
namespace simulator {

struct Warp;
struct Instruction;

/// What the interpreter does after a handler returned.
enum class Step : uint8_t {
  kNext,      // go on with the next instruction
  kJump,      // the handler has set the fragment's program counter
  kReselect,  // the handler has changed the set of fragments (branch, return, exit)
  kConverge,  // more lanes of this warp must reach this instruction; it is run again when they do
  kBlock,     // the warp waits (Warp::block_on was called); it is run again, with Warp::resumed set, when woken
  kRetry,     // the warp gives way (failed try_wait, nanosleep); execution goes on with the NEXT instruction later
};

/// Executes one instruction for the lanes in `exec` (never 0).
using Handler = Step (*)(Warp& warp, const Instruction& instruction, LaneMask exec);

/// How the lanes of a warp must come together before an instruction runs.
enum class Convergence : uint8_t {
  kNone,
  kAligned,  // every lane of the warp that has not exited must be here (.aligned); reported when impossible
};

/// Where control can go after an instruction.
enum class Flow : uint8_t {
  kSequential,
  kBranch,    // to target, or on
  kIndirect,  // to one of the program counters in list
  kLeave,     // ret, exit, trap
  kCall,
};

struct Instruction {
  Handler run = nullptr;
  uint32_t guard = 0;       // byte offset of the predicate's 32-bit mask
  uint32_t guard_flip = 0;  // all ones for @!p
  Flow flow = Flow::kSequential;
  bool guarded = false;  // has a predicate
  Convergence convergence = Convergence::kNone;
  bool leader = false;                  // first instruction of a basic block
  uint8_t variant = 0;                  // free for the handler
  uint32_t op[6] = {0, 0, 0, 0, 0, 0};  // byte offsets in the frame
  int64_t immediate = 0;
  const uint32_t* list = nullptr;  // further operands (vectors, accumulators): byte offsets in the frame
  uint32_t list_size = 0;
  uint32_t target = 0;          // program counter of a branch
  const void* extra = nullptr;  // decoded data owned by the program; see Decoder::attach
  uint32_t order = 0;           // position of the basic block in the reconvergence order
  uint32_t pc = 0;              // index in Program::code
  uint32_t line = 0;            // PTX line
  SourceLocation location;
  uint16_t counter_class = 0;  // index in Program::classes
};

/// How undefined values pass through an instruction's registers (undefined.cc): places in the frame, in the order of the operands.
struct RegisterUse {
  enum class Kind : uint8_t {
    kUses,      // what it does depends on the sources
    kLoads,     // only the address does
    kStores,    // of shared or local memory, likewise: what it writes is undefined where a source of its value is
    kShuffles,  // likewise of the lanes that it names: a lane's result is undefined where it reads such a value
    kComputes,  // its results are undefined where a source is
    kSelects,   // selp: or where the source that it chooses is
    kAnd,       // of predicates: a false source decides
    kOr,        // a true one
  };
  Kind kind = Kind::kUses;
  std::vector<uint32_t> destinations, sources;
  Shuffle shuffle = Shuffle::kIndex;
  uint32_t address_sources = 0;  // of a store: how many of the sources come first and make the address
};

/// Where a call's values travel: a per-lane byte area in the frame.
struct ParamArea {
  uint32_t offset = 0;  // byte offset in the frame; lane l starts at offset + l * bytes
  uint32_t bytes = 0;
};

struct KernelParam {
  std::string name;
  const TypeInfo* type = nullptr;
  uint32_t offset = 0;  // in the packed parameter buffer
  uint32_t bytes = 0;
};

/// Frame slots whose contents depend on the thread, the block or the call.
enum class SpecialKind : uint8_t {
  kThread,             // payload: dimension; lanes hold %tid
  kThreadCount,        // %ntid
  kBlockIndex,         // %ctaid
  kBlockCount,         // %nctaid
  kClusterIndex,       // %clusterid
  kClusterCount,       // %nclusterid
  kClusterBlock,       // %cluster_ctaid
  kClusterBlockCount,  // %cluster_nctaid
  kClusterRank,        // %cluster_ctarank
  kClusterSize,        // %cluster_nctarank
  kIsExplicitCluster,
  kLane,
  kWarp,
  kWarpCount,
  kLaneMaskEq,
  kLaneMaskLe,
  kLaneMaskLt,
  kLaneMaskGe,
  kLaneMaskGt,
  kMultiprocessor,
  kMultiprocessorCount,
  kGrid,
  kDynamicSharedSize,
  kTotalSharedSize,
  kSharedAddress,   // payload: offset of a static shared variable
  kDynamicAddress,  // payload: offset from the start of dynamic shared memory
  kLocalAddress,    // payload: offset in the frame's local variables
  kParamAddress,    // payload: offset in the kernel's parameters
  kClock,           // read when executed: %clock, %clock64, %globaltimer (payload: 0, 1, 2)
};

struct SpecialSlot {
  uint32_t offset = 0;  // in the frame
  SpecialKind kind;
  uint8_t bytes = 4;
  uint32_t payload = 0;
};

struct DecodedFunction {
  std::string name;
  bool is_entry = false;
  bool has_body = false;
  uint32_t first = 0;  // program counter of the first instruction
  uint32_t last = 0;   // one past the last
  uint32_t frame_bytes = 0;
  /// Constants of the frame: one contiguous range, copied (all lanes alike) when a frame is made.
  uint32_t constants_offset = 0;
  std::vector<uint8_t> constants;
  std::vector<SpecialSlot> specials;
  std::vector<ParamArea> parameter_areas;  // device functions
  std::vector<ParamArea> result_areas;
  std::vector<KernelParam> parameters;  // entries
  uint32_t parameter_bytes = 0;
  uint32_t local_bytes = 0;  // bytes of .local variables per thread
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_alignment = 16;
  uint32_t required_threads[3] = {0, 0, 0};
  uint32_t maximum_threads[3] = {0, 0, 0};
  uint32_t cluster[3] = {0, 0, 0};
};

/// A module-level .global or .const variable, allocated when the module is loaded.
struct GlobalVariable {
  std::string name;
  bool is_const = false;
  uint64_t bytes = 0;
  std::unique_ptr<uint8_t[]> storage;
  uint8_t* data = nullptr;  // aligned start in storage
};

struct Program {
  std::vector<Instruction> code;
  std::vector<DecodedFunction> functions;
  std::map<std::string, uint32_t> function_index;
  std::vector<GlobalVariable> globals;
  std::map<uint32_t, std::string> files;
  std::vector<std::string> classes;  // counter class names
  std::vector<RegisterUse> register_uses;  // by program counter; empty ones in functions without local memory
  std::vector<std::string> texts;    // opcode with modifiers, by program counter
  std::vector<std::unique_ptr<uint32_t[]>> lists;
  std::vector<std::shared_ptr<void>> attachments;
  std::string target;

  /// The source file of an instruction, empty without line information.
  std::string file_of(const Instruction& instruction) const {
    auto found = files.find(instruction.location.file);
    return instruction.location.line && found != files.end() ? found->second : "";
  }
  /// An instruction's place for a message: "PTX line 47 (device_kernel.cu:8)".
  std::string place_of(const Instruction& instruction) const {
    std::string place = "PTX line " + std::to_string(instruction.line), file = file_of(instruction);
    if (file.empty()) return place;
    return place + " (" + file + ":" + std::to_string(instruction.location.line) + ")";
  }
};

/// Decodes a parsed module. Throws ProgramError for unknown or malformed instructions.
TILELANG_SIMULATOR_EXPORT std::unique_ptr<Program> decode_module(const Module& module);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_PROGRAM_H_
