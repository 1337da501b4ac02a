#include "backend/cpu/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/matmul/panel_reader.h"
#include "backend/quant.h"
#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

// The place of a type's panel in kernels.inc; the types that have none use Int8, the last one.
int PanelIndex(TensorType type) {
  static constexpr std::string_view kNames[] = {
#define KVASIR_QUANT_PANEL(name, ...) #name,
#include "backend/cpu/kernels/matmul/kernels.inc"
#undef KVASIR_QUANT_PANEL
  };
  constexpr int kCount = static_cast<int>(std::size(kNames));
  const auto* found = std::find(std::begin(kNames), std::end(kNames), Name(type));
  return std::min(static_cast<int>(found - std::begin(kNames)), kCount - 1);
}

bool IsQuantized(TensorType type) {
  return Traits(type).block_elements > 1;
}

uint32_t Word(const uint8_t* codes) {
  uint32_t word;
  std::memcpy(&word, codes, sizeof word);
  return word;
}

template <typename T>
void Write(std::byte* to, int64_t index, T value) {
  std::memcpy(to + index * int64_t{sizeof(T)}, &value, sizeof value);
}

// Writes the blocks of one row (a lane) into a group.
class GroupWriter {
 public:
  GroupWriter(const PanelSpec& spec, int lanes, std::byte* group, int blocks, int lane)
      : spec_(spec),
        lanes_(lanes),
        lane_(lane),
        group_(group),
        scale_bytes_(spec.scale_bytes(lanes)),
        min_bytes_(spec.min_bytes(lanes)),
        scales_(group + spec.head_bytes(lanes)),
        minima_(scales_ + blocks * scale_bytes_),
        codes_(minima_ + blocks * min_bytes_) {}

  void WriteScaledIntegers(const QuantBlock& from) {
    if (std::exchange(first_, false)) {
      if (spec_.super_scale()) Write(group_, lane_, FloatToHalf(from.d));
      if (spec_.super_min()) Write(group_ + 2 * lanes_, lane_, FloatToHalf(from.m));
    }
    if (spec_.scale == ScaleKind::kHalf) Write(scales_, lane_, FloatToHalf(from.d));
    if (spec_.min == MinKind::kHalf) Write(minima_, lane_, FloatToHalf(from.m));
    if (spec_.scale == ScaleKind::kExponent) {
      const uint32_t bits = std::bit_cast<uint32_t>(from.d);
      const uint32_t exponent = bits >> 23;  // 2^(e - 128) has the exponent field e - 1; below e = 2 it is subnormal
      Write(scales_, lane_, static_cast<uint8_t>(exponent > 0 ? exponent + 1 : bits >> 22));
    }
    for (int sub = 0; sub < spec_.subs(); ++sub) {
      const int at = sub * lanes_ + lane_;
      const int scale = from.sub_scale[static_cast<size_t>(sub)], minimum = from.sub_min[static_cast<size_t>(sub)];
      if (spec_.scale == ScaleKind::kSuper) Write(scales_, at, static_cast<int8_t>(scale));
      if (spec_.min == MinKind::kSuper) Write(minima_, at, static_cast<int8_t>(minimum));
      if (spec_.scale == ScaleKind::kNibbles) Write(scales_, at, static_cast<uint8_t>(scale | minimum << 4));
    }
    WriteCodes(from.codes.data());
  }

  // For Int8 panels.
  void WriteRounded(const float* values) {
    float extreme = 0;
    for (int i = 0; i < kBlock; ++i) extreme = std::max(extreme, std::abs(values[i]));
    const float inverse = extreme > 1e-30f ? 127 / extreme : 0;
    uint8_t codes[kBlock];
    for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<uint8_t>(128 + std::lrintf(values[i] * inverse));
    Write(scales_, lane_, inverse > 0 ? extreme / 127 : 0.0f);
    WriteCodes(codes);
  }

 private:
  // Groups of four codes as 32-bit words, so that a plane's vector is a few shifts and ors.
  void WritePlane(const uint8_t* values, std::byte* plane, int bits, int from_bit) const {
    const uint32_t mask = 0x01010101u * ((1u << bits) - 1);
    for (int vector = 0; vector < bits; ++vector) {
      uint32_t word = 0;
      for (int group4 = vector, shift = 0; group4 < 8; group4 += bits, shift += bits) {
        word |= ((Word(values + 4 * group4) >> from_bit) & mask) << shift;
      }
      Write(plane, vector * lanes_ + lane_, word);
    }
  }

  void WriteCodes(const uint8_t* values) {
    WritePlane(values, codes_, spec_.low_bits, 0);
    if (spec_.high_bits > 0) WritePlane(values, codes_ + 4 * spec_.low_bits * lanes_, spec_.high_bits, spec_.low_bits);
    scales_ += scale_bytes_;
    minima_ += min_bytes_;
    codes_ += spec_.code_bytes(lanes_);
  }

  const PanelSpec& spec_;
  const int lanes_, lane_;
  std::byte* const group_;
  const int scale_bytes_, min_bytes_;
  std::byte* scales_;  // of the next block
  std::byte* minima_;
  std::byte* codes_;
  bool first_ = true;
};

}  // namespace

