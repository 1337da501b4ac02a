#include "backend/sim/sim_backend.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "backend/cpu/memory.h"
#include "base/check.h"
#include "base/hash.h"

namespace kvasir::backend::sim {
namespace {

constexpr double kCopyLatencySeconds = 10e-6;
constexpr double kDeviceBytesPerSecond = 1e12;  // of copies inside the device
constexpr int kPoison = 0xFF;

// A weight of the CPU backend whose bytes count as device memory.
class SimMatrix : public Matrix {
 public:
  SimMatrix(std::unique_ptr<Matrix> inner, DeviceMemory* memory)
      : Matrix(inner->type(), inner->rows(), inner->cols()), inner_(std::move(inner)), memory_(memory) {}
  ~SimMatrix() override { memory_->Refund(inner_->bytes()); }
  size_t bytes() const override { return inner_->bytes(); }
  const Matrix* inner() const { return inner_.get(); }

 private:
  std::unique_ptr<Matrix> inner_;
  DeviceMemory* memory_;
};

bool Overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  return std::less<>()(a, b + b_bytes) && std::less<>()(b, a + a_bytes);
}

// Whether `later` reads what `earlier` writes, or writes what it reads.
bool Conflict(std::span<const CopyItem> earlier, std::span<const CopyItem> later) {
  for (const CopyItem& first : earlier) {
    for (const CopyItem& second : later) {
      if (Overlap(first.to, first.bytes, second.from, second.bytes)) return true;
      if (Overlap(first.from, first.bytes, second.to, second.bytes)) return true;
    }
  }
  return false;
}

uint64_t SourceChecksum(std::span<const CopyItem> items) {
  uint64_t sum = 0;
  for (const CopyItem& item : items) sum = sum * 1099511628211u + Checksum({item.from, item.bytes});
  return sum;
}

}  // namespace

SimBackend::SimBackend(std::unique_ptr<Backend> cpu, std::unique_ptr<DeviceMemory> memory, double link_bytes_per_second)
    : memory_(std::move(memory)), cpu_(std::move(cpu)), link_bytes_per_second_(link_bytes_per_second) {
  // "cpu/avx512/fast/1" -> "sim/avx512/fast/1": the bits are the same, but pages of a device are not pages of the host.
  profile_ = cpu_->profile();
  profile_.numerics = "sim" + profile_.numerics.substr(profile_.kind.size());
  profile_.kind = "sim";
  profile_.device_bytes = memory_->bytes();
  profile_.device_is_host = false;
}

SimBackend::~SimBackend() = default;

Result<Buffer> SimBackend::Allocate(MemoryKind kind, size_t bytes) {
  if (kind == MemoryKind::kDevice) {
    KVASIR_ASSIGN_OR_RETURN(std::byte * address, memory_->Allocate(bytes));
    return Buffer(this, kind, address, bytes);
  }
  KVASIR_ASSIGN_OR_RETURN(std::byte * address, cpu::MapMemory(std::max<size_t>(bytes, 1)));
  return Buffer(this, kind, address, bytes);
}

void SimBackend::Free(MemoryKind kind, std::byte* address, size_t bytes) {
  if (kind == MemoryKind::kDevice) {
    CheckNotInFlight(memory_->Alias(address), bytes);
    memory_->Free(address);
  } else {
    CheckNotInFlight(address, bytes);
    cpu::UnmapMemory(address, std::max<size_t>(bytes, 1));
  }
}

void SimBackend::CheckNotInFlight(const std::byte* begin, size_t bytes) const {
  for (const Queue& queue : queues_) {
    for (const Flight& flight : queue.flights) {
      for (const CopyItem& item : flight.items) {
        KVASIR_CHECK(!Overlap(begin, bytes, item.to, item.bytes) && !Overlap(begin, bytes, item.from, item.bytes),
                     "memory freed while copy {} is in flight", flight.event);
      }
    }
  }
}

