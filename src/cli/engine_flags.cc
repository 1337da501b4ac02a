#include "cli/engine_flags.h"

#include <algorithm>

#include "cli/flag_table.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/progress.h"

namespace kvasir::cli {
namespace {

Result<backend::KvType> KvTypeOf(std::string_view flag, const std::string& name) {
  const auto type = backend::ParseKvType(name);
  if (!type.has_value())
    return MakeError(ErrorCode::kInvalidArgument, "{} {}: KV is stored as f32, f16 or q8_0", flag, name);
  return *type;
}

}  // namespace

void EngineFlags::AddTo(Flags& flags) {
  flags.Add(kModelFlag, &model);
  flags.Require();
  flags.Add(kContextFlag, &context, 0);
  flags.Add(kBatchFlag, &batch, 1);
  flags.Add(kUbatchFlag, &ubatch, 1);
  flags.Add(kThreadsFlag, &threads, 0, 1024);
  flags.Add(kIsaFlag, &level);
  flags.Add(kTypeKFlag, &type_k);
  flags.Add(kTypeVFlag, &type_v);
  flags.Add({"--compute", "CLASS", "auto, or f32: weights, activations and KV in full precision; slow, the oracle"},
            &compute);
  flags.Add({"--sim-device-mib", "N", "run on a simulated device of this much memory, without a GPU; 0: none"},
            &sim_device_mib, 0, int64_t{1} << 20);
  flags.Add({"--headinfer-gpu-heads-frac", "F", "with a device: the fraction of KV heads that it keeps"},
            &device_heads_fraction);
}

Result<engine::EngineOptions> EngineFlags::ToOptions() const {
  engine::EngineOptions options;
  KVASIR_ASSIGN_OR_RETURN(options.model_path, FindModel(model, ProcessEnvironment()));
  options.context = context;
  options.ubatch = std::min(batch, ubatch);
  options.cpu.threads = threads;
  options.cpu.level = level;
  KVASIR_ASSIGN_OR_RETURN(options.type_k, KvTypeOf("-ctk", type_k));
  KVASIR_ASSIGN_OR_RETURN(options.type_v, KvTypeOf("-ctv", type_v));
  if (compute == "f32") {
    options.cpu.compute = backend::Compute::kF32;
    options.type_k = options.type_v = backend::KvType::kF32;
  } else if (compute != "auto") {
    return MakeError(ErrorCode::kInvalidArgument, "--compute {}: known are auto and f32", compute);
  }
  if (device_heads_fraction < 0 || device_heads_fraction > 1) {
    return MakeError(ErrorCode::kInvalidArgument, "--headinfer-gpu-heads-frac {} is not between 0 and 1",
                     device_heads_fraction);
  }
  if (sim_device_mib > 0) {
    options.sim = engine::SimDevice{.device_bytes = static_cast<size_t>(sim_device_mib) << 20,
                                    .device_heads_fraction = device_heads_fraction};
  } else if (device_heads_fraction != 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--headinfer-gpu-heads-frac {} splits heads between a device and the host, but there is no "
                     "device; leave it out to "
                     "run on the CPU, or add --sim-device-mib",
                     device_heads_fraction);
  }
  return options;
}

Result<std::unique_ptr<engine::Engine>> LoadEngine(const engine::EngineOptions& options, Streams streams) {
  ProgressBar progress(streams.err, ErrorIsTerminal(), "loading");
  return engine::Engine::Load(options, [&](double fraction) {
    progress.Update(fraction);
    return !Interrupt::requested();
  });
}

}  // namespace kvasir::cli
