#include "chat/jinja/heap.h"

namespace kvasir::chat::jinja {

Error Heap::ExhaustedError() const {
  if (heap_bytes_ > limits_.heap_bytes) {
    return MakeError(ErrorCode::kResourceExhausted, "the chat template needs more than its {} bytes of memory",
                     limits_.heap_bytes);
  }
  return MakeError(ErrorCode::kResourceExhausted, "the chat template takes more than its {} steps", limits_.steps);
}

Text Heap::NewText(std::string_view bytes, Origin origin) {
  TextBuilder builder(*this);
  builder.Append(bytes, origin);
  return builder.Finish();
}

List* Heap::NewList(std::vector<Value> items, List::Form form, Origin origin) {
  List* list = New(lists_);
  Charge(items.size() * sizeof(Value));
  list->count = items.size();
  list->store = &stores_.emplace_back(std::move(items));
  list->form = form;
  list->origin = origin;
  return list;
}

Dict* Heap::NewDict(Origin origin) {
  Dict* dict = New(dicts_);
  dict->origin = origin;
  return dict;
}

Value Heap::NewUndefined(std::string_view name, std::string_view object, bool unsafe) {
  Undefined* why = New(undefineds_);
  why->name = name.substr(0, 200);
  why->object = object;
  why->unsafe = unsafe;
  return Value(why);
}

Text Heap::Concat(const Text& a, const Text& b) {
  if (a.empty()) return b;
  if (b.empty() || !Charge(b.size())) return a;
  Buffer* target = a.buffer();
  uint32_t begin = a.begin();
  if (target->frozen() || a.end() != target->bytes().size()) {
    if (!Charge(a.size())) return a;
    target = NewBuffer();
    target->Append(a);
    begin = 0;
  }
  target->Append(b);
  return Text(target, begin, static_cast<uint32_t>(target->bytes().size()));
}

List* Heap::Concat(const List& a, std::span<const Value> b) {
  Charge(b.size() * sizeof(Value));
  List* joined = New(lists_);
  *joined = a;
  if (exhausted_) return joined;
  const std::vector<Value> added(b.begin(), b.end());  // `b` may be a part of a's storage
  if (a.count != a.store->size()) {
    Charge(a.count * sizeof(Value));
    const std::span<const Value> kept = a.items();
    joined->store = &stores_.emplace_back(kept.begin(), kept.end());
  }
  joined->store->insert(joined->store->end(), added.begin(), added.end());
  joined->count += added.size();
  return joined;
}

bool TextBuilder::Reserve(size_t bytes) {
  if (!heap_->Charge(bytes)) return false;
  if (buffer_ == nullptr) buffer_ = heap_->NewBuffer();
  return true;
}

void TextBuilder::Append(std::string_view bytes, Origin origin) {
  if (!bytes.empty() && Reserve(bytes.size())) buffer_->Append(bytes, origin);
}

void TextBuilder::Append(const Text& text) {
  if (!text.empty() && Reserve(text.size())) buffer_->Append(text);
}

void TextBuilder::AppendRepeated(std::string_view bytes, int64_t count, Origin origin) {
  for (int64_t i = 0; i < count && !heap_->exhausted(); ++i) {
    heap_->Step();
    Append(bytes, origin);
  }
}

Text TextBuilder::Finish() const {
  return buffer_ == nullptr ? Text() : Text(buffer_, 0, static_cast<uint32_t>(buffer_->bytes().size()));
}

}  // namespace kvasir::chat::jinja
