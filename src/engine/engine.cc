#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/system_memory.h"

namespace kvasir::engine {
namespace {

constexpr int64_t kUnboundedContext = int64_t{1} << 30;

// The bytes that weights will take, near enough to refuse what cannot fit: panels are about as large as the file.
size_t WeightBytes(const gguf::GgufFile& file, backend::Compute compute) {
  size_t sum = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    sum += compute == backend::Compute::kF32 ? static_cast<size_t>(tensor.elements()) * sizeof(float)
                                             : tensor.bytes.size();
  }
  return sum;
}

std::string KvArithmetic(const model::ModelConfig& config, const EngineOptions& options) {
  const model::LayerConfig& layer = config.layers[0];
  return fmt::format("{} layers x {} heads x {} x {}/{}", config.layers.size(), layer.kv_heads, layer.dk,
                     Name(options.type_k), Name(options.type_v));
}

// The window to run: the one asked for, or the trained one, cut to what memory holds. A window that was asked for and
// cannot fit is an error now, not a surprise later.
Result<int64_t> ChooseContext(const model::ModelConfig& config, const EngineOptions& options, size_t weight_bytes) {
  const int64_t trained = config.context_length;
  if (options.context > trained) {
    Log(LogLevel::kWarn,
        "context {} is longer than the {} tokens the model was trained for; quality past that is not known",
        options.context, trained);
  }
  const size_t available = AvailableMemoryBytes();
  if (available == 0) return options.context > 0 ? options.context : trained;
  const kv::CacheShape shape = config.CacheShape(options.type_k, options.type_v);
  const size_t room = available > weight_bytes ? available - weight_bytes : 0;
  const auto fits = static_cast<int64_t>(room / shape.block_bytes()) * backend::kBlockTokens;
  if (fits == 0) {
    return MakeError(ErrorCode::kResourceExhausted, "the weights need {} but {} are free", FormatBytes(weight_bytes),
                     FormatBytes(available));
  }
  const int64_t wanted = options.context > 0 ? options.context : trained;
  if (wanted <= fits) return wanted;
  if (options.context > 0) {
    const int64_t blocks = (wanted + backend::kBlockTokens - 1) / backend::kBlockTokens;
    return MakeError(
        ErrorCode::kResourceExhausted,
        "context of {} tokens needs {} of KV ({}) but {} are free beside {} of weights; use -c {}{}", wanted,
        FormatBytes(static_cast<size_t>(blocks) * shape.block_bytes()), KvArithmetic(config, options),
        FormatBytes(room), FormatBytes(weight_bytes), fits,
        options.type_k == backend::KvType::kQ8_0 ? "" : ", or -ctk q8_0 -ctv q8_0 for about half the bytes");
  }
  Log(LogLevel::kWarn, "the trained context of {} tokens does not fit {} of free memory; running {} (-c sets it)",
      trained, FormatBytes(room), fits);
  return fits;
}

Result<std::unique_ptr<backend::Backend>> CreateBackend(const EngineOptions& options) {
  if (!options.sim.has_value()) return backend::CreateCpuBackend(options.cpu);
  return backend::CreateSimBackend({.cpu = options.cpu, .device_bytes = options.sim->device_bytes});
}

}  // namespace

Engine::Engine(EngineOptions options, gguf::GgufFile file, model::ModelConfig config, tokenizer::Tokenizer tokenizer,
               int64_t context)
    : options_(std::move(options)),
      file_(std::move(file)),
      config_(std::move(config)),
      tokenizer_(std::move(tokenizer)),
      context_(context) {}

