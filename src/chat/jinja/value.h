// chat/jinja/value.h
// What a template computes with: Python's values, as far as templates can tell.
//
// A Value is small and copied freely; containers live in the Heap of one rendering and die with it, so there is no
// reference counting and a cycle costs nothing. A scalar from the request keeps its Origin for when it is printed;
// containers label the punctuation that printing them adds.
//
// Thread rule: one rendering, one thread. A parsed template's literals hold only scalars and frozen texts and are read
// by many.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "chat/jinja/text.h"

namespace kvasir::chat::jinja {

class Dict;
struct Callable;
struct List;
struct Loop;
struct Namespace;
struct Undefined;

struct NoneType {};

enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kText, kList, kDict, kNamespace, kCallable, kLoop };

class Value {
 public:
  Value() = default;  // undefined
  explicit Value(const Undefined* undefined) : data_(undefined) {}
  explicit Value(Text text) : data_(text) {}
  explicit Value(List* list) : data_(list) {}
  explicit Value(Dict* dict) : data_(dict) {}
  explicit Value(Namespace* space) : data_(space) {}
  explicit Value(const Callable* callable) : data_(callable) {}
  explicit Value(Loop* loop) : data_(loop) {}
  static Value None(Origin origin = {}) { return Value(Data(NoneType{}), origin); }
  static Value Bool(bool value, Origin origin = {}) { return Value(Data(value), origin); }
  static Value Int(int64_t value, Origin origin = {}) { return Value(Data(value), origin); }
  static Value Float(double value, Origin origin = {}) { return Value(Data(value), origin); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_number() const { return kind() == Kind::kBool || kind() == Kind::kInt || kind() == Kind::kFloat; }

  // Null when the value is of another kind.
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const Text* text() const { return std::get_if<Text>(&data_); }
  const Undefined* undefined() const { return Pointer<const Undefined*>(); }  // null too when nothing is known about it
  List* list() const { return Pointer<List*>(); }
  Dict* dict() const { return Pointer<Dict*>(); }
  Namespace* space() const { return Pointer<Namespace*>(); }
  const Callable* callable() const { return Pointer<const Callable*>(); }
  Loop* loop() const { return Pointer<Loop*>(); }

  // The bytes of a text, else nothing.
  std::string_view str() const { return text() == nullptr ? std::string_view() : text()->view(); }
  // Bools count as 0 and 1, as in Python. REQUIRES: is_number().
  double AsDouble() const;
  // The integer of a bool or int. REQUIRES: kind is one of these.
  int64_t AsInt() const { return boolean() != nullptr ? static_cast<int64_t>(*boolean()) : *integer(); }
  bool IsIntLike() const { return kind() == Kind::kBool || kind() == Kind::kInt; }

  Origin origin() const { return origin_; }

 private:
  using Data = std::variant<const Undefined*, NoneType, bool, int64_t, double, Text, List*, Dict*, Namespace*,
                            const Callable*, Loop*>;
  Value(Data data, Origin origin) : data_(data), origin_(origin) {}
  template <typename P>
  P Pointer() const {
    const P* held = std::get_if<P>(&data_);
    return held == nullptr ? nullptr : *held;
  }

  Data data_ = static_cast<const Undefined*>(nullptr);
  Origin origin_;
};

// Why a value is undefined, told when somebody uses it.
struct Undefined {
  std::string name;     // the variable, attribute or element
  std::string object;   // "dict object"; empty: a variable
  bool unsafe = false;  // the attribute exists but templates may not touch it
};
// "'dict object' has no attribute 'x'"
Error UndefinedError(const Value& value);

// One struct for everything Python iterates: `form` says how it prints and what may be asked of it. Like a Text it is a
// window on storage that only grows at its end, so `list = list + [x]` in a loop is linear.
struct List {
  enum class Form : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

  // Valid until the storage grows.
  std::span<const Value> items() const { return {store->data(), count}; }
  size_t size() const { return count; }
  const Value& at(size_t index) const { return (*store)[index]; }
  // Takes len() and an index.
  bool indexed() const { return form == Form::kList || form == Form::kTuple || form == Form::kRange; }

  std::vector<Value>* store = nullptr;
  size_t count = 0;
  Form form = Form::kList;
  Origin origin;
};

// Insertion-ordered; keys are scalars, texts or tuples.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  // Null when absent.
  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key) const;
  // Overwrites in place, so a key keeps its position.
  void Set(const Value& key, const Value& value);
  void Erase(const Value& key);

  Origin origin;

 private:
  static constexpr size_t kIndexFrom = 12;
  size_t Position(std::string_view key) const;
  size_t Position(const Value& key) const;
  void IndexLast();

  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, uint32_t> index_;  // hash of a text key -> entry; filled from kIndexFrom entries on
};

struct Namespace {
  Dict attributes;
};

// `loop` inside a for.
struct Loop {
  const List* items = nullptr;
  size_t index = 0;  // 0-based
  int depth = 1;
  std::vector<Value> changed;  // what loop.changed() saw last
  bool has_changed = false;
  // Calls of a recursive loop run this body again. Null when the loop is not recursive.
  const void* statement = nullptr;
  void* scope = nullptr;
};

// Containers nested deeper than this are an error wherever they are walked, so recursion is bounded.
constexpr int kMaxValueDepth = 100;

// "str", "NoneType", "dict_items": as Python's error messages name it.
std::string_view TypeName(const Value& value);
bool Truthy(const Value& value);
// Python's ==. Containers nested too deep, or that share parts so often that comparing takes millions of steps, are
// unequal.
bool Equals(const Value& a, const Value& b);
// Python's < for numbers, texts, lists and tuples; an error for everything else.
Result<bool> Less(const Value& a, const Value& b, int depth = 0);

}  // namespace kvasir::chat::jinja
