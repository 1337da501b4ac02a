#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/operators.h"

namespace kvasir::chat::jinja {
namespace {

using Form = List::Form;
using Table = std::pair<std::string_view, Method>;

Result<Value> DictGet(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("get", args, {"key", "default"}, 1));
  if (!Hashable(*bound[0])) return Fail("unhashable type: '{}'", TypeName(*bound[0]));
  if (const Value* found = self.dict()->Find(*bound[0]); found != nullptr) return *found;
  return bound[1] != nullptr ? *bound[1] : Value::None();
}

// Views take the dict as it is now; templates cannot change it while they look.
Result<Value> DictItems(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("items", args, {}));
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries()) {
    items.emplace_back(runtime.heap.NewList({key, value}, Form::kTuple, self.dict()->origin));
  }
  return Value(runtime.heap.NewList(std::move(items), Form::kItems, self.dict()->origin));
}

template <bool kKeys>
Result<Value> DictColumn(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind(kKeys ? "keys" : "values", args, {}));
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries()) items.push_back(kKeys ? key : value);
  return Value(runtime.heap.NewList(std::move(items), kKeys ? Form::kKeys : Form::kValues, self.dict()->origin));
}

Result<Value> DictCopy(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("copy", args, {}));
  Dict* copy = runtime.heap.NewDict();
  *copy = *self.dict();
  runtime.heap.Charge(copy->size() * sizeof(Dict::Entry));
  return Value(copy);
}

Result<Value> DictPop(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("pop", args, {"key", "default"}, 1));
  const Value* found = self.dict()->Find(*bound[0]);
  if (found == nullptr) return bound[1] != nullptr ? Result<Value>(*bound[1]) : Fail("no such key in pop()");
  const Value value = *found;
  self.dict()->Erase(*bound[0]);
  return value;
}

Result<Value> DictUpdate(Runtime& runtime, const Value& self, const Args& args) {
  for (const Value& source : args.positional) {
    if (source.dict() == nullptr) return Fail("update() needs a dict, not {}", TypeName(source));
    const std::vector<Dict::Entry> entries = source.dict()->entries();
    for (const auto& [key, value] : entries) self.dict()->Set(key, value);
    runtime.heap.Charge(entries.size() * sizeof(Dict::Entry));
  }
  for (const auto& [name, value] : args.named) self.dict()->Set(Value(runtime.heap.NewText(name)), value);
  return Value::None();
}

Result<Value> DictSetDefault(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("setdefault", args, {"key", "default"}, 1));
  if (const Value* found = self.dict()->Find(*bound[0]); found != nullptr) return *found;
  if (!Hashable(*bound[0])) return Fail("unhashable type: '{}'", TypeName(*bound[0]));
  const Value value = bound[1] != nullptr ? *bound[1] : Value::None();
  self.dict()->Set(*bound[0], value);
  runtime.heap.Charge(sizeof(Dict::Entry));
  return value;
}

Result<Value> DictClear(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  const Origin origin = self.dict()->origin;
  *self.dict() = Dict();
  self.dict()->origin = origin;
  return Value::None();
}

Result<Value> ListCount(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("count", args, {"value"}, 1));
  const auto items = self.list()->items();
  return Value::Int(std::count_if(items.begin(), items.end(), [&](const Value& v) { return Equals(v, *bound[0]); }));
}

Result<Value> ListIndex(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("index", args, {"value"}, 1));
  const auto items = self.list()->items();
  const auto it = std::find_if(items.begin(), items.end(), [&](const Value& v) { return Equals(v, *bound[0]); });
  if (it == items.end()) return Fail("the value is not in the list");
  return Value::Int(it - items.begin());
}

Result<Value> ListCopy(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("copy", args, {}));
  return Value(runtime.heap.Concat(*self.list(), {}));
}

// A list that changes gets storage of its own first: the old one may be shared with its slices and sums.
std::vector<Value>& Own(Runtime& runtime, List& list) {
  const std::span<const Value> items = list.items();
  const List* fresh = runtime.heap.NewList(std::vector<Value>(items.begin(), items.end()));
  list.store = fresh->store;
  return *list.store;
}

