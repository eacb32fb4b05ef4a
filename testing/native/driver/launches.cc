// Launches: what the driver checks when it is called, and what the kernel does when its stream comes to it.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "launch.h"
#include "module.h"
#include "state.h"

namespace test_driver {
namespace {

namespace sim = tilelang::simulator;

// CUlaunchConfig and CUlaunchAttribute, as the driver reads them.
struct LaunchAttribute {
  uint32_t id;
  uint32_t padding;
  union {
    uint8_t bytes[64];
    uint32_t words[16];
  } value;
};
struct LaunchConfig {
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32 && offsetof(LaunchConfig, attribute_count) == 48);

enum AttributeId : uint32_t { kIgnore = 0, kCooperative = 2, kClusterDimension = 4, kProgrammaticSerialization = 6 };

constexpr uint32_t kMostThreads = 1024, kPortableCluster = 8, kMostCluster = 16;
constexpr uint32_t kMostBlock[3] = {1024, 1024, 64};
constexpr uint32_t kMostGrid[3] = {0x7fffffff, 65535, 65535};

struct Attributes {
  std::array<uint32_t, 3> cluster{1, 1, 1};
  bool cooperative = false;
};

uint64_t volume(const uint32_t* extent) { return uint64_t{extent[0]} * extent[1] * extent[2]; }

Status read_attributes(const LaunchConfig& config, Attributes* out) {
  if (config.attribute_count != 0 && config.attributes == nullptr) return kInvalidValue;
  for (uint32_t i = 0; i < config.attribute_count; ++i) {
    const LaunchAttribute& attribute = config.attributes[i];
    const uint32_t* words = attribute.value.words;
    if (attribute.id == kClusterDimension) {
      out->cluster = {words[0], words[1], words[2]};
    } else if (attribute.id == kCooperative || attribute.id == kProgrammaticSerialization) {
      if (words[0] > 1) return kInvalidValue;
      if (attribute.id == kCooperative) out->cooperative = words[0] == 1;
    } else if (attribute.id != kIgnore) {
      return kInvalidValue;
    }
  }
  return kSuccess;
}

Status check_sizes(const LaunchConfig& config, const Kernel& kernel) {
  for (int axis = 0; axis < 3; ++axis) {
    if (config.block[axis] == 0 || config.block[axis] > kMostBlock[axis]) return kInvalidValue;
    if (config.grid[axis] == 0 || config.grid[axis] > kMostGrid[axis]) return kInvalidValue;
  }
  if (volume(config.block) > kMostThreads) return kInvalidValue;
  return config.shared_bytes > static_cast<uint32_t>(kernel.dynamic_shared_bytes) ? kInvalidValue : kSuccess;
}

Status check_cluster(const LaunchConfig& config, const Kernel& kernel, const Attributes& attributes, const Device& device) {
  const uint64_t blocks = volume(attributes.cluster.data());
  if (blocks == 1) return kSuccess;
  if (device.major < 9) return kNotSupported;
  if (blocks == 0 || blocks > (kernel.large_clusters ? kMostCluster : kPortableCluster)) return kInvalidClusterSize;
  for (int axis = 0; axis < 3; ++axis) {
    if (config.grid[axis] % attributes.cluster[axis] != 0) return kInvalidValue;
  }
  return kSuccess;
}

// A cooperative grid has to be resident as a whole.
Status check_cooperative(const LaunchConfig& config, const Kernel& kernel, const Device& device) {
  constexpr uint64_t kMostBlocks = 32, kReserved = 1024;
  const uint64_t shared = kernel.code->static_shared_bytes + config.shared_bytes + kReserved;
  const uint64_t threads = (volume(config.block) + 31) / 32 * 32;
  const uint64_t resident = std::min({kMostBlocks, device.shared_bytes / shared, device.threads / threads});
  return volume(config.grid) > resident * device.multiprocessors ? kCooperativeLaunchTooLarge : kSuccess;
}

// The parameter buffer; arguments are read now, not when the kernel runs.
Status pack(const sim::DecodedFunction& code, void** arguments, std::vector<uint8_t>* out) {
  out->assign(code.parameter_bytes, 0);
  if (!code.parameters.empty() && arguments == nullptr) return kInvalidValue;
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    if (arguments[i] == nullptr) return kInvalidValue;
    std::memcpy(out->data() + code.parameters[i].offset, arguments[i], code.parameters[i].bytes);
  }
  return kSuccess;
}

Status status_of(sim::FindingKind kind) {
  switch (kind) {
    case sim::FindingKind::kOutOfBounds: return kIllegalAddress;
    case sim::FindingKind::kMisaligned: return kMisalignedAddress;
    case sim::FindingKind::kDeadlock: return kLaunchTimeout;
    default: return kLaunchFailed;
  }
}

Status run(const Context& context, const Kernel& kernel, sim::LaunchRequest request) {
  for (const auto& [address, bytes] : context.allocations) request.allocations.push_back({address, bytes, false, "an allocation"});
  try {
    const sim::LaunchReport report = sim::run_launch(*kernel.module->program, std::move(request));
    std::fputs(report.printed.c_str(), stdout);
    std::fflush(stdout);
    for (const sim::Finding& finding : report.findings) std::fprintf(stderr, "%s: %s\n", finding.kernel.c_str(), finding.message.c_str());
    return report.findings.empty() ? Status(kSuccess) : status_of(report.findings.front().kind);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kLaunchFailed;
  }
}

sim::LaunchRequest request_of(const LaunchConfig& config, const Kernel& kernel, const Attributes& attributes) {
  sim::LaunchRequest request;
  request.kernel = kernel.code->name;
  for (int axis = 0; axis < 3; ++axis) {
    request.grid[axis] = config.grid[axis];
    request.block[axis] = config.block[axis];
  }
  request.cluster = attributes.cluster;
  request.shared_bytes = config.shared_bytes;
  request.checks = driver().checks;
  request.count = false;
  return request;
}

Status launch(Context& context, const LaunchConfig& config, Kernel& kernel, void** arguments) {
  Attributes attributes;
  Stream* stream = context.stream(config.stream);
  if (stream == nullptr) return kInvalidHandle;
  Status status = read_attributes(config, &attributes);
  if (!status) status = check_sizes(config, kernel);
  if (!status) status = check_cluster(config, kernel, attributes, *context.device);
  if (!status && attributes.cooperative) status = check_cooperative(config, kernel, *context.device);
  sim::LaunchRequest request = request_of(config, kernel, attributes);
  if (!status) status = pack(*kernel.code, arguments, &request.parameters);
  if (status) return status;
  enqueue(*stream, [&context, &kernel, request] { return run(context, kernel, request); });
  return kSuccess;
}

}  // namespace

DRIVER_FUNCTION cuLaunchKernelEx(const LaunchConfig* config, void* handle, void** arguments, void** extra) {
  return in_context([&](Context& context) -> Status {
    Kernel* kernel = find_kernel(context, handle);
    if (kernel == nullptr) return kInvalidHandle;
    if (config == nullptr) return kInvalidValue;
    if (extra != nullptr) return kNotSupported;
    return launch(context, *config, *kernel, arguments);
  });
}

}  // namespace test_driver
