#include "chat/jinja/parser.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "chat/jinja/expression_parser.h"
#include "chat/jinja/lexer.h"

namespace kvasir::chat::jinja {
namespace {

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Result<Program> Run() {
    KVASIR_ASSIGN_OR_RETURN(program_.body, Statements({}));
    program_.names = std::move(names_);
    return std::move(program_);
  }

 private:
  Result<Target> OneTarget(bool with_namespace) {
    const Nest nest(depth_);
    if (depth_ > kMaxNesting) return TooDeep();
    if (SkipOp("(")) {
      KVASIR_ASSIGN_OR_RETURN(Target target, Targets(with_namespace));
      KVASIR_RETURN_IF_ERROR(ExpectOp(")"));
      return target;
    }
    Target target;
    KVASIR_ASSIGN_OR_RETURN(const std::string name, AnyName());
    for (const std::string_view constant : {"true", "True", "false", "False", "none", "None"}) {
      if (name == constant) return Syntax("cannot assign to {}", name);
    }
    target.name = Intern(name);
    if (with_namespace && SkipOp(".")) {
      KVASIR_ASSIGN_OR_RETURN(target.attribute, AnyName());
    }
    return target;
  }

  Result<Target> Targets(bool with_namespace) {
    KVASIR_ASSIGN_OR_RETURN(Target first, OneTarget(with_namespace));
    if (!current().Is(",")) return first;
    Target all;
    all.items.push_back(std::move(first));
    while (SkipOp(",")) {
      if (current().type != TokenType::kName && !current().Is("(")) break;
      if (current().IsName("in")) break;
      KVASIR_ASSIGN_OR_RETURN(Target item, OneTarget(with_namespace));
      all.items.push_back(std::move(item));
    }
    return all;
  }