Result<std::unique_ptr<Matrix>> CpuMatrix::Load(const MatrixSource& source, const MatMulKernels& kernels,
                                                Compute compute, ThreadPool& pool) {
  const TensorTypeTraits& traits = Traits(source.type);
  KVASIR_CHECK(source.rows > 0 && source.cols > 0 && source.bytes != nullptr);
  if (source.cols % traits.block_elements != 0) {
    return MakeError(ErrorCode::kCorrupt, "rows of {} values are not whole blocks of {} ({})", source.cols, traits.name,
                     traits.block_elements);
  }
  std::unique_ptr<CpuMatrix> matrix(new CpuMatrix(source.type, source.rows, source.cols));
  if (compute == Compute::kFast && IsQuantized(source.type)) {
    matrix->quant_ = &kernels.quant[PanelIndex(source.type)];
    matrix->panel_rows_ = kernels.lanes;
    matrix->panel_bytes_ = matrix->quant_->spec.bytes(kernels.lanes, source.cols / kBlock);
  } else {
    const bool keep_bits = compute == Compute::kFast;
    if (keep_bits && source.type == TensorType::kF16) matrix->float_kind_ = FloatKind::kF16;
    if (keep_bits && source.type == TensorType::kBF16) matrix->float_kind_ = FloatKind::kBF16;
    matrix->panel_rows_ = kFloatRows;
    matrix->panel_bytes_ = source.cols * kFloatRows * (matrix->float_kind_ == FloatKind::kF32 ? 4 : 2);
  }
  const int64_t panels = (source.rows + matrix->panel_rows_ - 1) / matrix->panel_rows_;
  KVASIR_ASSIGN_OR_RETURN(matrix->data_, Mapping::Create(static_cast<size_t>(panels * matrix->panel_bytes_)));
  pool.Run(panels, [&](int64_t index, int) {
    if (matrix->quant_ != nullptr) {
      matrix->PackQuantPanel(source, index);
    } else {
      matrix->PackFloatPanel(source, index);
    }
  });
  return std::unique_ptr<Matrix>(std::move(matrix));
}

void CpuMatrix::PackQuantPanel(const MatrixSource& source, int64_t index) {
  const PanelSpec& spec = quant_->spec;
  const bool rounded = spec.scale == ScaleKind::kFloat;
  const int64_t row_bytes = *TensorBytes(type(), cols());
  const int64_t first = index * panel_rows_;
  const int count = static_cast<int>(std::min<int64_t>(panel_rows_, rows() - first));
  const int64_t blocks = cols() / kBlock;
  std::byte* panel = data_.address() + index * panel_bytes_;
  std::vector<float> decoded(rounded ? static_cast<size_t>(cols()) : 0);
  for (int lane = 0; lane < count; ++lane) {
    const std::byte* row = source.bytes + (first + lane) * row_bytes;
    if (rounded) Decode(type(), row, cols(), decoded.data());
    for (int64_t group = 0; group < blocks; group += kGroupBlocks) {
      const int in_group = static_cast<int>(std::min<int64_t>(kGroupBlocks, blocks - group));
      GroupWriter writer(spec, panel_rows_, panel + spec.bytes(panel_rows_, group), in_group, lane);
      for (int64_t block = group; block < group + in_group; ++block) {
        if (rounded) {
          writer.WriteRounded(decoded.data() + block * kBlock);
        } else {
          writer.WriteScaledIntegers(UnpackQuantBlock(type(), row, block));
        }
      }
    }
  }
}

void CpuMatrix::PackFloatPanel(const MatrixSource& source, int64_t index) {
  const int64_t row_bytes = *TensorBytes(type(), cols());
  const int64_t first = index * panel_rows_;
  const int count = static_cast<int>(std::min<int64_t>(panel_rows_, rows() - first));
  std::byte* panel = data_.address() + index * panel_bytes_;
  // A stretch of every row at a time: what is written together stays in the first cache.
  constexpr int64_t kStretch = 256;  // whole blocks of every type
  float decoded[kStretch];
  for (int64_t k = 0; k < cols(); k += kStretch) {
    const int64_t values = std::min(kStretch, cols() - k);
    const int64_t offset = *TensorBytes(type(), k);
    for (int lane = 0; lane < count; ++lane) {
      const std::byte* from = source.bytes + (first + lane) * row_bytes + offset;
      if (float_kind_ == FloatKind::kF32) {
        Decode(type(), from, values, decoded);
        for (int64_t i = 0; i < values; ++i) std::memcpy(panel + ((k + i) * kFloatRows + lane) * 4, &decoded[i], 4);
      } else {
        for (int64_t i = 0; i < values; ++i) std::memcpy(panel + ((k + i) * kFloatRows + lane) * 2, from + i * 2, 2);
      }
    }
  }
}

void CpuMatrix::ReadRow(int64_t row, float* out) const {
  const std::byte* from = panel(row / panel_rows_);
  const int lane = static_cast<int>(row % panel_rows_);
  if (quant_ == nullptr) {
    for (int64_t k = 0; k < cols(); ++k) {
      const int64_t at = k * kFloatRows + lane;
      switch (float_kind_) {
        case FloatKind::kF32:
          out[k] = ReadPanel<float>(from + 4 * at);
          break;
        case FloatKind::kF16:
          out[k] = HalfToFloat(ReadPanel<Half>(from + 2 * at));
          break;
        case FloatKind::kBF16:
          out[k] = BFloat16ToFloat(ReadPanel<BFloat16>(from + 2 * at));
          break;
      }
    }
    return;
  }
  const PanelSpec& spec = quant_->spec;
  const int64_t blocks = cols() / kBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t group = block / kGroupBlocks * kGroupBlocks;
    const int count = static_cast<int>(std::min<int64_t>(kGroupBlocks, blocks - group));
    const PanelBlock values = ReadPanelBlock(spec, panel_rows_, from + spec.bytes(panel_rows_, group), count,
                                             static_cast<int>(block - group), lane);
    for (int i = 0; i < kBlock; ++i) {
      const int sub = i / spec.sub;
      out[block * kBlock + i] = values.scale[sub] * static_cast<float>(values.codes[i]) + values.min[sub];
    }
  }
}

}  // namespace kvasir::backend::cpu
