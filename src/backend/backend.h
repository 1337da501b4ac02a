// backend/backend.h
// What a machine can do for a forward pass: memory, copies, and about a dozen fused operations.
//
// The model is written once against this interface; a backend (CPU, the simulated device, later CUDA) makes it fast.
// Addresses of kDevice memory belong to the backend: nobody else may dereference them. Operations read and write device
// memory unless a comment says "host". They are enqueued in order and may run later; Synchronize waits for all. What a
// backend does not do: own KV policy, know any model family, or choose what runs where.
//
// Numerics (docs/numerics.md): the bits of a row's result never depend on how many rows, tasks or threads there are.
//
// Thread rule: one thread (the engine's) calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "backend/page_format.h"
#include "base/result.h"
#include "base/tensor_type.h"

namespace kvasir::backend {

enum class MemoryKind {
  kDevice,  // where operations read and write; on the CPU backend it is ordinary memory
  kHost,    // addressable by CPU code and by copies; pinned where there is a link
};

class Backend;

// Owned memory, 64-byte aligned, zeroed. Move-only.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Backend* owner, MemoryKind kind, std::byte* address, size_t bytes)
      : owner_(owner), kind_(kind), address_(address), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* address() const { return address_; }
  size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  Backend* owner_ = nullptr;
  MemoryKind kind_ = MemoryKind::kDevice;
  std::byte* address_ = nullptr;
  size_t bytes_ = 0;
};

// A weight matrix loaded into the form the backend's kernels read. y = W x: `rows` outputs, `cols` inputs.
class Matrix {
 public:
  virtual ~Matrix() = default;
  TensorType type() const { return type_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  virtual size_t bytes() const = 0;  // resident, for the accountant

 protected:
  Matrix(TensorType type, int64_t rows, int64_t cols) : type_(type), rows_(rows), cols_(cols) {}

 private:
  TensorType type_;
  int64_t rows_, cols_;
};

// A matrix as GGUF stores it: `rows` consecutive rows of `cols` values. Host memory.
struct MatrixSource {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* bytes = nullptr;
};

// Rows of activations in the two forms that products read. The f32 form is always there; the 8-bit form (per row, per
// 32 values: scale = max|x| / 127, codes, and the sum of the codes times the scale) where the backend's Quantizes(cols)
// says so.
struct Activations {
  float* f32 = nullptr;     // [rows, cols]
  int8_t* codes = nullptr;  // [rows, cols]      or null
  float* scales = nullptr;  // [rows, cols / 32] or null
  float* sums = nullptr;    // [rows, cols / 32] or null
};

struct NormArgs {  // out = x / sqrt(mean(x^2) + eps) * weight, row by row; weight null: no norm, a copy; out.f32 may be
                   // x
  const float* x = nullptr;       // [rows, cols]
  const float* weight = nullptr;  // [cols]
  float eps = 0;
  int rows = 0;
  int cols = 0;
  Activations out;
};

struct NormAddArgs {         // residual += norm(x) * weight   (post-norms of Gemma)
  const float* x = nullptr;  // [rows, cols]
  const float* weight = nullptr;
  float eps = 0;
  int rows = 0;
  int cols = 0;
  float* residual = nullptr;  // [rows, cols]
};

struct EmbedArgs {
  const Matrix* table = nullptr;
  std::span<const int32_t> tokens;  // host; each inside the table
  float scale = 1;
  float* out = nullptr;  // [tokens, cols]
};

struct Product {
  const Matrix* weight = nullptr;
  const float* bias = nullptr;  // [weight->rows()] or null
  float* out = nullptr;         // [rows, stride]: this product's columns start here
  int64_t out_stride = 0;
};

enum class Store { kSet, kAdd };  // out = ..., or out += ... (the residual)

struct MatMulArgs {
  Activations x;  // [rows, cols]
  int rows = 0;
  std::span<const Product> products;  // all with the same cols: one pass over the input
  Store store = Store::kSet;
  float scale = 1;    // out = scale * (W x + bias)
  float softcap = 0;  // > 0: out = softcap * tanh(out / softcap)
};

enum class Activation { kSilu, kGeluTanh };

struct GluArgs {  // out = act(gate x) * (up x)
  Activations x;
  int rows = 0;
  const Matrix* gate = nullptr;
  const Matrix* up = nullptr;
  Activation activation = Activation::kSilu;
  Activations out;  // [rows, gate->rows()]
};

struct Expert {
  const Matrix* gate = nullptr;
  const Matrix* up = nullptr;
  const Matrix* down = nullptr;
};

struct MoeArgs {  // out += sum over the top_k experts, in rank order, of weight * down(act(gate x) * up x)
  Activations x;  // [rows, cols]
  int rows = 0;
  const Matrix* router = nullptr;  // [experts, cols]
  std::span<const Expert> experts;
  int top_k = 0;
  bool normalize = false;  // the chosen weights sum to one; otherwise they are the softmax over all experts
  float weight_scale = 1;
  Activation activation = Activation::kSilu;
  const Expert* shared = nullptr;       // or null; added after the routed ones
  const Matrix* shared_gate = nullptr;  // [1, cols] or null: the shared expert's output times sigmoid(gate x)
  float* out = nullptr;                 // [rows, cols]; += (the residual)
};

enum class RopeKind { kNone, kNormal, kNeox };  // kNormal rotates (0,1),(2,3)...; kNeox (0,n/2),(1,n/2+1)...

struct RopeAppendArgs {  // per row: norm and rotate q and k, scale q, then encode k and v into their pages
  int rows = 0;
  int q_heads = 0;
  int kv_heads = 0;
  PageFormat format;
  float* q = nullptr;             // [rows, q_heads, dk]; in place
  float* k = nullptr;             // [rows, kv_heads, dk]; in place
  const float* v = nullptr;       // [rows, kv_heads, dv]
  const float* q_norm = nullptr;  // [dk] or null: RMS norm of each head before rotation
  const float* k_norm = nullptr;
  float eps = 0;
  RopeKind rope = RopeKind::kNone;
  int n_rot = 0;                   // leading values of a head that are rotated
  const float* cos_sin = nullptr;  // [rows, n_rot / 2, 2]
  float q_scale = 1;
  std::span<std::byte* const> pages;   // host array [rows, kv_heads] of page addresses
  std::span<const int32_t> page_rows;  // host array [rows]: the row of the page, 0..31
};

// One partial record: the unnormalised output O [dv], then m, then l; padded. Scores are in base-e units; m = -inf, l =
// 0, O = 0 when no key was visible. Records of a task lie at partial + (row * group + head in group) *
// PartialStride(dv).
constexpr int PartialStride(int dv) {
  return (dv + 2 + 15) / 16 * 16;
}

struct AttendTask {       // some query rows of one sequence over one span of one KV head
  int32_t row_begin = 0;  // rows of q, at consecutive positions
  int32_t rows = 0;
  int32_t first_position = 0;                // of row_begin; row r sees the keys at positions <= first_position + r
  int32_t unit = 0;                          // KV head; its query heads are [unit * group, (unit + 1) * group)
  int32_t span_begin = 0;                    // position of the span's first key, a multiple of 256
  int32_t keys = 0;                          // keys that the span holds, 1..256
  const std::byte* pages[kSpanBlocks] = {};  // null past `keys`
  float* partial = nullptr;                  // device
};

struct AttendArgs {
  const float* q = nullptr;  // [rows, q_heads, dk], rotated and scaled
  int q_heads = 0;
  int group = 0;  // query heads per KV head
  PageFormat format;
  int window = 0;                     // > 0: only keys at positions > row's position - window are visible
  float softcap = 0;                  // > 0: score = softcap * tanh(score / softcap)
  std::span<const AttendTask> tasks;  // host
};

struct MergeTask {  // folds `count` partials, in order, and normalises
  int32_t row_begin = 0;
  int32_t rows = 0;
  int32_t unit = 0;
  int32_t count = 0;
  const float* partials = nullptr;  // of span 0; span i at + i * stride floats
  int64_t stride = 0;
};

struct MergeArgs {
  int q_heads = 0;
  int group = 0;
  int dv = 0;
  std::span<const MergeTask> tasks;  // host
  float* out = nullptr;              // [rows, q_heads, dv]; zero where nothing was visible
};

struct CopyItem {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

enum class CopyDirection { kHostToDevice, kDeviceToHost, kDeviceToDevice };

using Event = uint64_t;

struct BackendProfile {
  std::string kind;            // "cpu", "sim"
  std::string level;           // "ref", "avx2", "avx512"
  std::string numerics;        // the numerics class, e.g. "cpu/avx512/fast/1": pages never cross classes unaware
  size_t device_bytes = 0;     // 0: as much as the host has
  bool device_is_host = true;  // device memory may be dereferenced by CPU code
  int threads = 1;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendProfile& profile() const = 0;

