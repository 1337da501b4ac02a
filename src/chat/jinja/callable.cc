#include "chat/jinja/callable.h"

#include <algorithm>

#include "chat/jinja/fail.h"
#include "chat/jinja/heap.h"

namespace kvasir::chat::jinja {

Status Nesting::Check() const {
  Heap& heap = runtime_->heap;
  if (!heap.Step()) return heap.ExhaustedError();
  if (runtime_->depth > heap.limits().depth) {
    return MakeError(ErrorCode::kResourceExhausted, "the chat template recurses more than {} levels deep",
                     heap.limits().depth);
  }
  return {};
}

Result<std::vector<const Value*>> Bind(std::string_view function, const Args& args,
                                       std::initializer_list<std::string_view> names, size_t required) {
  std::vector<const Value*> bound(names.size(), nullptr);
  if (args.positional.size() > names.size()) {
    return Fail("{} takes at most {} arguments but {} were given", function, names.size(), args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) bound[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto* const it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) return Fail("{} got an unexpected argument '{}'", function, name);
    const auto at = static_cast<size_t>(it - names.begin());
    if (bound[at] != nullptr) return Fail("{} got two values for the argument '{}'", function, name);
    bound[at] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) return Fail("{} needs the argument '{}'", function, names.begin()[i]);
  }
  return bound;
}

}  // namespace kvasir::chat::jinja
