#include "chat/jinja/expression_parser.h"

#include "chat/jinja/builtins.h"

namespace kvasir::chat::jinja {

std::string ExpressionParser::Describe() const {
  switch (current().type) {
    case TokenType::kData:
      return "text";
    case TokenType::kBlockBegin:
      return "'{%'";
    case TokenType::kBlockEnd:
      return "'%}'";
    case TokenType::kOutputBegin:
      return "'{{'";
    case TokenType::kOutputEnd:
      return "'}}'";
    case TokenType::kString:
      return "a string";
    case TokenType::kInteger:
    case TokenType::kFloat:
      return "a number";
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kName:
    case TokenType::kOperator:
      break;
  }
  return fmt::format("'{}'", current().text.substr(0, 80));
}

Value ExpressionParser::TextLiteral(std::string_view bytes) {
  Buffer& buffer = program_.literals.emplace_back();
  buffer.Append(bytes, Origin{});
  buffer.Freeze();
  return Value(Text(&buffer, 0, static_cast<uint32_t>(buffer.bytes().size())));
}

const Expr* ExpressionParser::Deepest(const std::vector<ExprPtr>& exprs) {
  const Expr* deepest = nullptr;
  for (const ExprPtr& expr : exprs) {
    if (deepest == nullptr || expr->depth > deepest->depth) deepest = expr.get();
  }
  return deepest;
}

const Expr* ExpressionParser::Deepest(const CallArgs& args) {
  const Expr* deepest = Deepest(args.positional);
  const auto take = [&deepest](const Expr* expr) {
    if (expr != nullptr && (deepest == nullptr || expr->depth > deepest->depth)) deepest = expr;
  };
  for (const auto& named : args.named) take(named.second.get());
  take(args.star.get());
  take(args.star_star.get());
  return deepest;
}

Result<ExprPtr> ExpressionParser::Expression() {
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
    KVASIR_ASSIGN_OR_RETURN(value, Make(Conditional{std::move(test), std::move(value), std::move(otherwise)}, parts));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::Chain(bool conjunction) {
  std::vector<ExprPtr> operands;
  do {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, conjunction ? NotExpr() : Chain(true));
    operands.push_back(std::move(operand));
  } while (SkipName(conjunction ? "and" : "or"));
  if (operands.size() == 1) return std::move(operands[0]);
  const Expr* deepest = Deepest(operands);
  return Make(Logical{conjunction, std::move(operands)}, {deepest});
}

Result<ExprPtr> ExpressionParser::Or() {
  return Chain(false);
}

Result<ExprPtr> ExpressionParser::NotExpr() {
  int count = 0;
  while (SkipName("not")) ++count;
  KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, Comparison());
  for (; count > 0; --count) {
    const Expr* part = operand.get();
    KVASIR_ASSIGN_OR_RETURN(operand, Make(Not{std::move(operand)}, {part}));
  }
  return operand;
}

