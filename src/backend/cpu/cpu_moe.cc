// Mixture of experts: every chosen (row, expert) pair is an entry; entries are grouped by expert, so that an expert's
// weights are read once for all the rows that chose it, and summed per row in rank order, so that a row's bits do not
// depend on its neighbours.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/cpu/activation_rows.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/math/math.h"
#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

struct Choice {
  int expert = 0;
  float weight = 0;
};

// The top_k experts of one row by probability, ties to the lower index, in rank order.
std::vector<Choice> Choose(std::span<const float> logits, const MoeArgs& args, ArrayFunction exp) {
  const int experts = static_cast<int>(logits.size());
  std::vector<float> probabilities(logits.begin(), logits.end());
  const float largest = *std::max_element(logits.begin(), logits.end());
  for (float& p : probabilities) p -= largest;
  exp(probabilities.data(), probabilities.data(), experts);
  float total = 0;
  for (const float p : probabilities) total += p;
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + args.top_k, order.end(), [&](int a, int b) {
    const float pa = probabilities[static_cast<size_t>(a)], pb = probabilities[static_cast<size_t>(b)];
    return pa > pb || (pa == pb && a < b);
  });
  float chosen_total = 0;
  for (int rank = 0; rank < args.top_k; ++rank) {
    chosen_total += probabilities[static_cast<size_t>(order[static_cast<size_t>(rank)])];
  }
  const float divisor = args.normalize ? chosen_total : total;
  std::vector<Choice> choices;
  for (int rank = 0; rank < args.top_k; ++rank) {
    const int expert = order[static_cast<size_t>(rank)];
    choices.push_back({expert, probabilities[static_cast<size_t>(expert)] / divisor * args.weight_scale});
  }
  return choices;
}

void CopyRow(const Activations& from, int64_t from_row, const Activations& to, int64_t to_row, int64_t cols) {
  const RowOut source = RowAt(from, from_row, cols), target = RowAt(to, to_row, cols);
  const auto count = static_cast<size_t>(cols);
  std::memcpy(target.f32, source.f32, count * sizeof(float));
  if (target.codes == nullptr) return;
  std::memcpy(target.codes, source.codes, count);
  std::memcpy(target.scales, source.scales, count / kBlock * sizeof(float));
  std::memcpy(target.sums, source.sums, count / kBlock * sizeof(float));
}

// One expert and the rows that go through it.
struct Work {
  const Expert* expert;
  int rows;
  Activations x;       // [rows, cols]
  Activations hidden;  // [rows, expert->gate->rows()]
  float* out;          // [rows, cols]
};

}  // namespace

