#include "chat/jinja/value.h"

#include <functional>

#include "chat/jinja/callable.h"
#include "chat/jinja/fail.h"

namespace kvasir::chat::jinja {

double Value::AsDouble() const {
  return real() != nullptr ? *real() : static_cast<double>(AsInt());
}

Error UndefinedError(const Value& value) {
  const Undefined* why = value.undefined();
  if (why == nullptr) return Fail("the value is undefined");
  if (why->object.empty()) return Fail("'{}' is undefined", why->name);
  if (why->unsafe) return Fail("access to attribute '{}' of '{}' object is unsafe", why->name, why->object);
  return Fail("'{}' has no attribute '{}'", why->object, why->name);
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kText:
      return value.text()->markup() ? "Markup" : "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      return value.callable()->macro != nullptr ? "Macro" : "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kList:
      break;
  }
  switch (value.list()->form) {
    case List::Form::kList:
      return "list";
    case List::Form::kTuple:
      return "tuple";
    case List::Form::kRange:
      return "range";
    case List::Form::kKeys:
      return "dict_keys";
    case List::Form::kValues:
      return "dict_values";
    case List::Form::kItems:
      return "dict_items";
    case List::Form::kGenerator:
      return "generator";
  }
  return "object";
}

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return *value.boolean();
    case Kind::kInt:
      return *value.integer() != 0;
    case Kind::kFloat:
      return *value.real() != 0;
    case Kind::kText:
      return !value.text()->empty();
    case Kind::kList:
      return value.list()->form == List::Form::kGenerator || value.list()->count != 0;
    case Kind::kDict:
      return value.dict()->size() != 0;
    case Kind::kNamespace:
    case Kind::kCallable:
    case Kind::kLoop:
      return true;
  }
  return false;
}

namespace {

bool EqualsWithin(const Value& a, const Value& b, int depth, int& budget) {
  if (depth > kMaxValueDepth || --budget < 0) return false;
  if (a.is_number() && b.is_number()) {
    return a.IsIntLike() && b.IsIntLike() ? a.AsInt() == b.AsInt() : a.AsDouble() == b.AsDouble();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kText:
      return a.str() == b.str();
    case Kind::kList: {
      const List &x = *a.list(), &y = *b.list();
      if (&x == &y) return true;
      if (x.form != y.form || x.size() != y.size() || x.form == List::Form::kGenerator) return false;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!EqualsWithin(x.at(i), y.at(i), depth + 1, budget)) return false;
      }
      return true;
    }
    case Kind::kDict: {
      const Dict &x = *a.dict(), &y = *b.dict();
      if (&x == &y) return true;
      if (x.size() != y.size()) return false;
      for (const auto& [key, value] : x.entries()) {
        const Value* other = y.Find(key);
        if (other == nullptr || !EqualsWithin(value, *other, depth + 1, budget)) return false;
      }
      return true;
    }
    case Kind::kNamespace:
      return a.space() == b.space();
    case Kind::kCallable:
      return a.callable() == b.callable();
    case Kind::kLoop:
      return a.loop() == b.loop();
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      break;  // numbers: above
  }
  return false;
}

}  // namespace

bool Equals(const Value& a, const Value& b) {
  int budget = 1 << 22;
  return EqualsWithin(a, b, 0, budget);
}

Result<bool> Less(const Value& a, const Value& b, int depth) {
  if (a.is_number() && b.is_number()) {
    return a.IsIntLike() && b.IsIntLike() ? a.AsInt() < b.AsInt() : a.AsDouble() < b.AsDouble();
  }
  if (a.is_undefined()) return UndefinedError(a);
  if (b.is_undefined()) return UndefinedError(b);
  // UTF-8 bytes order as code points do.
  if (a.text() != nullptr && b.text() != nullptr) return a.str() < b.str();
  if (a.list() != nullptr && b.list() != nullptr && a.list()->form == b.list()->form && depth <= kMaxValueDepth) {
    const std::span<const Value> x = a.list()->items(), y = b.list()->items();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!Equals(x[i], y[i])) return Less(x[i], y[i], depth + 1);
    }
    return x.size() < y.size();
  }
  return Fail("'<' not supported between instances of '{}' and '{}'", TypeName(a), TypeName(b));
}

size_t Dict::Position(std::string_view key) const {
  if (entries_.size() < kIndexFrom) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Text* text = entries_[i].first.text();
      if (text != nullptr && text->view() == key) return i;
    }
    return entries_.size();
  }
  const auto [first, last] = index_.equal_range(std::hash<std::string_view>{}(key));
  for (auto it = first; it != last; ++it) {
    if (entries_[it->second].first.str() == key) return it->second;
  }
  return entries_.size();
}

size_t Dict::Position(const Value& key) const {
  if (key.text() != nullptr) return Position(key.str());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first.kind() != Kind::kText && Equals(entries_[i].first, key)) return i;
  }
  return entries_.size();
}

const Value* Dict::Find(std::string_view key) const {
  const size_t at = Position(key);
  return at == entries_.size() ? nullptr : &entries_[at].second;
}

const Value* Dict::Find(const Value& key) const {
  const size_t at = Position(key);
  return at == entries_.size() ? nullptr : &entries_[at].second;
}

void Dict::IndexLast() {
  const size_t from = entries_.size() == kIndexFrom ? 0 : entries_.size() - 1;
  if (entries_.size() < kIndexFrom) return;
  for (size_t i = from; i < entries_.size(); ++i) {
    if (entries_[i].first.text() == nullptr) continue;
    index_.emplace(std::hash<std::string_view>{}(entries_[i].first.str()), static_cast<uint32_t>(i));
  }
}

void Dict::Set(const Value& key, const Value& value) {
  const size_t at = Position(key);
  if (at < entries_.size()) {
    entries_[at].second = value;
    return;
  }
  entries_.emplace_back(key, value);
  IndexLast();
}

void Dict::Erase(const Value& key) {
  const size_t at = Position(key);
  if (at == entries_.size()) return;
  std::vector<Entry> kept = std::move(entries_);
  entries_.clear();
  index_.clear();
  for (size_t i = 0; i < kept.size(); ++i) {
    if (i == at) continue;
    entries_.push_back(kept[i]);
    IndexLast();
  }
}

}  // namespace kvasir::chat::jinja
