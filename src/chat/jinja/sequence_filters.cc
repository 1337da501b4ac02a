#include "chat/jinja/sequence_filters.h"

#include <algorithm>
#include <optional>

#include "chat/jinja/ast.h"
#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/json_value.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_text.h"
#include "chat/jinja/text_operations.h"

namespace kvasir::chat::jinja {
namespace {

using Answer = Result<Value>;

bool IsTrue(const Value* value) {
  return value != nullptr && Truthy(*value);
}

Value NewGenerator(Runtime& runtime, std::vector<Value> items) {
  return Value(runtime.heap.NewList(std::move(items), List::Form::kGenerator));
}

// item.a.0.b for the path "a.0.b"; a missing last step gives `fallback` if there is one.
Answer FollowPath(Runtime& runtime, Value item, const Value& path, const Value* fallback) {
  if (path.IsIntLike()) return GetItem(runtime, item, path);
  if (path.text() == nullptr) return Fail("an attribute is a name or a number, not {}", TypeName(path));
  for (const Text& step : Split(*path.text(), ".", -1, false)) {
    const std::string name(step.view());
    const bool number = !name.empty() && name.size() < 10 &&
                        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    KVASIR_ASSIGN_OR_RETURN(item, GetItem(runtime, item, number ? Value::Int(std::atoi(name.c_str())) : Value(step)));
    if (item.is_undefined() && fallback != nullptr) item = *fallback;
  }
  return item;
}

// What sorting compares: the attribute if one is named, lower case unless case matters.
struct Key {
  const Value* attribute = nullptr;
  bool case_sensitive = false;

  Answer Of(Runtime& runtime, const Value& item) const {
    Value key = item;
    if (attribute != nullptr && !attribute->is_none()) {
      KVASIR_ASSIGN_OR_RETURN(key, FollowPath(runtime, item, *attribute, nullptr));
    }
    if (!case_sensitive && key.text() != nullptr) key = Value(Lower(runtime.heap, *key.text()));
    return key;
  }
};

// Stable, and Python's error if two keys have no order.
Result<std::vector<Value>> Sorted(Runtime& runtime, std::span<const Value> items, const std::vector<Value>& keys,
                                  bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::optional<Error> error;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (error.has_value()) return false;
    if (!runtime.heap.Step()) error = runtime.heap.ExhaustedError();
    const auto less = reverse ? Less(keys[b], keys[a]) : Less(keys[a], keys[b]);
    if (!less.ok()) error = less.error();
    return less.ok() && *less;
  });
  if (error.has_value()) return *error;
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Answer Extreme(Runtime& runtime, const Value& self, const Args& args, bool largest) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind(largest ? "max" : "min", args, {"case_sensitive", "attribute"}));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  if (list->size() == 0) return runtime.heap.NewUndefined("no aggregated item");
  const Key key{bound[1], IsTrue(bound[0])};
  Value best = list->at(0);
  KVASIR_ASSIGN_OR_RETURN(Value best_key, key.Of(runtime, best));
  for (size_t i = 1; i < list->size(); ++i) {
    KVASIR_ASSIGN_OR_RETURN(const Value other, key.Of(runtime, list->at(i)));
    KVASIR_ASSIGN_OR_RETURN(const bool better, largest ? Less(best_key, other) : Less(other, best_key));
    if (!better) continue;
    best = list->at(i);
    best_key = other;
  }
  return best;
}

// select, reject, selectattr, rejectattr: keeps items whose (attribute's) test, or truth, is `wanted`.
Answer Select(Runtime& runtime, const Value& self, const Args& args, bool by_attribute, bool wanted) {
  const size_t first = by_attribute ? 1 : 0;
  if (args.positional.size() < first) return Fail("missing parameter for attribute name");
  Function test = nullptr;
  Args test_args;
  test_args.named = args.named;
  if (args.positional.size() > first) {
    const Value& name = args.positional[first];
    test = FindTest(name.str());
    if (test == nullptr && Truthy(self)) return Fail("no test named '{}'", name.str().substr(0, 80));
    test_args.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                                args.positional.end());
  }
  std::vector<Value> kept;
  if (!Truthy(self)) return NewGenerator(runtime, std::move(kept));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  for (size_t i = 0; i < list->size(); ++i) {
    if (!runtime.heap.Step()) return runtime.heap.ExhaustedError();
    Value tested = list->at(i);
    if (by_attribute) {
      KVASIR_ASSIGN_OR_RETURN(tested, FollowPath(runtime, tested, args.positional[0], nullptr));
    }
    if (test != nullptr) {
      KVASIR_ASSIGN_OR_RETURN(tested, test(runtime, tested, test_args));
    }
    if (Truthy(tested) == wanted) kept.push_back(list->at(i));
  }
  return NewGenerator(runtime, std::move(kept));
}

}  // namespace