Result<std::unique_ptr<Matrix>> SimBackend::LoadMatrix(const MatrixSource& source) {
  KVASIR_ASSIGN_OR_RETURN(std::unique_ptr<Matrix> inner, cpu_->LoadMatrix(source));
  KVASIR_RETURN_IF_ERROR(memory_->Charge(inner->bytes()));
  return std::unique_ptr<Matrix>(std::make_unique<SimMatrix>(std::move(inner), memory_.get()));
}

const Matrix* SimBackend::Inner(const Matrix* matrix) const {
  return matrix == nullptr ? nullptr : static_cast<const SimMatrix*>(matrix)->inner();
}

Activations SimBackend::Alias(const Activations& x) const {
  return {.f32 = memory_->Alias(x.f32),
          .codes = memory_->Alias(x.codes),
          .scales = memory_->Alias(x.scales),
          .sums = memory_->Alias(x.sums)};
}

void SimBackend::Embed(const EmbedArgs& args) {
  EmbedArgs real = args;
  real.table = Inner(args.table);
  real.out = memory_->Alias(args.out);
  cpu_->Embed(real);
}

void SimBackend::Norm(const NormArgs& args) {
  NormArgs real = args;
  real.x = memory_->Alias(args.x);
  real.weight = memory_->Alias(args.weight);
  real.out = Alias(args.out);
  cpu_->Norm(real);
}

void SimBackend::NormAdd(const NormAddArgs& args) {
  NormAddArgs real = args;
  real.x = memory_->Alias(args.x);
  real.weight = memory_->Alias(args.weight);
  real.residual = memory_->Alias(args.residual);
  cpu_->NormAdd(real);
}

void SimBackend::MatMul(const MatMulArgs& args) {
  MatMulArgs real = args;
  real.x = Alias(args.x);
  std::vector<Product> products(args.products.begin(), args.products.end());
  for (Product& product : products) {
    product.weight = Inner(product.weight);
    product.bias = memory_->Alias(product.bias);
    product.out = memory_->Alias(product.out);
  }
  real.products = products;
  cpu_->MatMul(real);
}

void SimBackend::Glu(const GluArgs& args) {
  GluArgs real = args;
  real.x = Alias(args.x);
  real.gate = Inner(args.gate);
  real.up = Inner(args.up);
  real.out = Alias(args.out);
  cpu_->Glu(real);
}

void SimBackend::MoeFfn(const MoeArgs& args) {
  const auto inner = [this](const Expert& expert) {
    return Expert{.gate = Inner(expert.gate), .up = Inner(expert.up), .down = Inner(expert.down)};
  };
  MoeArgs real = args;
  real.x = Alias(args.x);
  real.router = Inner(args.router);
  std::vector<Expert> experts;
  for (const Expert& expert : args.experts) experts.push_back(inner(expert));
  real.experts = experts;
  const Expert shared = args.shared == nullptr ? Expert{} : inner(*args.shared);
  real.shared = args.shared == nullptr ? nullptr : &shared;
  real.shared_gate = Inner(args.shared_gate);
  real.out = memory_->Alias(args.out);
  cpu_->MoeFfn(real);
}

void SimBackend::RopeAppend(const RopeAppendArgs& args) {
  RopeAppendArgs real = args;
  real.q = memory_->Alias(args.q);
  real.k = memory_->Alias(args.k);
  real.v = memory_->Alias(args.v);
  real.q_norm = memory_->Alias(args.q_norm);
  real.k_norm = memory_->Alias(args.k_norm);
  real.cos_sin = memory_->Alias(args.cos_sin);
  std::vector<std::byte*> pages;
  for (std::byte* page : args.pages) pages.push_back(memory_->Alias(page));
  real.pages = pages;
  cpu_->RopeAppend(real);
}

void SimBackend::Attend(const AttendArgs& args) {
  AttendArgs real = args;
  real.q = memory_->Alias(args.q);
  std::vector<AttendTask> tasks(args.tasks.begin(), args.tasks.end());
  for (AttendTask& task : tasks) {
    for (const std::byte*& page : task.pages) page = memory_->Alias(page);
    task.partial = memory_->Alias(task.partial);
  }
  real.tasks = tasks;
  cpu_->Attend(real);
}

