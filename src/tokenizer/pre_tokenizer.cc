#include "tokenizer/pre_tokenizer.h"

#include <utility>

#include "tokenizer/regex_splitter.h"
#include "tokenizer/scanners.h"

namespace kvasir::tokenizer {

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Create(const PreTokenizerRules& rules) {
  std::vector<Step> steps;
  for (const Pass& pass : rules.passes) {
    Step step{pass.kind, nullptr};
    if (pass.kind == PassKind::kRegex) {
      KVASIR_ASSIGN_OR_RETURN(auto regex, RegexSplitter::Create(pass.pattern));
      step.regex = std::make_unique<RegexSplitter>(std::move(regex));
    }
    steps.push_back(std::move(step));
  }
  return PreTokenizer(std::move(steps));
}

void PreTokenizer::Split(std::string_view text, std::vector<size_t>& ends) const {
  if (text.empty()) return;
  const size_t first = ends.size();
  ends.push_back(text.size());
  std::vector<size_t> before;
  for (const Step& step : steps_) {
    before.assign(ends.begin() + static_cast<std::ptrdiff_t>(first), ends.end());
    ends.resize(first);
    if (step.regex) {
      step.regex->Split(text, before, ends);
      continue;
    }
    size_t begin = 0;
    for (const size_t end : before) {
      Scan(step.kind, text.substr(begin, end - begin), begin, ends);
      begin = end;
    }
  }
}

}  // namespace kvasir::tokenizer