Result<Value> BatchFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("batch", args, {"linecount", "fill_with"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const int64_t size, ToIndex(*bound[0]));
  if (size < 1) return Fail("batches of {} items", size);
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  std::vector<Value> rows;
  const auto width = static_cast<size_t>(size);
  for (size_t at = 0; at < list->size(); at += std::min(width, list->size() - at)) {
    const auto part = list->items().subspan(at, std::min(width, list->size() - at));
    std::vector<Value> row(part.begin(), part.end());
    if (bound[1] != nullptr && !bound[1]->is_none() && row.size() < width) {
      if (!runtime.heap.Charge(width * sizeof(Value))) return runtime.heap.ExhaustedError();
      row.resize(width, *bound[1]);
    }
    rows.emplace_back(runtime.heap.NewList(std::move(row)));
  }
  return NewGenerator(runtime, std::move(rows));
}

Result<Value> SliceFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("slice", args, {"slices", "fill_with"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const int64_t count, ToIndex(*bound[0]));
  if (count < 1) return Fail("{} slices", count);
  if (!runtime.heap.Charge(sizeof(Value)) || !runtime.heap.Step(static_cast<uint64_t>(count))) {
    return runtime.heap.ExhaustedError();
  }
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  const auto slices = static_cast<size_t>(count);
  const size_t each = list->size() / slices, extra = list->size() % slices;
  std::vector<Value> rows;
  size_t at = 0;
  for (size_t i = 0; i < slices && !runtime.heap.exhausted(); ++i) {
    const size_t size = each + (i < extra ? 1 : 0);
    const auto part = list->items().subspan(at, size);
    std::vector<Value> row(part.begin(), part.end());
    if (bound[1] != nullptr && !bound[1]->is_none() && i >= extra) row.push_back(*bound[1]);
    rows.emplace_back(runtime.heap.NewList(std::move(row)));
    at += size;
  }
  return NewGenerator(runtime, std::move(rows));
}

Result<Value> DictSortFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  if (self.is_undefined()) return UndefinedError(self);
  if (self.dict() == nullptr) return Fail("'{}' object has no attribute 'items'", TypeName(self));
  const std::string_view by = bound[1] == nullptr ? "key" : bound[1]->str();
  if (by != "key" && by != "value") return Fail("you can only sort by either \"key\" or \"value\"");
  const Key key{nullptr, IsTrue(bound[0])};
  std::vector<Value> items, keys;
  for (const auto& [name, value] : self.dict()->entries()) {
    items.emplace_back(runtime.heap.NewList({name, value}, List::Form::kTuple, self.dict()->origin));
    KVASIR_ASSIGN_OR_RETURN(Value sort_key, key.Of(runtime, by == "key" ? name : value));
    keys.push_back(sort_key);
  }
  KVASIR_ASSIGN_OR_RETURN(std::vector<Value> sorted, Sorted(runtime, items, keys, IsTrue(bound[2])));
  return Value(runtime.heap.NewList(std::move(sorted), List::Form::kList, self.dict()->origin));
}

