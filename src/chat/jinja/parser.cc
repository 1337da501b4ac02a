#include "chat/jinja/parser.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "chat/jinja/builtins.h"
#include "chat/jinja/lexer.h"

namespace kvasir::chat::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Program> Run() {
    KVASIR_ASSIGN_OR_RETURN(program_.body, Statements({}));
    program_.names = std::move(names_);
    return std::move(program_);
  }

 private:
  // ---- tokens

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
  std::string Describe() const {
    switch (current().type) {
      case TokenType::kData: return "text";
      case TokenType::kBlockBegin: return "'{%'";
      case TokenType::kBlockEnd: return "'%}'";
      case TokenType::kOutputBegin: return "'{{'";
      case TokenType::kOutputEnd: return "'}}'";
      case TokenType::kString: return "a string";
      case TokenType::kInteger:
      case TokenType::kFloat: return "a number";
      case TokenType::kEnd: return "the end of the template";
      case TokenType::kName:
      case TokenType::kOperator: break;
    }
    return fmt::format("'{}'", current().text.substr(0, 80));
  }
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

  Value TextLiteral(std::string_view bytes) {
    Buffer& buffer = program_.literals.emplace_back();
    buffer.Append(bytes, Origin{});
    buffer.Freeze();
    return Value(Text(&buffer, 0, static_cast<uint32_t>(buffer.bytes().size())));
  }

  // ---- nesting

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
  static const Expr* Deepest(const std::vector<ExprPtr>& exprs) {
    const Expr* deepest = nullptr;
    for (const ExprPtr& expr : exprs) {
      if (deepest == nullptr || expr->depth > deepest->depth) deepest = expr.get();
    }
    return deepest;
  }
  static const Expr* Deepest(const CallArgs& args) {
    const Expr* deepest = Deepest(args.positional);
    const auto take = [&deepest](const Expr* expr) {
      if (expr != nullptr && (deepest == nullptr || expr->depth > deepest->depth)) deepest = expr;
    };
    for (const auto& named : args.named) take(named.second.get());
    take(args.star.get());
    take(args.star_star.get());
    return deepest;
  }

  // ---- expressions, loosest first

  Result<ExprPtr> Expression() {
    const Nest nest(depth_);
    if (depth_ > kMaxNesting) return TooDeep();
    KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Or());
    while (SkipName("if")) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr test, Or());
      ExprPtr otherwise;
      if (SkipName("else")) {
        KVASIR_ASSIGN_OR_RETURN(otherwise, Expression());
      }
      const Parts parts = {test.get(), value.get(), otherwise.get()};
      KVASIR_ASSIGN_OR_RETURN(value,
                              Make(Conditional{std::move(test), std::move(value), std::move(otherwise)}, parts));
    }
    return value;
  }

  Result<ExprPtr> Chain(bool conjunction) {
    std::vector<ExprPtr> operands;
    do {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, conjunction ? NotExpr() : Chain(true));
      operands.push_back(std::move(operand));
    } while (SkipName(conjunction ? "and" : "or"));
    if (operands.size() == 1) return std::move(operands[0]);
    const Expr* deepest = Deepest(operands);
    return Make(Logical{conjunction, std::move(operands)}, {deepest});
  }
  Result<ExprPtr> Or() { return Chain(false); }

  Result<ExprPtr> NotExpr() {
    int count = 0;
    while (SkipName("not")) ++count;
    KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, Comparison());
    for (; count > 0; --count) {
      const Expr* part = operand.get();
      KVASIR_ASSIGN_OR_RETURN(operand, Make(Not{std::move(operand)}, {part}));
    }
    return operand;
  }

  bool SkipCompareOp(CompareOp& op) {
    static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
        {"==", CompareOp::kEqual}, {"!=", CompareOp::kNotEqual},  {"<=", CompareOp::kLessEqual},
        {"<", CompareOp::kLess},   {">=", CompareOp::kGreaterEqual}, {">", CompareOp::kGreater}};
    for (const auto& [text, code] : kOps) {
      if (!SkipOp(text)) continue;
      op = code;
      return true;
    }
    op = CompareOp::kIn;
    if (SkipName("in")) return true;
    if (!current().IsName("not") || !next().IsName("in")) return false;
    Take();
    Take();
    op = CompareOp::kNotIn;
    return true;
  }

  Result<ExprPtr> Comparison() {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr first, Sum());
    std::vector<std::pair<CompareOp, ExprPtr>> rest;
    const Expr* deepest = first.get();
    for (CompareOp op; SkipCompareOp(op);) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, Sum());
      if (operand->depth > deepest->depth) deepest = operand.get();
      rest.emplace_back(op, std::move(operand));
    }
    if (rest.empty()) return first;
    return Make(Compare{std::move(first), std::move(rest)}, {deepest});
  }

  Result<ExprPtr> MakeBinary(BinaryOp op, ExprPtr left, ExprPtr right) {
    const Parts parts = {left.get(), right.get()};
    return Make(Binary{op, std::move(left), std::move(right)}, parts);
  }

  Result<ExprPtr> Sum() {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr left, Concatenation());
    while (current().Is("+") || current().Is("-")) {
      const BinaryOp op = Take().text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract;
      KVASIR_ASSIGN_OR_RETURN(ExprPtr right, Concatenation());
      KVASIR_ASSIGN_OR_RETURN(left, MakeBinary(op, std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> Concatenation() {
    std::vector<ExprPtr> operands;
    do {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, Product());
      operands.push_back(std::move(operand));
    } while (SkipOp("~"));
    if (operands.size() == 1) return std::move(operands[0]);
    const Expr* deepest = Deepest(operands);
    return Make(Concat{std::move(operands)}, {deepest});
  }

  Result<ExprPtr> Product() {
    static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {{"*", BinaryOp::kMultiply},
                                                                     {"//", BinaryOp::kFloorDivide},
                                                                     {"/", BinaryOp::kDivide},
                                                                     {"%", BinaryOp::kModulo}};
    KVASIR_ASSIGN_OR_RETURN(ExprPtr left, Power());
    while (true) {
      const auto* const op =
          std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& entry) { return SkipOp(entry.first); });
      if (op == std::end(kOps)) return left;
      KVASIR_ASSIGN_OR_RETURN(ExprPtr right, Power());
      KVASIR_ASSIGN_OR_RETURN(left, MakeBinary(op->second, std::move(left), std::move(right)));
    }
  }

  Result<ExprPtr> Power() {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr left, Unary(true));
    while (SkipOp("**")) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr right, Unary(true));
      KVASIR_ASSIGN_OR_RETURN(left, MakeBinary(BinaryOp::kPower, std::move(left), std::move(right)));
    }
    return left;
  }

  // A sign binds tighter than a filter: -1|abs is 1.
  Result<ExprPtr> Unary(bool with_filters) {
    const Nest nest(depth_);
    if (depth_ > kMaxNesting) return TooDeep();
    ExprPtr value;
    if (current().Is("-") || current().Is("+")) {
      const bool plus = Take().text == "+";
      KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, Unary(false));
      const Expr* part = operand.get();
      KVASIR_ASSIGN_OR_RETURN(value, Make(Negate{std::move(operand), plus}, {part}));
    } else {
      KVASIR_ASSIGN_OR_RETURN(value, Primary());
    }
    return Postfix(std::move(value), with_filters);
  }

  Result<ExprPtr> Postfix(ExprPtr value, bool with_filters) {
    bool filtered = false;  // after a filter or test only more of these and calls follow
    while (true) {
      if (!filtered && SkipOp(".")) {
        KVASIR_ASSIGN_OR_RETURN(value, AfterDot(std::move(value)));
      } else if (!filtered && SkipOp("[")) {
        KVASIR_ASSIGN_OR_RETURN(value, AfterBracket(std::move(value)));
      } else if (current().Is("(")) {
        KVASIR_ASSIGN_OR_RETURN(CallArgs args, Arguments());
        const Parts parts = {value.get(), Deepest(args)};
        KVASIR_ASSIGN_OR_RETURN(value, Make(Call{std::move(value), std::move(args)}, parts));
      } else if (with_filters && SkipOp("|")) {
        KVASIR_ASSIGN_OR_RETURN(value, OneFilter(std::move(value)));
        filtered = true;
      } else if (with_filters && SkipName("is")) {
        KVASIR_ASSIGN_OR_RETURN(value, OneTest(std::move(value)));
        filtered = true;
      } else {
        return value;
      }
    }
  }

  Result<ExprPtr> AfterDot(ExprPtr object) {
    const Expr* part = object.get();
    if (current().type == TokenType::kInteger) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr index, Make(Literal{Value::Int(Take().integer)}, {}));
      return Make(Subscript{std::move(object), std::move(index)}, {part});
    }
    KVASIR_ASSIGN_OR_RETURN(std::string name, AnyName());
    return Make(Attribute{std::move(object), std::move(name)}, {part});
  }

  Result<ExprPtr> AfterBracket(ExprPtr object) {
    ExprPtr bounds[3];
    int colons = 0;
    while (!current().Is("]")) {
      if (SkipOp(":")) {
        if (++colons > 2) return Syntax("a slice has at most three parts");
        continue;
      }
      if (bounds[colons] != nullptr) return Syntax("expected ']', got {}", Describe());
      KVASIR_ASSIGN_OR_RETURN(bounds[colons], Expression());
      if (current().Is(",")) return Syntax("a subscript takes one index");
    }
    Take();
    const Parts parts = {object.get(), bounds[0].get(),
                        bounds[1].get(), bounds[2].get()};
    if (colons > 0) {
      return Make(Slice{std::move(object), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])}, parts);
    }
    if (bounds[0] == nullptr) return Syntax("empty subscript");
    return Make(Subscript{std::move(object), std::move(bounds[0])}, parts);
  }

  Result<std::string> DottedName() {
    KVASIR_ASSIGN_OR_RETURN(std::string name, AnyName());
    while (SkipOp(".")) {
      KVASIR_ASSIGN_OR_RETURN(const std::string part, AnyName());
      name += "." + part;
    }
    return name;
  }

  Result<ExprPtr> OneFilter(ExprPtr input) {
    KVASIR_ASSIGN_OR_RETURN(std::string name, DottedName());
    CallArgs args;
    if (current().Is("(")) {
      KVASIR_ASSIGN_OR_RETURN(args, Arguments());
    }
    const Function function = FindFilter(name);
    const Parts parts = {input.get(), Deepest(args)};
    return Make(Filter{std::move(input), std::move(name), function, std::move(args)}, parts);
  }

  Result<ExprPtr> OneTest(ExprPtr input) {
    const bool negated = SkipName("not");
    KVASIR_ASSIGN_OR_RETURN(std::string name, DottedName());
    CallArgs args;
    const Token& token = current();
    if (token.Is("(")) {
      KVASIR_ASSIGN_OR_RETURN(args, Arguments());
    } else if (token.IsName("is")) {
      return Syntax("tests cannot be chained with 'is'");
    } else if (token.type == TokenType::kString || token.type == TokenType::kInteger ||
               token.type == TokenType::kFloat || token.Is("[") || token.Is("{") ||
               (token.type == TokenType::kName && !token.IsName("else") && !token.IsName("or") &&
                !token.IsName("and"))) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr argument, Primary());
      KVASIR_ASSIGN_OR_RETURN(argument, Postfix(std::move(argument), false));
      args.positional.push_back(std::move(argument));
    }
    const Function function = FindTest(name);
    const Parts parts = {input.get(), Deepest(args)};
    KVASIR_ASSIGN_OR_RETURN(ExprPtr test,
                            Make(Test{std::move(input), std::move(name), function, std::move(args)}, parts));
    if (!negated) return test;
    const Expr* part = test.get();
    return Make(Not{std::move(test)}, {part});
  }

  Result<CallArgs> Arguments() {
    KVASIR_RETURN_IF_ERROR(ExpectOp("("));
    CallArgs args;
    while (!SkipOp(")")) {
      if (!args.positional.empty() || !args.named.empty() || args.star != nullptr || args.star_star != nullptr) {
        KVASIR_RETURN_IF_ERROR(ExpectOp(","));
        if (SkipOp(")")) break;
      }
      if (args.star_star != nullptr) return Syntax("an argument after **");
      if (SkipOp("**")) {
        KVASIR_ASSIGN_OR_RETURN(args.star_star, Expression());
      } else if (current().Is("*")) {
        if (args.star != nullptr) return Syntax("two arguments with *");
        Take();
        KVASIR_ASSIGN_OR_RETURN(args.star, Expression());
      } else if (current().type == TokenType::kName && next().Is("=")) {
        std::string name = Take().text;
        Take();
        KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Expression());
        args.named.emplace_back(std::move(name), std::move(value));
      } else {
        if (args.star != nullptr || !args.named.empty()) return Syntax("a positional argument after a named one");
        KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Expression());
        args.positional.push_back(std::move(value));
      }
    }
    return args;
  }

  Result<ExprPtr> Primary() {
    switch (current().type) {
      case TokenType::kName: return NameOrConstant();
      case TokenType::kString: {
        std::string text = Take().text;
        while (current().type == TokenType::kString) text += Take().text;
        return Make(Literal{TextLiteral(text)}, {});
      }
      case TokenType::kInteger: return Make(Literal{Value::Int(Take().integer)}, {});
      case TokenType::kFloat: return Make(Literal{Value::Float(Take().real)}, {});
      default: break;
    }
    if (SkipOp("(")) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Tuple(/*parenthesized=*/true));
      KVASIR_RETURN_IF_ERROR(ExpectOp(")"));
      return value;
    }
    if (SkipOp("[")) {
      std::vector<ExprPtr> items;
      while (!SkipOp("]")) {
        if (!items.empty()) {
          KVASIR_RETURN_IF_ERROR(ExpectOp(","));
          if (SkipOp("]")) break;
        }
        KVASIR_ASSIGN_OR_RETURN(ExprPtr item, Expression());
        items.push_back(std::move(item));
      }
      const Expr* deepest = Deepest(items);
      return Make(ListExpr{std::move(items), false}, {deepest});
    }
    if (SkipOp("{")) return DictLiteral();
    return Syntax("expected an expression, got {}", Describe());
  }

  Result<ExprPtr> NameOrConstant() {
    const std::string name = Take().text;
    if (name == "true" || name == "True") return Make(Literal{Value::Bool(true)}, {});
    if (name == "false" || name == "False") return Make(Literal{Value::Bool(false)}, {});
    if (name == "none" || name == "None") return Make(Literal{Value::None()}, {});
    for (MacroDef* macro : macros_) {
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
      macro->uses_caller |= name == "caller";
    }
    return Make(Name{Intern(name)}, {});
  }

  Result<ExprPtr> DictLiteral() {
    DictExpr dict;
    const Expr* deepest = nullptr;
    while (!SkipOp("}")) {
      if (!dict.entries.empty()) {
        KVASIR_RETURN_IF_ERROR(ExpectOp(","));
        if (SkipOp("}")) break;
      }
      KVASIR_ASSIGN_OR_RETURN(ExprPtr key, Expression());
      KVASIR_RETURN_IF_ERROR(ExpectOp(":"));
      KVASIR_ASSIGN_OR_RETURN(ExprPtr value, Expression());
      for (const Expr* part : {key.get(), value.get()}) {
        if (deepest == nullptr || part->depth > deepest->depth) deepest = part;
      }
      dict.entries.emplace_back(std::move(key), std::move(value));
    }
    return Make(std::move(dict), {deepest});
  }

  bool EndsTuple() const {
    return current().type == TokenType::kOutputEnd || current().type == TokenType::kBlockEnd || current().Is(")") ||
           current().IsName("recursive");
  }

  // One expression, or several with commas. Without `conditional` an `if` ends it, as in for and if tags.
  Result<ExprPtr> Tuple(bool parenthesized, bool conditional = true) {
    std::vector<ExprPtr> items;
    bool tuple = false;
    while (!EndsTuple()) {
      KVASIR_ASSIGN_OR_RETURN(ExprPtr item, conditional ? Expression() : Or());
      items.push_back(std::move(item));
      if (!SkipOp(",")) break;
      tuple = true;
    }
    if (!tuple && items.size() == 1) return std::move(items[0]);
    if (items.empty() && !parenthesized) return Syntax("expected an expression, got {}", Describe());
    const Expr* deepest = Deepest(items);
    return Make(ListExpr{std::move(items), true}, {deepest});
  }

  // ---- statements

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

  // Up to one of the tags `ends`, whose name is left as the current token; to the end of the source when there are none.
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
        {"if", &Parser::IfTag},         {"for", &Parser::ForTag},       {"set", &Parser::SetTag},
        {"macro", &Parser::MacroTag},   {"call", &Parser::CallTag},     {"filter", &Parser::FilterTag},
        {"with", &Parser::WithTag},     {"block", &Parser::BlockTag},   {"autoescape", &Parser::AutoescapeTag},
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  std::vector<MacroDef*> macros_;  // those whose bodies enclose the current token
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
  Program program_;
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
