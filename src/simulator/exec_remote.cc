#include "exec_remote.h"

#include "format_names.h"
#include "memory_operands.h"
#include "operands.h"
#include "reduction.h"

namespace tilelang {
namespace simulator {
namespace {

struct RemoteSpec {
  Address target, barrier;
  Space space = Space::kShared;
  uint32_t element = 4;  // bytes
  Reduction reduction = Reduction::kNone;
  Format format = Format::kU32;
};

/// One lane's store: the data lands, then the mbarrier counts its bytes.
class RemoteStore : public AsyncOperation {
 public:
  RemoteStore(Cluster& cluster, const RemoteSpec& spec, uint8_t* target, uint32_t barrier, Agent agent,
              std::vector<uint8_t> data)
      : cluster_(cluster), spec_(spec), target_(target), barrier_(barrier), agent_(agent), data_(std::move(data)) {}

  void land(LaneMask) override {
    uint32_t bytes = static_cast<uint32_t>(data_.size());
    if (spec_.reduction == Reduction::kNone)
      std::memcpy(target_, data_.data(), bytes);
    else
      reduce_elements(spec_.reduction, spec_.format, target_, data_.data(), bytes);
    mark_initialised(cluster_, target_, bytes);
    mbarrier_complete_tx(cluster_, barrier_, bytes, agent_);
  }

 private:
  Cluster& cluster_;
  const RemoteSpec& spec_;
  uint8_t* target_;
  uint32_t barrier_;
  Agent agent_;
  std::vector<uint8_t> data_;
};

void issue(Warp& w, const Instruction& in, const RemoteSpec& spec, int lane) {
  uint32_t target, barrier;
  if (!shared_address(w, in, spec.target, spec.space, lane, &target)) return;
  if (!shared_address(w, in, spec.barrier, spec.space, lane, &barrier)) return;
  if (target >> kSharedRankShift != barrier >> kSharedRankShift) {
    w.report(FindingKind::kMBarrier, in, lane, "the mbarrier and the target lie in different blocks");
    return;
  }
  std::vector<uint8_t> data(spec.element * in.list_size);
  for (uint32_t i = 0; i < in.list_size; ++i) {
    std::memcpy(data.data() + i * spec.element, w.frame + in.list[i] + static_cast<uint32_t>(lane) * spec.element,
                spec.element);
  }
  bool reduces = spec.reduction != Reduction::kNone;
  Agent agent = async_agent(w, lane, AsyncDomain::kRemoteStore, barrier);
  uint8_t* pointer =
      access_async(w, in, lane, agent, Space::kShared, target, static_cast<uint32_t>(data.size()),
                   static_cast<uint32_t>(data.size()), reduces ? AccessKind::kAtomic : AccessKind::kWrite);
  if (!pointer) return;
  w.cluster().pending.post(std::make_unique<RemoteStore>(w.cluster(), spec, pointer, barrier, agent, std::move(data)));
}

Step run_remote(Warp& w, const Instruction& in, LaneMask exec) {
  const auto& spec = *static_cast<const RemoteSpec*>(in.extra);
  for_lanes(exec, [&](int lane) { issue(w, in, spec, lane); });
  count_bulk(w, in,
             static_cast<uint64_t>(spec.element) * in.list_size * static_cast<uint64_t>(__builtin_popcount(exec)),
             true);
  return Step::kNext;
}

void take_prefix(Decoder& d, RemoteSpec& spec) {
  const MemoryPlace place = take_memory_place(d);
  spec.space = place.space == Space::kGeneric ? Space::kGeneric : Space::kShared;
  if (!d.modifiers.take("mbarrier::complete_tx::bytes")) d.fail("expected .mbarrier::complete_tx::bytes");
}

void finish(Decoder& d, RemoteSpec& spec, uint32_t bytes, size_t count) {
  d.expect_no_more_modifiers();
  d.expect_operands(3, 3);
  spec.element = bytes;
  spec.target = d.address(0);
  spec.barrier = d.address(2);
  std::vector<uint32_t> values = d.source_vector(1, bytes);
  if (values.size() != count) d.fail("expected " + std::to_string(count) + " vector elements");
  d.set_list(values);
  d.out.run = run_remote;
}

}  // namespace

void decode_store_async(Decoder& d) {
  auto& spec = d.attach<RemoteSpec>();
  take_prefix(d, spec);
  std::string vector = d.modifiers.take_any({"v2", "v4"});
  const TypeInfo* type = d.take_type();
  if (type->bytes != 4 && type->bytes != 8) d.fail("the type must have 32 or 64 bits");
  finish(d, spec, type->bytes, vector.empty() ? 1 : static_cast<size_t>(vector[1] - '0'));
}

void decode_reduce_async(Decoder& d) {
  auto& spec = d.attach<RemoteSpec>();
  take_prefix(d, spec);
  spec.reduction = find_reduction(d.modifiers.next());
  std::string name = d.modifiers.peek();
  const TypeInfo* type = d.take_type();
  if (type->kind == 'b') name = type->bytes == 8 ? "u64" : "u32";
  if (spec.reduction == Reduction::kNone || !find_format(name, &spec.format)) d.fail("unknown operation or type");
  finish(d, spec, type->bytes, 1);
}

}  // namespace simulator
}  // namespace tilelang