Result<Value> SortFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  const bool case_sensitive = IsTrue(bound[1]);
  std::vector<Value> keys;
  for (size_t i = 0; i < list->size(); ++i) {
    if (bound[2] == nullptr || bound[2]->text() == nullptr) {
      KVASIR_ASSIGN_OR_RETURN(Value key, Key({bound[2], case_sensitive}).Of(runtime, list->at(i)));
      keys.push_back(key);
      continue;
    }
    // "a,b" sorts by a, then by b.
    std::vector<Value> parts;
    for (const Text& name : Split(*bound[2]->text(), ",", -1, false)) {
      const Value attribute(name);
      KVASIR_ASSIGN_OR_RETURN(Value part, Key({&attribute, case_sensitive}).Of(runtime, list->at(i)));
      parts.push_back(part);
    }
    keys.emplace_back(runtime.heap.NewList(std::move(parts)));
  }
  KVASIR_ASSIGN_OR_RETURN(std::vector<Value> sorted, Sorted(runtime, list->items(), keys, IsTrue(bound[0])));
  return Value(runtime.heap.NewList(std::move(sorted), List::Form::kList, list->origin));
}

Result<Value> GroupByFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  std::vector<Value> keys, pairs;
  for (size_t i = 0; i < list->size(); ++i) {
    KVASIR_ASSIGN_OR_RETURN(const Value real, FollowPath(runtime, list->at(i), *bound[0], bound[1]));
    KVASIR_ASSIGN_OR_RETURN(Value key, Key({nullptr, IsTrue(bound[2])}).Of(runtime, real));
    pairs.emplace_back(runtime.heap.NewList({key, real, list->at(i)}));
    keys.push_back(key);
  }
  KVASIR_ASSIGN_OR_RETURN(const std::vector<Value> sorted, Sorted(runtime, pairs, keys, false));
  std::vector<Value> groups;
  for (size_t i = 0; i < sorted.size();) {
    std::vector<Value> members;
    const List& first = *sorted[i].list();
    for (; i < sorted.size() && Equals(sorted[i].list()->at(0), first.at(0)); ++i) {
      members.push_back(sorted[i].list()->at(2));
    }
    // A key that does not equal itself still makes progress.
    if (members.empty()) members.push_back(sorted[i++].list()->at(2));
    const Value group(runtime.heap.NewList(std::move(members)));
    groups.emplace_back(runtime.heap.NewList({first.at(1), group}, List::Form::kTuple));
  }
  return Value(runtime.heap.NewList(std::move(groups)));
}

Result<Value> UniqueFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("unique", args, {"case_sensitive", "attribute"}));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  const Key key{bound[1], IsTrue(bound[0])};
  Dict* seen = runtime.heap.NewDict();
  std::vector<Value> kept;
  for (size_t i = 0; i < list->size(); ++i) {
    KVASIR_ASSIGN_OR_RETURN(const Value sort_key, key.Of(runtime, list->at(i)));
    if (!Hashable(sort_key)) return Fail("unhashable type: '{}'", TypeName(sort_key));
    if (sort_key.text() == nullptr) runtime.heap.Step(seen->size());
    if (runtime.heap.exhausted()) return runtime.heap.ExhaustedError();
    if (seen->Find(sort_key) != nullptr) continue;
    seen->Set(sort_key, Value::None());
    kept.push_back(list->at(i));
  }
  return NewGenerator(runtime, std::move(kept));
}

Result<Value> FirstFilter(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  return list->size() > 0 ? list->at(0) : runtime.heap.NewUndefined("the first item of an empty sequence");
}

Result<Value> LastFilter(Runtime& runtime, const Value& self, const Args& /*args*/) {
  if (self.list() != nullptr && self.list()->form == List::Form::kGenerator) {
    return Fail("'generator' object is not reversible");
  }
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  return list->size() > 0 ? list->at(list->size() - 1)
                          : runtime.heap.NewUndefined("the last item of an empty sequence");
}

Result<Value> FromJsonFilter(Runtime& runtime, const Value& self, const Args& args) {
  if (!runtime.extensions) return Fail("no filter named 'from_json'");
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("from_json", args, {}));
  if (self.text() == nullptr) return Fail("from_json needs a string, not {}", TypeName(self));
  return ParseJson(runtime.heap, *self.text());
}

Result<Value> ItemsFilter(Runtime& runtime, const Value& self, const Args& /*args*/) {
  if (self.is_undefined()) return NewGenerator(runtime, {});
  if (self.dict() == nullptr) return Fail("can only get item pairs from a mapping");
  KVASIR_ASSIGN_OR_RETURN(const Value view, FindContainerMethod(self, "items").function(runtime, self, Args()));
  view.list()->form = List::Form::kGenerator;
  return view;
}