void CpuBackend::MoeFfn(const MoeArgs& args) {
  if (args.rows == 0) return;
  const int64_t cols = args.router->cols();
  const auto experts = static_cast<size_t>(args.router->rows());
  KVASIR_CHECK(args.experts.size() == experts && args.top_k >= 1 && args.top_k <= args.router->rows());
  const auto rows = static_cast<size_t>(args.rows), top_k = static_cast<size_t>(args.top_k);

  const auto product = [&](const Matrix* weight, std::vector<float>& out) {
    out.resize(rows * static_cast<size_t>(weight->rows()));
    const Product one = {weight, nullptr, out.data(), weight->rows()};
    MatMul({.x = args.x, .rows = args.rows, .products = {&one, 1}});
  };
  std::vector<float> logits, shared_logits;
  product(args.router, logits);
  if (args.shared != nullptr && args.shared_gate != nullptr) {
    product(args.shared_gate, shared_logits);
    row_kernels_.sigmoid(shared_logits.data(), args.rows, shared_logits.data());
  }

  // Entries lie expert by expert, inside an expert by row.
  std::vector<std::vector<Choice>> choices(rows);
  std::vector<int> entries_of(experts);
  for (size_t row = 0; row < rows; ++row) {
    choices[row] = Choose({logits.data() + row * experts, experts}, args, ExpArray(level_));
    for (const Choice& choice : choices[row]) ++entries_of[static_cast<size_t>(choice.expert)];
  }
  std::vector<int> next(experts);
  std::exclusive_scan(entries_of.begin(), entries_of.end(), next.begin(), 0);
  const std::vector<int> first = next;
  std::vector<int> entry_of(rows * top_k);
  const Activations gathered = moe_input_.Resize(static_cast<int64_t>(rows * top_k), cols, args.x.codes != nullptr);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t rank = 0; rank < top_k; ++rank) {
      const int entry = next[static_cast<size_t>(choices[row][rank].expert)]++;
      entry_of[row * top_k + rank] = entry;
      CopyRow(args.x, static_cast<int64_t>(row), gathered, entry, cols);
    }
  }

  std::vector<Work> work;
  std::vector<float> routed_out(rows * top_k * static_cast<size_t>(cols)), shared_out;
  const int64_t hidden_cols = args.experts[0].gate->rows();
  const Activations hidden =
      moe_hidden_.Resize(static_cast<int64_t>(rows * top_k), hidden_cols, Quantizes(hidden_cols));
  for (size_t e = 0; e < experts; ++e) {
    if (entries_of[e] == 0) continue;
    KVASIR_CHECK(args.experts[e].gate->rows() == hidden_cols);
    work.push_back({&args.experts[e], entries_of[e], RowsFrom(gathered, first[e], cols),
                    RowsFrom(hidden, first[e], hidden_cols), routed_out.data() + first[e] * cols});
  }
  if (args.shared != nullptr) {
    const int64_t shared_cols = args.shared->gate->rows();
    shared_out.resize(rows * static_cast<size_t>(cols));
    work.push_back({args.shared, args.rows, args.x,
                    moe_shared_hidden_.Resize(args.rows, shared_cols, Quantizes(shared_cols)), shared_out.data()});
  }

  std::vector<PackedColumns> inputs(work.size());
  std::vector<ProductJob> jobs(work.size());
  const auto glu = args.activation == Activation::kSilu ? row_kernels_.glu_silu : row_kernels_.glu_gelu;
  for (size_t i = 0; i < work.size(); ++i) {
    inputs[i].Reset(work[i].x, work[i].rows, cols);
    jobs[i] = {&CpuMatrix::From(work[i].expert->gate), &CpuMatrix::From(work[i].expert->up), &inputs[i]};
  }
  products_.Run(jobs, [&](const ChunkSums& sums) {
    const Work& to = work[static_cast<size_t>(sums.job)];
    for (int c = 0; c < sums.columns; ++c) {
      glu(sums.first + c * kChunkRows, sums.second + c * kChunkRows, sums.rows,
          RowAt(to.hidden, sums.column + c, to.expert->gate->rows(), sums.row));
    }
  });
  for (size_t i = 0; i < work.size(); ++i) {
    inputs[i].Reset(work[i].hidden, work[i].rows, work[i].expert->gate->rows());
    jobs[i] = {&CpuMatrix::From(work[i].expert->down), nullptr, &inputs[i]};
  }
  products_.Run(jobs, [&](const ChunkSums& sums) {
    const Work& to = work[static_cast<size_t>(sums.job)];
    for (int c = 0; c < sums.columns; ++c) {
      std::memcpy(to.out + (sums.column + c) * cols + sums.row, sums.first + c * kChunkRows,
                  static_cast<size_t>(sums.rows) * sizeof(float));
    }
  });

  const auto add_row = [&](int64_t row, int) {
    float* out = args.out + row * cols;
    for (int64_t k = 0; k < cols; ++k) {
      float sum = 0;
      for (size_t rank = 0; rank < top_k; ++rank) {
        const size_t entry = static_cast<size_t>(row) * top_k + rank;
        sum += choices[static_cast<size_t>(row)][rank].weight *
               routed_out[static_cast<size_t>(entry_of[entry] * cols + k)];
      }
      if (args.shared != nullptr) {
        const float gate = shared_logits.empty() ? 1.0f : shared_logits[static_cast<size_t>(row)];
        sum += gate * shared_out[static_cast<size_t>(row * cols + k)];
      }
      out[k] += sum;
    }
  };
  pool_.Run(args.rows, std::cref(add_row));
}

}  // namespace kvasir::backend::cpu
