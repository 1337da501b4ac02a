#include "tokenizer/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>
#include <utility>

#include "base/log.h"
#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

constexpr size_t kJitStackFirst = 32 << 10;
constexpr size_t kJitStackMost = 16 << 20;
constexpr uint32_t kHeapLimitKib = 512 << 10;

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using CodeHandle = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

// White_Space, spelt out for use in and outside of a class.
constexpr std::string_view kSpaces =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

std::string SpellOutSpaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' || escaped == 'S') {
        if (!in_class) out += escaped == 's' ? "[" : "[^";
        out += kSpaces;
        if (!in_class) out += ']';
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

// PCRE2 wants valid UTF-8. What is not is replaced by characters of the same size and, to every pattern, the same kind
// (no letter, mark, number, punctuation, symbol or space), so that offsets hold.
std::string_view Presentable(std::string_view text, std::string& storage) {
  if (IsValidUtf8(text)) return text;
  storage.clear();
  storage.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Char c = CharAt(text, at);
    const std::string_view bytes = text.substr(at, c.size);
    if (c.code == kNotACharacter) {
      storage += '\x01';
    } else if (IsValidUtf8(bytes)) {
      storage += bytes;
    } else {
      storage += c.size == 4   ? "\xF3\xB0\x80\x80"
                 : c.size == 3 ? "\xEE\x80\x80"
                               : "\xC2\x81";  // U+F0000, U+E000, U+0081
    }
    at += c.size;
  }
  return storage;
}

}  // namespace

struct RegexSplitter::Code {
  CodeHandle handle;
  bool jit = false;
};

RegexSplitter::RegexSplitter(std::unique_ptr<Code> code) : code_(std::move(code)) {}
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter& RegexSplitter::operator=(RegexSplitter&&) noexcept = default;
RegexSplitter::~RegexSplitter() = default;

Result<RegexSplitter> RegexSplitter::Create(std::string_view pattern) {
  const std::string spelt = SpellOutSpaces(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->handle.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()), spelt.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &offset, nullptr));
  if (!code->handle) {
    PCRE2_UCHAR words[256] = {};
    pcre2_get_error_message(error, words, sizeof words);
    return MakeError(ErrorCode::kUnsupported, "pre-tokenizer pattern does not compile: {} at offset {} of {}",
                     reinterpret_cast<const char*>(words), offset, spelt);
  }
  code->jit = pcre2_jit_compile(code->handle.get(), PCRE2_JIT_COMPLETE) == 0;
  return RegexSplitter(std::move(code));
}

// What one thread needs to match with.
class RegexSplitter::Matcher {
 public:
  explicit Matcher(const Code& code)
      : code_(code),
        data_(pcre2_match_data_create_from_pattern(code.handle.get(), nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(code.jit ? pcre2_jit_stack_create(kJitStackFirst, kJitStackMost, nullptr) : nullptr) {
    if (context_) pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
    if (context_ && stack_) pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  // The first match in `subject` from `at` on; false where there is none, or none can be found.
  bool Find(std::string_view subject, size_t at, size_t& begin, size_t& end) const {
    if (!data_ || !context_) {
      Log(LogLevel::kError, "pre-tokenizer: no memory to match with; {} bytes stay one piece", subject.size() - at);
      return false;
    }
    int found = Match(subject, at, 0);
    // Any error of the JIT, its stack above all, gets a second chance where memory is the heap.
    if (found < 0 && found != PCRE2_ERROR_NOMATCH && code_.jit) found = Match(subject, at, PCRE2_NO_JIT);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      Log(LogLevel::kWarn, "pre-tokenizer: PCRE2 error {}; {} bytes stay one piece", found, subject.size() - at);
    }
    if (found < 0) return false;
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
    begin = bounds[0];
    end = bounds[1];
    return true;
  }

 private:
  int Match(std::string_view subject, size_t at, uint32_t options) const {
    return pcre2_match(code_.handle.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                       options | PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  }

  const Code& code_;
  MatchData data_;
  MatchContext context_;
  JitStack stack_;
};

void RegexSplitter::Split(std::string_view text, std::span<const size_t> pieces, std::vector<size_t>& ends) const {
  std::string storage;
  const std::string_view presentable = Presentable(text, storage);
  const Matcher matcher(*code_);
  size_t base = 0;
  for (const size_t piece_end : pieces) {
    const std::string_view subject = presentable.substr(base, piece_end - base);
    size_t done = 0;
    const auto cut = [&](size_t at) {
      if (at > done) ends.push_back(base + (done = at));
    };
    size_t begin = 0, end = 0;
    for (size_t at = 0; at < subject.size() && matcher.Find(subject, at, begin, end);) {
      cut(begin);
      cut(end);
      at = end > begin ? end : begin < subject.size() ? begin + CharAt(subject, begin).size : subject.size();
    }
    cut(subject.size());
    base = piece_end;
  }
}

}  // namespace kvasir::tokenizer