Result<Value> JoinFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("join", args, {"d", "attribute"}));
  Text separator;
  if (bound[0] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(separator, Str(runtime.heap, *bound[0]));
  }
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  TextBuilder out(runtime.heap);
  for (size_t i = 0; i < list->size(); ++i) {
    Value item = list->at(i);
    if (bound[1] != nullptr && !bound[1]->is_none()) {
      KVASIR_ASSIGN_OR_RETURN(item, FollowPath(runtime, item, *bound[1], nullptr));
    }
    if (i > 0) out.Append(separator);
    KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, item));
    out.Append(text);
  }
  return Value(out.Finish());
}

Result<Value> ListFilter(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  List* copy = runtime.heap.Concat(*list, {});
  copy->form = List::Form::kList;
  return Value(copy);
}

Result<Value> MapFilter(Runtime& runtime, const Value& self, const Args& args) {
  const Nesting nesting(runtime);  // map("map", "map", ...) recurses once per argument
  KVASIR_RETURN_IF_ERROR(nesting.Check());
  Function filter = nullptr;
  const Value *attribute = nullptr, *fallback = nullptr;
  Args filter_args;
  if (args.positional.empty()) {
    KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("map", args, {"attribute", "default"}));
    attribute = bound[0];
    fallback = bound[1];
    if (attribute == nullptr) return Fail("map requires a filter argument");
  } else if (Truthy(self)) {
    filter = FindFilter(args.positional[0].str());
    if (filter == nullptr) return Fail("no filter named '{}'", args.positional[0].str().substr(0, 80));
    if (!runtime.heap.Charge(args.positional.size() * sizeof(Value))) return runtime.heap.ExhaustedError();
    filter_args.positional.assign(args.positional.begin() + 1, args.positional.end());
    filter_args.named = args.named;
  }
  std::vector<Value> mapped;
  if (!Truthy(self)) return NewGenerator(runtime, std::move(mapped));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  for (size_t i = 0; i < list->size(); ++i) {
    if (!runtime.heap.Step()) return runtime.heap.ExhaustedError();
    KVASIR_ASSIGN_OR_RETURN(Value item, filter != nullptr ? filter(runtime, list->at(i), filter_args)
                                                          : FollowPath(runtime, list->at(i), *attribute, fallback));
    mapped.push_back(item);
  }
  return NewGenerator(runtime, std::move(mapped));
}

Result<Value> MaxFilter(Runtime& runtime, const Value& self, const Args& args) {
  return Extreme(runtime, self, args, true);
}
Result<Value> MinFilter(Runtime& runtime, const Value& self, const Args& args) {
  return Extreme(runtime, self, args, false);
}

Result<Value> SelectFilter(Runtime& runtime, const Value& self, const Args& args) {
  return Select(runtime, self, args, false, true);
}
Result<Value> RejectFilter(Runtime& runtime, const Value& self, const Args& args) {
  return Select(runtime, self, args, false, false);
}
Result<Value> SelectAttrFilter(Runtime& runtime, const Value& self, const Args& args) {
  return Select(runtime, self, args, true, true);
}
Result<Value> RejectAttrFilter(Runtime& runtime, const Value& self, const Args& args) {
  return Select(runtime, self, args, true, false);
}

Result<Value> ReverseFilter(Runtime& runtime, const Value& self, const Args& /*args*/) {
  if (self.text() != nullptr) return GetSlice(runtime, self, Value(), Value(), Value::Int(-1));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  const auto items = list->items();
  return NewGenerator(runtime, std::vector<Value>(items.rbegin(), items.rend()));
}

Result<Value> SumFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("sum", args, {"attribute", "start"}));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, self));
  Value sum = bound[1] != nullptr ? *bound[1] : Value::Int(0);
  for (size_t i = 0; i < list->size(); ++i) {
    Value item = list->at(i);
    if (bound[0] != nullptr && !bound[0]->is_none()) {
      KVASIR_ASSIGN_OR_RETURN(item, FollowPath(runtime, item, *bound[0], nullptr));
    }
    KVASIR_ASSIGN_OR_RETURN(sum, Arithmetic(runtime, BinaryOp::kAdd, sum, item));
  }
  return sum;
}

}  // namespace kvasir::chat::jinja
