// chat/jinja/sequence_filters.h
// The filters that work on lists and dicts. Those that are lazy in Jinja are evaluated at once here and are used up by
// the first loop over them, which templates cannot tell apart.
//
// Thread rule: as Value.
#pragma once

#include "chat/jinja/callable.h"

namespace kvasir::chat::jinja {

Result<Value> BatchFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> DictSortFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> FirstFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> FromJsonFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> GroupByFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> ItemsFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> JoinFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> LastFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> ListFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> MapFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> MaxFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> MinFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> RejectAttrFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> RejectFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> ReverseFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> SelectAttrFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> SelectFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> SliceFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> SortFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> SumFilter(Runtime& runtime, const Value& self, const Args& args);
Result<Value> UniqueFilter(Runtime& runtime, const Value& self, const Args& args);

}  // namespace kvasir::chat::jinja