bool ExpressionParser::SkipCompareOp(CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
      {"==", CompareOp::kEqual}, {"!=", CompareOp::kNotEqual},     {"<=", CompareOp::kLessEqual},
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

Result<ExprPtr> ExpressionParser::Comparison() {
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

Result<ExprPtr> ExpressionParser::MakeBinary(BinaryOp op, ExprPtr left, ExprPtr right) {
  const Parts parts = {left.get(), right.get()};
  return Make(Binary{op, std::move(left), std::move(right)}, parts);
}

Result<ExprPtr> ExpressionParser::Sum() {
  KVASIR_ASSIGN_OR_RETURN(ExprPtr left, Concatenation());
  while (current().Is("+") || current().Is("-")) {
    const BinaryOp op = Take().text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract;
    KVASIR_ASSIGN_OR_RETURN(ExprPtr right, Concatenation());
    KVASIR_ASSIGN_OR_RETURN(left, MakeBinary(op, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::Concatenation() {
  std::vector<ExprPtr> operands;
  do {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr operand, Product());
    operands.push_back(std::move(operand));
  } while (SkipOp("~"));
  if (operands.size() == 1) return std::move(operands[0]);
  const Expr* deepest = Deepest(operands);
  return Make(Concat{std::move(operands)}, {deepest});
}

Result<ExprPtr> ExpressionParser::Product() {
  static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
      {"*", BinaryOp::kMultiply}, {"//", BinaryOp::kFloorDivide}, {"/", BinaryOp::kDivide}, {"%", BinaryOp::kModulo}};
  KVASIR_ASSIGN_OR_RETURN(ExprPtr left, Power());
  while (true) {
    const auto* const op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& entry) { return SkipOp(entry.first); });
    if (op == std::end(kOps)) return left;
    KVASIR_ASSIGN_OR_RETURN(ExprPtr right, Power());
    KVASIR_ASSIGN_OR_RETURN(left, MakeBinary(op->second, std::move(left), std::move(right)));
  }
}

Result<ExprPtr> ExpressionParser::Power() {
  KVASIR_ASSIGN_OR_RETURN(ExprPtr left, Unary(true));
  while (SkipOp("**")) {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr right, Unary(true));
    KVASIR_ASSIGN_OR_RETURN(left, MakeBinary(BinaryOp::kPower, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::Unary(bool with_filters) {
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

Result<ExprPtr> ExpressionParser::Postfix(ExprPtr value, bool with_filters) {
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

Result<ExprPtr> ExpressionParser::AfterDot(ExprPtr object) {
  const Expr* part = object.get();
  if (current().type == TokenType::kInteger) {
    KVASIR_ASSIGN_OR_RETURN(ExprPtr index, Make(Literal{Value::Int(Take().integer)}, {}));
    return Make(Subscript{std::move(object), std::move(index)}, {part});
  }
  KVASIR_ASSIGN_OR_RETURN(std::string name, AnyName());
  return Make(Attribute{std::move(object), std::move(name)}, {part});
}

Result<ExprPtr> ExpressionParser::AfterBracket(ExprPtr object) {
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
  const Parts parts = {object.get(), bounds[0].get(), bounds[1].get(), bounds[2].get()};
  if (colons > 0) {
    return Make(Slice{std::move(object), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])}, parts);
  }
  if (bounds[0] == nullptr) return Syntax("empty subscript");
  return Make(Subscript{std::move(object), std::move(bounds[0])}, parts);
}

Result<std::string> ExpressionParser::DottedName() {
  KVASIR_ASSIGN_OR_RETURN(std::string name, AnyName());
  while (SkipOp(".")) {
    KVASIR_ASSIGN_OR_RETURN(const std::string part, AnyName());
    name += "." + part;
  }
  return name;
}

Result<ExprPtr> ExpressionParser::OneFilter(ExprPtr input) {
  KVASIR_ASSIGN_OR_RETURN(std::string name, DottedName());
  CallArgs args;
  if (current().Is("(")) {
    KVASIR_ASSIGN_OR_RETURN(args, Arguments());
  }
  const Function function = FindFilter(name);
  const Parts parts = {input.get(), Deepest(args)};
  return Make(Filter{std::move(input), std::move(name), function, std::move(args)}, parts);
}

Result<ExprPtr> ExpressionParser::OneTest(ExprPtr input) {
  const bool negated = SkipName("not");
  KVASIR_ASSIGN_OR_RETURN(std::string name, DottedName());
  CallArgs args;
  const Token& token = current();
  if (token.Is("(")) {
    KVASIR_ASSIGN_OR_RETURN(args, Arguments());
  } else if (token.IsName("is")) {
    return Syntax("tests cannot be chained with 'is'");
  } else if (token.type == TokenType::kString || token.type == TokenType::kInteger || token.type == TokenType::kFloat ||
             token.Is("[") || token.Is("{") ||
             (token.type == TokenType::kName && !token.IsName("else") && !token.IsName("or") && !token.IsName("and"))) {
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

Result<CallArgs> ExpressionParser::Arguments() {
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

Result<ExprPtr> ExpressionParser::Primary() {
  switch (current().type) {
    case TokenType::kName:
      return NameOrConstant();
    case TokenType::kString: {
      std::string text = Take().text;
      while (current().type == TokenType::kString) text += Take().text;
      return Make(Literal{TextLiteral(text)}, {});
    }
    case TokenType::kInteger:
      return Make(Literal{Value::Int(Take().integer)}, {});
    case TokenType::kFloat:
      return Make(Literal{Value::Float(Take().real)}, {});
    default:
      break;
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

Result<ExprPtr> ExpressionParser::NameOrConstant() {
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

Result<ExprPtr> ExpressionParser::DictLiteral() {
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

bool ExpressionParser::EndsTuple() const {
  return current().type == TokenType::kOutputEnd || current().type == TokenType::kBlockEnd || current().Is(")") ||
         current().IsName("recursive");
}

Result<ExprPtr> ExpressionParser::Tuple(bool parenthesized, bool conditional) {
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

}  // namespace kvasir::chat::jinja