Result<std::unique_ptr<Engine>> Engine::Load(const EngineOptions& options, const model::LoadProgress& progress) {
  if (options.context < 0 || options.context > kUnboundedContext) {
    return MakeError(ErrorCode::kInvalidArgument, "context {} is not between 1 and {}", options.context,
                     kUnboundedContext);
  }
  if (options.ubatch < 1 || options.ubatch > 65536) {
    return MakeError(ErrorCode::kInvalidArgument, "ubatch {} is not between 1 and 65536", options.ubatch);
  }
  const auto start = std::chrono::steady_clock::now();
  KVASIR_ASSIGN_OR_RETURN(gguf::GgufFile file, gguf::GgufFile::Open(options.model_path));
  KVASIR_ASSIGN_OR_RETURN(model::ModelConfig config, model::ReadConfig(file, options.context));
  const kv::CacheShape shape = config.CacheShape(options.type_k, options.type_v);
  KVASIR_RETURN_IF_ERROR(ValidatePlacement(shape, kv::PlaceWhole(shape, kv::Tier::kDevice)));
  KVASIR_ASSIGN_OR_RETURN(tokenizer::Tokenizer tokenizer, tokenizer::Tokenizer::FromGguf(file));
  if (tokenizer.vocab_size() > config.n_vocab) {
    return MakeError(ErrorCode::kCorrupt, "the tokenizer has {} tokens but token_embd.weight only {} rows",
                     tokenizer.vocab_size(), config.n_vocab);
  }
  KVASIR_ASSIGN_OR_RETURN(const int64_t context,
                          ChooseContext(config, options, WeightBytes(file, options.cpu.compute)));
  KVASIR_ASSIGN_OR_RETURN(auto backend, CreateBackend(options));
  std::unique_ptr<Engine> engine(
      new Engine(options, std::move(file), std::move(config), std::move(tokenizer), context));
  KVASIR_RETURN_IF_ERROR(engine->LoadInto(std::move(backend), progress));
  engine->load_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

Status Engine::LoadInto(std::unique_ptr<backend::Backend> backend, const model::LoadProgress& progress) {
  backend_ = std::move(backend);
  KVASIR_ASSIGN_OR_RETURN(weights_, model::LoadWeights(*backend_, file_, config_, progress));
  const kv::CacheShape shape = config_.CacheShape(options_.type_k, options_.type_v);
  const kv::Placement placement = options_.sim.has_value() ? kv::PlaceSplit(shape, options_.sim->device_heads_fraction,
                                                                            kv::Tier::kDevice, kv::Tier::kHost)
                                                           : kv::PlaceWhole(shape, kv::Tier::kDevice);
  KVASIR_ASSIGN_OR_RETURN(cache_, kv::KvCache::Create(*backend_, shape, placement, {}));
  int max_q_heads = 0;
  for (const model::LayerConfig& layer : config_.layers) max_q_heads = std::max(max_q_heads, layer.q_heads);
  KVASIR_ASSIGN_OR_RETURN(executor_,
                          attention::Executor::Create(*backend_, *cache_, max_q_heads, {.max_rows = options_.ubatch}));
  KVASIR_ASSIGN_OR_RETURN(forward_, model::Forward::Create(*backend_, config_, weights_, *executor_, options_.ubatch));
  return {};
}

Result<std::span<const float>> Engine::Step(std::span<const model::BatchItem> items) {
  std::vector<kv::Growth> growths;
  for (const model::BatchItem& item : items) {
    KVASIR_CHECK(item.first_position == cache_->length(item.sequence));
    const int64_t length = item.first_position + static_cast<int64_t>(item.tokens.size());
    if (length > context_) {
      return MakeError(ErrorCode::kInvalidArgument, "a sequence of {} tokens does not fit the context of {}", length,
                       context_);
    }
    for (const kv::Token token : item.tokens) {
      if (token < 0 || token >= config_.n_vocab) {
        return MakeError(ErrorCode::kInvalidArgument, "token id {} is not in the vocabulary of {}", token,
                         config_.n_vocab);
      }
    }
    growths.push_back({item.sequence, item.tokens});
  }
  KVASIR_ASSIGN_OR_RETURN(kv::Reservation reservation, cache_->Reserve(growths));
  const std::span<const float> logits = forward_->Run(items);
  cache_->Commit(std::move(reservation));
  return logits;
}

Result<std::span<const float>> Engine::Prefill(kv::SequenceId sequence, std::span<const kv::Token> tokens,
                                               const PrefillProgress& progress) {
  KVASIR_CHECK(!tokens.empty());
  std::span<const float> logits;
  for (size_t done = 0; done < tokens.size();) {
    const size_t rows = std::min(tokens.size() - done, static_cast<size_t>(options_.ubatch));
    const bool last = done + rows == tokens.size();
    const model::BatchItem item{.sequence = sequence,
                                .first_position = cache_->length(sequence),
                                .tokens = tokens.subspan(done, rows),
                                .logits = last ? model::LogitsOf::kLastRow : model::LogitsOf::kNone};
    KVASIR_ASSIGN_OR_RETURN(logits, Step({&item, 1}));
    done += rows;
    if (progress && !progress(done) && !last) return MakeError(ErrorCode::kCancelled, "stopped after {} tokens", done);
  }
  return logits;
}

}  // namespace kvasir::engine
