#include "chat/jinja/lexer.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

bool IsNameStart(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || byte >= 0x80;
}
bool IsDecimal(char c) {
  return c >= '0' && c <= '9';
}

// All line breaks become "\n" and the last one goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) KVASIR_RETURN_IF_ERROR(Next());
    Push(TokenType::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool Looking(std::string_view what) const { return rest().substr(0, what.size()) == what; }
  char Peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  template <typename... Args>
  Error Syntax(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(ErrorCode::kCorrupt, "chat template, line {}: {}", line_,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  void Push(TokenType type, std::string text = {}) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  // Moves to `to`, counting lines; remembers whether what was passed ended a line.
  void Advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > at_) line_starts_ = source_[to - 1] == '\n';
    at_ = to;
  }

  void SkipSpace() {
    size_t to = at_;
    while (to < source_.size()) {
      const CodePoint point = DecodeAt(source_, to);
      if (!point.valid || !IsSpace(point.value)) break;
      to += point.size;
    }
    Advance(to);
  }

  // Emits text up to `tag` ("{{", "{%" or "{#" stands there), stripped as the tag's sign says.
  void PushData(size_t tag, bool lstrip) {
    size_t end = tag;
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') {
      while (end > at_) {
        const size_t previous = PreviousCharacter(source_, end);
        const CodePoint point = DecodeAt(source_, previous);
        if (previous < at_ || !point.valid || !IsSpace(point.value)) break;
        end = previous;
      }
    } else if (sign != '+' && lstrip) {
      const size_t newline = std::string_view(source_).substr(at_, tag - at_).rfind('\n');
      const bool in_data = newline != std::string_view::npos;
      const size_t line_begin = in_data ? at_ + newline + 1 : at_;
      if (in_data || line_starts_) {
        bool blank = true;
        for (size_t i = line_begin; i < tag && blank;) {
          const CodePoint point = DecodeAt(source_, i);
          blank = point.valid && IsSpace(point.value);
          i += point.size;
        }
        if (blank) end = line_begin;
      }
    }
    if (end > at_) Push(TokenType::kData, source_.substr(at_, end - at_));
    Advance(tag);
  }

  // Skips the sign and the closing bracket at at_ and the white space the sign asks for.
  void CloseTag(bool trim) {
    const char sign = Peek();
    const bool signed_close = sign == '-' || sign == '+';
    Advance(at_ + (signed_close ? 3 : 2));
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && trim && Peek() == '\n') {
      Advance(at_ + 1);
    }
  }

  static size_t FindTag(std::string_view source, size_t from) {
    for (size_t at = source.find('{', from); at != std::string::npos; at = source.find('{', at + 1)) {
      const char next = at + 1 < source.size() ? source[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string::npos;
  }

  Status Next() {
    const size_t tag = FindTag(source_, at_);
    if (tag == std::string::npos) {
      Push(TokenType::kData, std::string(rest()));
      Advance(source_.size());
      return {};
    }
    const char kind = source_[tag + 1];
    PushData(tag, kind != '{');
    if (kind == '#') return Comment();
    if (kind == '%') {
      size_t name = at_ + 2;
      if (name < source_.size() && (source_[name] == '-' || source_[name] == '+')) ++name;
      while (name < source_.size() && IsSpace(static_cast<unsigned char>(source_[name]))) ++name;
      if (source_.compare(name, 3, "raw") == 0 && RawTagEnds(name + 3)) return Raw(name + 3);
    }
    Push(kind == '{' ? TokenType::kOutputBegin : TokenType::kBlockBegin);
    size_t after = at_ + 2;
    if (after < source_.size() && (source_[after] == '-' || source_[after] == '+')) ++after;
    Advance(after);
    return Tag(kind == '%');
  }

  Status Comment() {
    const size_t close = source_.find("#}", at_ + 2);
    if (close == std::string::npos) return Syntax("missing end of comment");
    const char sign = source_[close - 1];
    const bool signed_close = close > at_ + 2 && (sign == '-' || sign == '+');
    Advance(signed_close ? close - 1 : close);
    CloseTag(/*trim=*/true);
    return {};
  }

  bool RawTagEnds(size_t at) const {
    while (at < source_.size() && IsSpace(static_cast<unsigned char>(source_[at]))) ++at;
    return source_.compare(at, 2, "%}") == 0 || source_.compare(at, 3, "-%}") == 0;
  }

  Status Raw(size_t after_name) {
    Advance(source_.find("%}", after_name) - (source_[source_.find("%}", after_name) - 1] == '-' ? 1 : 0));
    CloseTag(/*trim=*/false);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
      size_t name = tag + 2;
      if (name < source_.size() && (source_[name] == '-' || source_[name] == '+')) ++name;
      while (name < source_.size() && IsSpace(static_cast<unsigned char>(source_[name]))) ++name;
      if (source_.compare(name, 6, "endraw") != 0) continue;
      size_t close = name + 6;
      while (close < source_.size() && IsSpace(static_cast<unsigned char>(source_[close]))) ++close;
      const size_t bracket =
          close < source_.size() && (source_[close] == '-' || source_[close] == '+') ? close + 1 : close;
      if (source_.compare(bracket, 2, "%}") != 0) continue;
      PushData(tag, /*lstrip=*/true);
      Advance(close);
      CloseTag(/*trim=*/true);
      return {};
    }
    return Syntax("missing end of raw block");
  }

  // The tokens of one tag, its end included.
  Status Tag(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    std::string open_brackets;
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) return Syntax("unexpected end of template inside a tag");
      const char c = Peek();
      if (open_brackets.empty()) {
        const bool signed_close = (c == '-' || (block && c == '+')) && rest().substr(1, 2) == close;
        if (signed_close || Looking(close)) {
          Push(block ? TokenType::kBlockEnd : TokenType::kOutputEnd);
          CloseTag(/*trim=*/block);
          return {};
        }
      }
      if (IsDecimal(c)) {
        KVASIR_RETURN_IF_ERROR(Number());
      } else if (IsNameStart(c)) {
        size_t end = at_;
        while (end < source_.size() && (IsNameStart(source_[end]) || IsDecimal(source_[end]))) ++end;
        Push(TokenType::kName, source_.substr(at_, end - at_));
        Advance(end);
      } else if (c == '\'' || c == '"') {
        KVASIR_RETURN_IF_ERROR(String(c));
      } else {
        KVASIR_RETURN_IF_ERROR(Operator(open_brackets));
      }
    }
  }

  Status Operator(std::string& open_brackets) {
    for (const std::string_view two : {"//", "**", "==", "!=", "<=", ">="}) {
      if (!Looking(two)) continue;
      Push(TokenType::kOperator, std::string(two));
      Advance(at_ + 2);
      return {};
    }
    const char c = Peek();
    if (std::string_view("+-*/%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      return Syntax("unexpected character {:?}", std::string_view(&c, 1));
    }
    if (c == '(' || c == '[' || c == '{') open_brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) return Syntax("unexpected '{}'", c);
      open_brackets.pop_back();
    }
    Push(TokenType::kOperator, std::string(1, c));
    Advance(at_ + 1);
    return {};
  }

  Status Number() {
    std::string digits;
    size_t end = at_;
    int base = 10;
    const char prefix = static_cast<char>(Peek(1) | 0x20);
    if (Peek() == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
      base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2;
      end += 2;
      while (end < source_.size() &&
             (std::isxdigit(static_cast<unsigned char>(source_[end])) != 0 || source_[end] == '_')) {
        if (source_[end] != '_') digits += source_[end];
        ++end;
      }
    } else {
      const auto take_digits = [&] {
        while (end < source_.size() && (IsDecimal(source_[end]) || source_[end] == '_')) {
          if (source_[end] != '_') digits += source_[end];
          ++end;
        }
      };
      take_digits();
      bool real = false;
      if (end + 1 < source_.size() && source_[end] == '.' && IsDecimal(source_[end + 1])) {
        real = true;
        digits += '.';
        ++end;
        take_digits();
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && IsDecimal(source_[exponent])) {
          real = true;
          digits.append(source_, end, exponent - end);
          end = exponent;
          take_digits();
        }
      }
      if (real) {
        Push(TokenType::kFloat);
        // from_chars leaves the value alone on overflow, where Python has infinity.
        tokens_.back().real = std::strtod(digits.c_str(), nullptr);
        Advance(end);
        return {};
      }
    }
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || stop != digits.data() + digits.size()) {
      return Syntax("bad integer {}", source_.substr(at_, std::min<size_t>(end - at_, 80)));
    }
    Push(TokenType::kInteger);
    tokens_.back().integer = value;
    Advance(end);
    return {};
  }

  Status String(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Syntax("string without its closing {}", quote);
    KVASIR_ASSIGN_OR_RETURN(std::string text, Unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    Push(TokenType::kString, std::move(text));
    Advance(end + 1);
    return {};
  }

  Result<std::string> Unescape(std::string_view raw) const {
    std::string out;
    char32_t high_surrogate = 0;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 == raw.size()) {
        out += raw[i];
        continue;
      }
      const char c = raw[++i];
      static constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t at = kFrom.find(c); at != std::string_view::npos) {
        out += kTo[at];
      } else if (c == '\n') {
        continue;
      } else if (c >= '0' && c <= '7') {
        char32_t value = 0;
        size_t digits = 0;
        for (; digits < 3 && i + digits < raw.size() && raw[i + digits] >= '0' && raw[i + digits] <= '7'; ++digits) {
          value = value * 8 + static_cast<char32_t>(raw[i + digits] - '0');
        }
        i += digits - 1;
        AppendUtf8(out, value);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const std::string_view hex = raw.substr(i + 1, digits);
        uint32_t value = 0;
        const auto [stop, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
        if (error != std::errc() || hex.size() != digits || stop != hex.data() + digits || value > 0x10ffff) {
          return Syntax("bad escape \\{} in a string", c);
        }
        i += digits;
        if (value >= 0xd800 && value < 0xdc00) {
          high_surrogate = value;
          continue;
        }
        if (value >= 0xdc00 && value < 0xe000) {
          if (high_surrogate == 0) return Syntax("lone surrogate in a string");
          value = 0x10000 + ((high_surrogate - 0xd800) << 10) + (value - 0xdc00);
        }
        AppendUtf8(out, value);
      } else {
        out += '\\';
        out += c;
      }
      high_surrogate = 0;
    }
    return out;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace kvasir::chat::jinja