void SimBackend::Merge(const MergeArgs& args) {
  MergeArgs real = args;
  std::vector<MergeTask> tasks(args.tasks.begin(), args.tasks.end());
  for (MergeTask& task : tasks) task.partials = memory_->Alias(task.partials);
  real.tasks = tasks;
  real.out = memory_->Alias(args.out);
  cpu_->Merge(real);
}

void SimBackend::ClearPageRows(std::byte* page, const PageFormat& format, int from_row) {
  cpu_->ClearPageRows(memory_->Alias(page), format, from_row);
}

Event SimBackend::Copy(CopyDirection direction, std::span<const CopyItem> items) {
  const bool from_device = direction != CopyDirection::kHostToDevice;
  const bool to_device = direction != CopyDirection::kDeviceToHost;
  Queue& queue = queues_[static_cast<size_t>(direction)];
  Flight flight{.event = ++last_event_, .done = 0, .items = {items.begin(), items.end()}, .source_checksum = 0};
  size_t bytes = 0;
  for (CopyItem& item : flight.items) {
    KVASIR_CHECK(memory_->Contains(item.from) == from_device && memory_->Contains(item.to) == to_device,
                 "a copy's addresses do not fit its direction");
    if (from_device) item.from = memory_->Alias(item.from);
    if (to_device) item.to = memory_->Alias(item.to);
    bytes += item.bytes;
  }
  // A later copy of the same queue may use what an earlier one moves: then the earlier one has to land first.
  while (!queue.flights.empty() && std::any_of(queue.flights.begin(), queue.flights.end(), [&](const Flight& earlier) {
    return Conflict(earlier.items, flight.items);
  })) {
    Land(queue);
  }
  flight.source_checksum = SourceChecksum(flight.items);
  for (const CopyItem& item : flight.items) std::memset(item.to, kPoison, item.bytes);

  const double rate = from_device && to_device ? kDeviceBytesPerSecond : link_bytes_per_second_;
  const double seconds = static_cast<double>(bytes) / rate + kCopyLatencySeconds;
  queue.free_at = std::max(queue.free_at, now_) + seconds;
  flight.done = queue.free_at;
  queue.statistics.copies += 1;
  queue.statistics.bytes += static_cast<int64_t>(bytes);
  queue.statistics.busy_seconds += seconds;
  queue.flights.push_back(std::move(flight));
  return last_event_;
}

// Finishes the queue's first copy.
void SimBackend::Land(Queue& queue) {
  const Flight flight = std::move(queue.flights.front());
  queue.flights.pop_front();
  KVASIR_CHECK(SourceChecksum(flight.items) == flight.source_checksum, "the source of copy {} changed in flight",
               flight.event);
  for (const CopyItem& item : flight.items) std::memcpy(item.to, item.from, item.bytes);
  now_ = std::max(now_, flight.done);
}

void SimBackend::Wait(Event event) {
  KVASIR_CHECK(event <= last_event_, "event {} was never returned by Copy", event);
  for (Queue& queue : queues_) {
    const bool here = std::any_of(queue.flights.begin(), queue.flights.end(),
                                  [event](const Flight& flight) { return flight.event == event; });
    while (here && !queue.flights.empty() && queue.flights.front().event <= event) Land(queue);
  }
}

void SimBackend::Synchronize() {
  for (Queue& queue : queues_) {
    while (!queue.flights.empty()) Land(queue);
  }
}

const LinkStatistics& SimBackend::statistics(CopyDirection direction) const {
  return queues_[static_cast<size_t>(direction)].statistics;
}

void SimBackend::Peek(const void* device, void* to, size_t bytes) const {
  std::memcpy(to, memory_->Alias(static_cast<const std::byte*>(device)), bytes);
}

void SimBackend::Poke(void* device, const void* from, size_t bytes) {
  std::memcpy(memory_->Alias(static_cast<std::byte*>(device)), from, bytes);
}

}  // namespace kvasir::backend::sim
