#include <ctime>

#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_text.h"

namespace kvasir::chat::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // the sandbox's own limit

Result<Value> Range(Runtime& runtime, const Value& /*self*/, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("range", args, {"start", "stop", "step"}, 1));
  int64_t start = 0, stop = 0, step = 1;
  KVASIR_ASSIGN_OR_RETURN(stop, ToIndex(*bound[0]));
  if (bound[1] != nullptr) {
    start = stop;
    KVASIR_ASSIGN_OR_RETURN(stop, ToIndex(*bound[1]));
  }
  if (bound[2] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(step, ToIndex(*bound[2]));
  }
  if (step == 0) return Fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() == kMaxRange) return Fail("range too big, a template may make at most {} items", kMaxRange);
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value(runtime.heap.NewList(std::move(items), List::Form::kRange));
}

// dict(pairs or mapping, name=value, ...)
Status FillDict(Runtime& runtime, const Args& args, Dict& dict) {
  if (args.positional.size() > 1) return Fail("expected at most 1 argument, got {}", args.positional.size());
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.dict() != nullptr) {
      for (const auto& [key, value] : source.dict()->entries()) dict.Set(key, value);
    } else {
      KVASIR_ASSIGN_OR_RETURN(const List* pairs, Iterate(runtime, source));
      for (size_t i = 0; i < pairs->size(); ++i) {
        KVASIR_ASSIGN_OR_RETURN(const List* pair, Iterate(runtime, pairs->at(i)));
        if (pair->size() != 2 || !Hashable(pair->at(0))) return Fail("a dict needs pairs of key and value");
        dict.Set(pair->at(0), pair->at(1));
      }
    }
  }
  for (const auto& [name, value] : args.named) dict.Set(Value(runtime.heap.NewText(name)), value);
  runtime.heap.Charge(dict.size() * sizeof(Dict::Entry));
  return {};
}

Result<Value> MakeDict(Runtime& runtime, const Value& /*self*/, const Args& args) {
  Dict* dict = runtime.heap.NewDict();
  KVASIR_RETURN_IF_ERROR(FillDict(runtime, args, *dict));
  return Value(dict);
}

Result<Value> MakeNamespace(Runtime& runtime, const Value& /*self*/, const Args& args) {
  Namespace* space = runtime.heap.NewNamespace();
  KVASIR_RETURN_IF_ERROR(FillDict(runtime, args, space->attributes));
  return Value(space);
}

Result<Value> RaiseException(Runtime& runtime, const Value& /*self*/, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("raise_exception", args, {"message"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const Text message, Str(runtime.heap, *bound[0]));
  return Error(ErrorCode::kInvalidArgument, std::string(message.view()));
}

Result<Value> StrftimeNow(Runtime& runtime, const Value& /*self*/, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("strftime_now", args, {"format"}, 1));
  if (bound[0]->text() == nullptr) return Fail("strftime_now needs a format, not {}", TypeName(*bound[0]));
  const std::string format(bound[0]->str());
  char buffer[512];
  // The marker tells an empty result from one that did not fit.
  const size_t size = std::strftime(buffer, sizeof(buffer), ("." + format).c_str(), &runtime.now);
  if (size == 0) return Fail("the date format is too long");
  return Value(runtime.heap.NewText(std::string_view(buffer, size).substr(1)));
}

constexpr std::pair<std::string_view, Function> kGlobals[] = {
    {"range", Range},
    {"dict", MakeDict},
    {"namespace", MakeNamespace},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
};

}  // namespace

std::span<const std::pair<std::string_view, Function>> Globals() {
  return kGlobals;
}

}  // namespace kvasir::chat::jinja
