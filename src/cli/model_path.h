// cli/model_path.h
// From what -m says to a file.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/flags.h"

namespace kvasir::cli {

// A path that exists as it is. A plain name that does not is looked for in the models folder ($KVASIR_MODELS, else
// ~/.cache/kvasir/models): the one GGUF file that starts with it ("smollm2"). Errors: kNotFound, kInvalidArgument
// (several).
Result<std::string> FindModel(const std::string& given, const Environment& environment);

}  // namespace kvasir::cli