  bool AtEndTag(std::initializer_list<std::string_view> ends) const {
    return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return current().IsName(end); });
  }

  // Up to one of the tags `ends`, whose name is left as the current token; to the end of the source when there are
  // none.
  Result<Body> Statements(std::initializer_list<std::string_view> ends) {
    const Nest nest(depth_);
    if (depth_ > kMaxNesting) return TooDeep();
    Body body;
    while (current().type != TokenType::kEnd) {
      Stmt stmt;
      stmt.line = current().line;
      if (current().type == TokenType::kData) {
        stmt.node = Data{TextLiteral(Take().text)};
      } else if (current().type == TokenType::kOutputBegin) {
        Take();
        KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Tuple(/*parenthesized=*/false));
        KVASIR_RETURN_IF_ERROR(Expect(TokenType::kOutputEnd, "'}}'"));
        stmt.node = Output{std::move(value)};
      } else {
        KVASIR_RETURN_IF_ERROR(Expect(TokenType::kBlockBegin, "'{%'"));
        if (AtEndTag(ends)) return body;
        if (SkipName("generation")) {
          // Marks what the model wrote, for training; renders as its body.
          KVASIR_ASSIGN_OR_RETURN(Body marked, Block({"endgeneration"}));
          Take();
          KVASIR_RETURN_IF_ERROR(Expect(TokenType::kBlockEnd, "'%}'"));
          std::move(marked.begin(), marked.end(), std::back_inserter(body));
          continue;
        }
        KVASIR_ASSIGN_OR_RETURN(stmt.node, Tag());
        KVASIR_RETURN_IF_ERROR(Expect(TokenType::kBlockEnd, "'%}'"));
      }
      body.push_back(std::move(stmt));
    }
    if (ends.size() > 0) return Syntax("unexpected end of template, expected '{}'", *(ends.end() - 1));
    return body;
  }

  // The rest of an opening tag and what it encloses.
  Result<Body> Block(std::initializer_list<std::string_view> ends) {
    SkipOp(":");
    KVASIR_RETURN_IF_ERROR(Expect(TokenType::kBlockEnd, "'%}'"));
    return Statements(ends);
  }
  // The same up to the one tag `end`, which is taken.
  Result<Body> WholeBlock(std::string_view end) {
    KVASIR_ASSIGN_OR_RETURN(Body body, Block({end}));
    Take();
    return body;
  }

  using Node = decltype(Stmt::node);

  Result<Node> Tag() {
    if (current().type != TokenType::kName) return Syntax("expected a tag name, got {}", Describe());
    const std::string name = current().text;
    static constexpr std::pair<std::string_view, Result<Node> (Parser::*)()> kTags[] = {
        {"if", &Parser::IfTag},         {"for", &Parser::ForTag},         {"set", &Parser::SetTag},
        {"macro", &Parser::MacroTag},   {"call", &Parser::CallTag},       {"filter", &Parser::FilterTag},
        {"with", &Parser::WithTag},     {"block", &Parser::BlockTag},     {"autoescape", &Parser::AutoescapeTag},
        {"break", &Parser::ControlTag}, {"continue", &Parser::ControlTag}};
    for (const auto& [tag, parse] : kTags) {
      if (name != tag) continue;
      if (tag != "break" && tag != "continue") Take();
      return (this->*parse)();
    }
    return Syntax("unknown tag '{}'", name.substr(0, 80));
  }

  Result<Node> IfTag() {
    If node;
    while (true) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr test, Tuple(false, /*conditional=*/false));
      KVASIR_ASSIGN_OR_RETURN(Body body, Block({"elif", "else", "endif"}));
      node.branches.emplace_back(std::move(test), std::move(body));
      const std::string end = Take().text;
      if (end == "elif") continue;
      if (end == "else") {
        KVASIR_ASSIGN_OR_RETURN(node.otherwise, WholeBlock("endif"));
      }
      return Node(std::move(node));
    }
  }

  Result<Node> ForTag() {
    For node;
    KVASIR_ASSIGN_OR_RETURN(node.target, Targets(false));
    KVASIR_RETURN_IF_ERROR(ExpectName("in"));
    KVASIR_ASSIGN_OR_RETURN(node.iterable, Tuple(false, /*conditional=*/false));
    if (SkipName("if")) {
      KVASIR_ASSIGN_OR_RETURN(node.condition, Expression());
    }
    node.recursive = SkipName("recursive");
    ++loops_;
    auto body = Block({"endfor", "else"});
    --loops_;
    KVASIR_ASSIGN_OR_RETURN(node.body, std::move(body));
    if (Take().text == "else") {
      KVASIR_ASSIGN_OR_RETURN(node.otherwise, WholeBlock("endfor"));
    }
    return Node(std::move(node));
  }

  // "| upper | trim" after a tag's name, over the captured body; null when there is none.
  Result<ExprPtr> FilterChain(bool leading_bar) {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Make(Captured{}, {}));
    if (leading_bar && !current().Is("|")) return ExprPtr();
    if (leading_bar) Take();
    do {
      KVASIR_ASSIGN_OR_RETURN(value, OneFilter(std::move(value)));
    } while (SkipOp("|"));
    return value;
  }

  Result<Node> SetTag() {
    KVASIR_ASSIGN_OR_RETURN(Target target, Targets(true));
    if (SkipOp("=")) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Tuple(false));
      return Node(Set{std::move(target), std::move(value)});
    }
    KVASIR_ASSIGN_OR_RETURN(ExprPtr filters, FilterChain(/*leading_bar=*/true));
    KVASIR_ASSIGN_OR_RETURN(Body body, WholeBlock("endset"));
    return Node(SetBlock{std::move(target), std::move(filters), std::move(body)});
  }

  Status Parameters(MacroDef& macro) {
    KVASIR_RETURN_IF_ERROR(ExpectOp("("));
    while (!SkipOp(")")) {
      if (!macro.parameters.empty()) {
        KVASIR_RETURN_IF_ERROR(ExpectOp(","));
        if (SkipOp(")")) break;
      }
      KVASIR_ASSIGN_OR_RETURN(const std::string name, AnyName());
      ExprPtr value;
      if (SkipOp("=")) {
        KVASIR_ASSIGN_OR_RETURN(value, Expression());
      } else if (!macro.parameters.empty() && macro.parameters.back().second != nullptr) {
        return Syntax("parameter '{}' without default follows one with default", name);
      }
      macro.parameters.emplace_back(Intern(name), std::move(value));
      macro.parameter_names.push_back(name);
    }
    return {};
  }

  Status MacroBody(MacroDef& macro, std::string_view end) {
    macros_.push_back(&macro);
    const int loops = std::exchange(loops_, 0);
    auto body = WholeBlock(end);
    loops_ = loops;
    macros_.pop_back();
    KVASIR_ASSIGN_OR_RETURN(macro.body, std::move(body));
    return {};
  }

  Result<Node> MacroTag() {
    Macro node;
    KVASIR_ASSIGN_OR_RETURN(node.definition.name, AnyName());
    node.name = Intern(node.definition.name);
    KVASIR_RETURN_IF_ERROR(Parameters(node.definition));
    KVASIR_RETURN_IF_ERROR(MacroBody(node.definition, "endmacro"));
    return Node(std::move(node));
  }

  Result<Node> CallTag() {
    CallBlock node;
    node.caller.name = "caller";
    if (current().Is("(")) KVASIR_RETURN_IF_ERROR(Parameters(node.caller));
    KVASIR_ASSIGN_OR_RETURN(node.call, Expression());
    if (!std::holds_alternative<Call>(node.call->node)) return Syntax("a call block needs a call");
    KVASIR_RETURN_IF_ERROR(MacroBody(node.caller, "endcall"));
    return Node(std::move(node));
  }

  Result<Node> FilterTag() {
    FilterBlock node;
    KVASIR_ASSIGN_OR_RETURN(node.filters, FilterChain(/*leading_bar=*/false));
    KVASIR_ASSIGN_OR_RETURN(node.body, WholeBlock("endfilter"));
    return Node(std::move(node));
  }

  Result<Node> WithTag() {
    With node;
    while (current().type != TokenType::kBlockEnd && !current().Is(":")) {
      if (!node.variables.empty()) KVASIR_RETURN_IF_ERROR(ExpectOp(","));
      KVASIR_ASSIGN_OR_RETURN(Target target, OneTarget(false));
      KVASIR_RETURN_IF_ERROR(ExpectOp("="));
      KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Expression());
      node.variables.emplace_back(std::move(target), std::move(value));
    }
    KVASIR_ASSIGN_OR_RETURN(node.body, WholeBlock("endwith"));
    return Node(std::move(node));
  }

  Result<Node> BlockTag() {
    With node;
    KVASIR_ASSIGN_OR_RETURN(const std::string name, AnyName());
    SkipName("scoped");
    KVASIR_ASSIGN_OR_RETURN(node.body, WholeBlock("endblock"));
    SkipName(name);
    return Node(std::move(node));
  }

  // Nothing is ever escaped, as where chat templates are written.
  Result<Node> AutoescapeTag() {
    With node;
    KVASIR_ASSIGN_OR_RETURN(ExprPtr ignored, Expression());
    KVASIR_ASSIGN_OR_RETURN(node.body, WholeBlock("endautoescape"));
    return Node(std::move(node));
  }

  Result<Node> ControlTag() {
    if (loops_ == 0) return Syntax("'{}' outside a loop", current().text);
    return Node(LoopControl{Take().text == "break"});
  }

  int loops_ = 0;  // around the current token, in its macro
};

}  // namespace

Result<Program> Parse(std::string_view source) {
  if (source.size() > (size_t{16} << 20)) {
    return MakeError(ErrorCode::kCorrupt, "a chat template of {} bytes is too large", source.size());
  }
  KVASIR_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace kvasir::chat::jinja
