// chat/jinja/heap.h
// The memory and the budget of one rendering.
//
// Everything a template computes lives here until the rendering ends. Allocation never fails at the call: going over a
// limit makes the heap `exhausted`, builders then drop what they are given, and the interpreter stops at its next step.
// So no operation has to carry an out-of-budget path, and the overshoot is at most what one operation adds to existing
// values.
//
// Thread rule: one rendering, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/callable.h"
#include "chat/jinja/value.h"

namespace kvasir::chat::jinja {

struct Limits {
  uint64_t steps = 50'000'000;            // evaluated nodes, and one per 256 bytes that an operation walks
  size_t heap_bytes = size_t{256} << 20;  // all values ever made
  size_t output_bytes = size_t{64} << 20;
  int depth = 1000;  // nested evaluations, macros included
};

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const Limits& limits() const { return limits_; }

  // False once a limit is passed.
  bool Charge(size_t bytes) {
    heap_bytes_ += bytes;
    if (heap_bytes_ > limits_.heap_bytes) exhausted_ = true;
    return !exhausted_;
  }
  bool Step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) exhausted_ = true;
    return !exhausted_;
  }
  void Walk(size_t bytes) { Step(bytes >> 8); }
  bool exhausted() const { return exhausted_; }
  // REQUIRES: exhausted().
  Error ExhaustedError() const;

  Buffer* NewBuffer() { return New(buffers_); }
  Text NewText(std::string_view bytes, Origin origin = {});
  List* NewList(std::vector<Value> items, List::Form form = List::Form::kList, Origin origin = {});
  Dict* NewDict(Origin origin = {});
  Namespace* NewNamespace() { return New(namespaces_); }
  Callable* NewCallable() { return New(callables_); }
  Loop* NewLoop() { return New(loops_); }
  Value NewUndefined(std::string_view name, std::string_view object = {}, bool unsafe = false);

  // a + b; extends a's storage when a ends it.
  Text Concat(const Text& a, const Text& b);
  List* Concat(const List& a, std::span<const Value> b);

 private:
  template <typename T>
  T* New(std::deque<T>& pool) {
    Charge(sizeof(T));
    return &pool.emplace_back();
  }

  Limits limits_;
  uint64_t steps_ = 0;
  size_t heap_bytes_ = 0;
  bool exhausted_ = false;

  std::deque<Buffer> buffers_;
  std::deque<List> lists_;
  std::deque<std::vector<Value>> stores_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Callable> callables_;
  std::deque<Loop> loops_;
  std::deque<Undefined> undefineds_;
};

// Puts a text together from pieces, keeping their origins.
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(&heap) {}

  void Append(std::string_view bytes, Origin origin = {});
  void Append(const Text& text);
  void AppendRepeated(std::string_view bytes, int64_t count, Origin origin = {});
  size_t size() const { return buffer_ == nullptr ? 0 : buffer_->bytes().size(); }
  // What was appended so far; more may be appended after it.
  Text Finish() const;

 private:
  bool Reserve(size_t bytes);

  Heap* heap_;
  Buffer* buffer_ = nullptr;
};

}  // namespace kvasir::chat::jinja
