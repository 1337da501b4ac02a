// Text on standard input to token ids, and back.
#include <fmt/ostream.h>

#include <charconv>
#include <iterator>

#include "cli/base64.h"
#include "cli/commands.h"
#include "cli/flag_table.h"
#include "cli/json.h"
#include "cli/model_path.h"
#include "gguf/gguf_file.h"
#include "gguf/text.h"
#include "tokenizer/tokenizer.h"

namespace kvasir::cli {
namespace {

using tokenizer::Token;
using tokenizer::Tokenizer;

struct Options {
  std::string model;
  bool json = false;
  bool decode = false;
  bool plain = false;
  bool parse_special = false;
  bool no_special_added = false;
};

// Ids as people and programs write them: `1 2 3`, `1,2,3`, `[1, 2, 3]` or `{"tokens": [1, 2, 3]}`.
Result<std::vector<Token>> ParseIds(std::string_view text, int vocabulary) {
  if (text.find('{') != std::string_view::npos) {
    KVASIR_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
    if (!json.is_object() || !json.contains("tokens") || !json["tokens"].is_array()) {
      return MakeError(ErrorCode::kInvalidArgument, "expected an object with an array \"tokens\" on standard input");
    }
    return ParseIds(ToLine(json["tokens"]), vocabulary);
  }
  std::vector<Token> ids;
  constexpr std::string_view kBetween = " \t\r\n,[]";
  for (size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    Token id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0 || id >= vocabulary) {
      return MakeError(ErrorCode::kInvalidArgument, "'{}' is not a token id from 0 to {}", gguf::Printable(word),
                       vocabulary - 1);
    }
    ids.push_back(id);
  }
  return ids;
}

Status Decode(const Tokenizer& tokenizer, const Options& options, std::string_view input, std::ostream& out) {
  KVASIR_ASSIGN_OR_RETURN(const std::vector<Token> ids, ParseIds(input, tokenizer.vocab_size()));
  const std::string text = tokenizer.Decode(ids, options.plain, !options.plain);
  if (options.json) {
    fmt::print(out, "{}\n", ToLine({{"text", text}, {"bytes", ToBase64(text)}}));
  } else {
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  return {};
}

void Encode(const Tokenizer& tokenizer, const Options& options, std::string_view input, std::ostream& out) {
  const std::vector<Token> ids =
      tokenizer.Encode(input, {.add_special = !options.no_special_added, .parse_special = options.parse_special});
  if (!options.json) {
    for (const Token id : ids) fmt::print(out, "{:>7}  \"{}\"\n", id, gguf::Printable(tokenizer.Piece(id, true)));
    return;
  }
  Json pieces = Json::array();
  for (const Token id : ids) pieces.push_back(ToBase64(tokenizer.Piece(id, true)));
  fmt::print(out, "{}\n", ToLine({{"tokens", ids}, {"pieces", std::move(pieces)}}));
}

Status Tokenize(const Options& options, Streams streams) {
  KVASIR_ASSIGN_OR_RETURN(const std::string path, FindModel(options.model, ProcessEnvironment()));
  KVASIR_ASSIGN_OR_RETURN(const gguf::GgufFile file, gguf::GgufFile::Open(path));
  KVASIR_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromGguf(file));
  const std::string input(std::istreambuf_iterator<char>(streams.in), {});
  if (options.decode) return Decode(tokenizer, options, input, streams.out);
  Encode(tokenizer, options, input, streams.out);
  return {};
}

}  // namespace

int RunTokenize(const Args& args, Streams streams) {
  Options options;
  Flags flags(
      "tokenize",
      "Text on standard input to token ids; with --decode ids (1 2 3, [1,2,3] or {\"tokens\": [1,2,3]}) to text.");
  flags.Add(kModelFlag, &options.model);
  flags.Require();
  flags.Add(
      Flag{"--json", "", "{\"tokens\": [ids], \"pieces\": [base64]}; with --decode {\"text\", \"bytes\": base64}"},
      &options.json);
  flags.Add(Flag{"--decode", "", "ids to text"}, &options.decode);
  flags.Add(Flag{"--plain", "", "with --decode: leave control tokens out"}, &options.plain);
  flags.Add(Flag{"--parse-special", "", "text that spells a control token becomes it"}, &options.parse_special);
  flags.Add(Flag{"--no-special-added", "", "no BOS or EOS around the text"}, &options.no_special_added);
  if (const auto exit = flags.Read(args, streams)) return *exit;
  if (options.plain && !options.decode) {
    fmt::print(streams.err, "kvasir tokenize: --plain says how to decode; it needs --decode\n");
    return kExitUsage;
  }
  if (options.decode && (options.parse_special || options.no_special_added)) {
    fmt::print(
        streams.err,
        "kvasir tokenize: --parse-special and --no-special-added say how to encode; leave them out with --decode\n");
    return kExitUsage;
  }
  return ExitCode("tokenize", Tokenize(options, streams), streams);
}

}  // namespace kvasir::cli
