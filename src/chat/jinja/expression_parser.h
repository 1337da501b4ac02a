// chat/jinja/expression_parser.h
// The half of the parser that reads expressions, and the token cursor both halves share. Recursive descent, loosest
// operator first; every nested construct counts against kMaxNesting, and so does the height of what is built, because
// the interpreter recurses over it.
//
// Thread rule: one parse, one thread.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"
#include "chat/jinja/parser.h"

namespace kvasir::chat::jinja {

class ExpressionParser {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Take() { return std::move(tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]); }
  bool SkipOp(std::string_view op) {
    if (!current().Is(op)) return false;
    Take();
    return true;
  }
  bool SkipName(std::string_view name) {
    if (!current().IsName(name)) return false;
    Take();
    return true;
  }

  template <typename... Args>
  Error Syntax(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(ErrorCode::kCorrupt, "chat template, line {}: {}", current().line,
                     fmt::format(format, std::forward<Args>(args)...));
  }
  // What stands at the cursor, for messages.
  std::string Describe() const;
  Status ExpectOp(std::string_view op) {
    if (!SkipOp(op)) return Syntax("expected '{}', got {}", op, Describe());
    return {};
  }
  Status ExpectName(std::string_view name) {
    if (!SkipName(name)) return Syntax("expected '{}', got {}", name, Describe());
    return {};
  }
  Status Expect(TokenType type, std::string_view what) {
    if (current().type != type) return Syntax("expected {}, got {}", what, Describe());
    Take();
    return {};
  }
  Result<std::string> AnyName() {
    if (current().type != TokenType::kName) return Syntax("expected a name, got {}", Describe());
    return Take().text;
  }

  NameId Intern(const std::string& name) {
    const auto [it, added] = ids_.emplace(name, static_cast<NameId>(names_.size()));
    if (added) names_.push_back(name);
    return it->second;
  }

  // A frozen text of the program.
  Value TextLiteral(std::string_view bytes);

  class Nest {
   public:
    explicit Nest(int& depth) : depth_(&depth) { ++depth; }
    ~Nest() { --*depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    int* depth_;
  };
  Error TooDeep() const { return Syntax("nested more than {} levels deep", kMaxNesting); }

  using Parts = std::initializer_list<const Expr*>;

  // Wraps a node over `parts`, the deepest of which counts.
  template <typename Node>
  Result<ExprPtr> Make(Node node, Parts parts) {
    int depth = 0;
    for (const Expr* part : parts) {
      if (part != nullptr) depth = std::max(depth, part->depth);
    }
    if (depth >= kMaxNesting) return TooDeep();
    auto expr = std::make_unique<Expr>(Expr{std::move(node), depth + 1});
    return expr;
  }
  // Null when there is none.
  static const Expr* Deepest(const std::vector<ExprPtr>& exprs);
  static const Expr* Deepest(const CallArgs& args);

  Result<ExprPtr> Expression();
  Result<ExprPtr> Chain(bool conjunction);
  Result<ExprPtr> Or();
  Result<ExprPtr> NotExpr();
  bool SkipCompareOp(CompareOp& op);
  Result<ExprPtr> Comparison();
  Result<ExprPtr> MakeBinary(BinaryOp op, ExprPtr left, ExprPtr right);
  Result<ExprPtr> Sum();
  Result<ExprPtr> Concatenation();
  Result<ExprPtr> Product();
  Result<ExprPtr> Power();
  // A sign binds tighter than a filter: -1|abs is 1.
  Result<ExprPtr> Unary(bool with_filters);
  Result<ExprPtr> Postfix(ExprPtr value, bool with_filters);
  Result<ExprPtr> AfterDot(ExprPtr object);
  Result<ExprPtr> AfterBracket(ExprPtr object);
  Result<std::string> DottedName();
  Result<ExprPtr> OneFilter(ExprPtr input);
  Result<ExprPtr> OneTest(ExprPtr input);
  Result<CallArgs> Arguments();
  Result<ExprPtr> Primary();
  Result<ExprPtr> NameOrConstant();
  Result<ExprPtr> DictLiteral();
  bool EndsTuple() const;
  // One expression, or several with commas. Without `conditional` an `if` ends it, as in for and if tags.
  Result<ExprPtr> Tuple(bool parenthesized, bool conditional = true);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<MacroDef*> macros_;  // those whose bodies enclose the current token
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
  Program program_;
};

}  // namespace kvasir::chat::jinja