Result<Value> ListAppend(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("append", args, {"value"}, 1));
  *self.list() = *runtime.heap.Concat(*self.list(), std::span<const Value>(bound[0], 1));
  return Value::None();
}

Result<Value> ListExtend(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("extend", args, {"values"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const List* added, Iterate(runtime, *bound[0]));
  *self.list() = *runtime.heap.Concat(*self.list(), added->items());
  return Value::None();
}

Result<Value> ListInsert(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("insert", args, {"index", "value"}, 2));
  KVASIR_ASSIGN_OR_RETURN(int64_t at, ToIndex(*bound[0]));
  List& list = *self.list();
  const auto size = static_cast<int64_t>(list.size());
  at = std::clamp<int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
  std::vector<Value>& items = Own(runtime, list);
  items.insert(items.begin() + at, *bound[1]);
  list.count = items.size();
  return Value::None();
}

Result<Value> ListPop(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("pop", args, {"index"}));
  int64_t at = -1;
  if (bound[0] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(at, ToIndex(*bound[0]));
  }
  List& list = *self.list();
  const auto size = static_cast<int64_t>(list.size());
  if (at < 0) at += size;
  if (at < 0 || at >= size) return Fail("pop index out of range");
  const Value value = list.at(static_cast<size_t>(at));
  std::vector<Value>& items = Own(runtime, list);
  items.erase(items.begin() + at);
  list.count = items.size();
  return value;
}

Result<Value> ListReverse(Runtime& runtime, const Value& self, const Args& /*args*/) {
  std::vector<Value>& items = Own(runtime, *self.list());
  std::reverse(items.begin(), items.end());
  return Value::None();
}

Result<Value> ListClear(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  self.list()->count = 0;
  return Value::None();
}

Result<Value> LoopCycle(Runtime& /*runtime*/, const Value& self, const Args& args) {
  if (args.positional.empty()) return Fail("no items for cycling given");
  return args.positional[self.loop()->index % args.positional.size()];
}

Result<Value> LoopChanged(Runtime& /*runtime*/, const Value& self, const Args& args) {
  Loop& loop = *self.loop();
  const bool same = loop.has_changed && loop.changed.size() == args.positional.size() &&
                    std::equal(loop.changed.begin(), loop.changed.end(), args.positional.begin(), Equals);
  loop.changed = args.positional;
  loop.has_changed = true;
  return Value::Bool(!same);
}

constexpr Table kDictMethods[] = {
    {"get", {DictGet}},
    {"items", {DictItems}},
    {"keys", {DictColumn<true>}},
    {"values", {DictColumn<false>}},
    {"copy", {DictCopy}},
    {"pop", {DictPop, true}},
    {"update", {DictUpdate, true}},
    {"setdefault", {DictSetDefault, true}},
    {"clear", {DictClear, true}},
};
constexpr Table kListMethods[] = {
    {"count", {ListCount}},         {"index", {ListIndex}},           {"copy", {ListCopy}},
    {"append", {ListAppend, true}}, {"extend", {ListExtend, true}},   {"insert", {ListInsert, true}},
    {"pop", {ListPop, true}},       {"reverse", {ListReverse, true}}, {"clear", {ListClear, true}},
};
constexpr Table kTupleMethods[] = {{"count", {ListCount}}, {"index", {ListIndex}}};
constexpr Table kLoopMethods[] = {{"cycle", {LoopCycle}}, {"changed", {LoopChanged}}};

template <size_t N>
Method FindIn(const Table (&table)[N], std::string_view name) {
  for (const Table& entry : table) {
    if (entry.first == name) return entry.second;
  }
  return {};
}

}  // namespace

Method FindContainerMethod(const Value& value, std::string_view name) {
  if (value.dict() != nullptr) return FindIn(kDictMethods, name);
  if (value.loop() != nullptr) return FindIn(kLoopMethods, name);
  if (value.list() == nullptr) return {};
  if (value.list()->form == Form::kList) return FindIn(kListMethods, name);
  if (value.list()->indexed()) return FindIn(kTupleMethods, name);
  return {};
}

Method FindMethod(const Value& value, std::string_view name) {
  return value.text() != nullptr ? FindTextMethod(name) : FindContainerMethod(value, name);
}

}  // namespace kvasir::chat::jinja