  // kResourceExhausted with the arithmetic when there is no room.
  virtual Result<Buffer> Allocate(MemoryKind kind, size_t bytes) = 0;

  // Repacks a matrix. The source is not needed afterwards. Errors: kUnsupported, kResourceExhausted.
  virtual Result<std::unique_ptr<Matrix>> LoadMatrix(const MatrixSource& source) = 0;
  // Whether products of `cols` inputs read the 8-bit form of activations (for any weight type of this backend).
  virtual bool Quantizes(int64_t cols) const = 0;

  virtual void Embed(const EmbedArgs& args) = 0;
  virtual void Norm(const NormArgs& args) = 0;
  virtual void NormAdd(const NormAddArgs& args) = 0;
  virtual void MatMul(const MatMulArgs& args) = 0;
  virtual void Glu(const GluArgs& args) = 0;
  virtual void MoeFfn(const MoeArgs& args) = 0;
  virtual void RopeAppend(const RopeAppendArgs& args) = 0;
  virtual void Attend(const AttendArgs& args) = 0;
  virtual void Merge(const MergeArgs& args) = 0;
  // Zeroes rows [from_row, 32) of a page.
  virtual void ClearPageRows(std::byte* page, const PageFormat& format, int from_row) = 0;

  // Starts copies on the direction's own queue. They begin after the operations enqueued so far and run beside later
  // ones; the bytes are there once Wait(event) has returned to the operations enqueued after it.
  virtual Event Copy(CopyDirection direction, std::span<const CopyItem> items) = 0;
  virtual void Wait(Event event) = 0;
  // Blocks the caller until everything enqueued is done.
  virtual void Synchronize() = 0;

 protected:
  friend class Buffer;
  virtual void Free(MemoryKind kind, std::byte* address, size_t bytes) = 0;
};

}  // namespace kvasir::backend
