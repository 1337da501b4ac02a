// chat/jinja/formatting.h
// Python's two ways to format: "%s of %d" % values, and "{} of {:>5}".format(values). Covers the conversions and the
// format mini-language for texts, integers and floats; a conversion that Python refuses is an error here too. Widths
// are bounded.
//
// Thread rule: as Value.
#pragma once

#include "chat/jinja/callable.h"
#include "chat/jinja/text.h"
#include "chat/jinja/value.h"

namespace kvasir::chat::jinja {

// `values` is a tuple, a dict for "%(name)s", or a single value.
Result<Value> PercentFormat(Runtime& runtime, const Text& format, const Value& values);
Result<Value> BraceFormat(Runtime& runtime, const Text& format, const Args& args);

}  // namespace kvasir::chat::jinja
