#include "cli/prompt.h"

#include <iterator>

#include "base/log.h"
#include "base/mapped_file.h"
#include "chat/chat_encoder.h"

namespace kvasir::cli {
namespace {

std::string Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string TokenText(const tokenizer::Tokenizer& tokenizer, kv::Token token) {
  return token == tokenizer::kNoToken ? std::string() : tokenizer.Piece(token, true);
}

}  // namespace

void PromptFlags::AddTo(Flags& flags) {
  flags.Add({"-p --prompt", "TEXT", "the prompt"}, [this](std::string_view value) -> std::optional<std::string> {
    text = value;
    return std::nullopt;
  });
  flags.Add({"-f --file", "FILE", "the prompt, from a file; -: from standard input"}, &file);
  flags.Add({"--ids", "N,...", "the prompt as token ids"}, &ids, 0);
  flags.Add({"-sys --system-prompt", "TEXT", "a system message in front"}, &system);
  flags.Add({"--chat-template-file", "FILE", "a chat template instead of the model's own"}, &template_file);
  flags.Add({"--raw", "", "the prompt as it is, without a chat template"}, &raw);
  flags.Add({"--parse-special", "", "with --raw: text that spells a control token becomes it"}, &parse_special);
}

Status PromptFlags::Validate(bool interactive) const {
  const int sources = (text.has_value() ? 1 : 0) + (file.empty() ? 0 : 1) + (ids.empty() ? 0 : 1);
  if (interactive && sources > 0)
    return MakeError(ErrorCode::kInvalidArgument, "-i reads its prompts line by line; leave out -p, -f and --ids");
  if (!interactive && sources != 1) {
    return MakeError(ErrorCode::kInvalidArgument, "the prompt comes from one of -p, -f and --ids; {} are given",
                     sources);
  }
  if (parse_special && !raw) return MakeError(ErrorCode::kInvalidArgument, "--parse-special goes with --raw");
  return {};
}

Conversation::Conversation(const std::string& system) {
  if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
}

void Conversation::Ask(const std::string& text) {
  messages_.push_back({{"role", "user"}, {"content", text}});
}

void Conversation::Answer(const std::string& text) {
  messages_.push_back({{"role", "assistant"}, {"content", text}});
}

Result<Prompter> Prompter::Create(const engine::Engine& engine, const PromptFlags& flags) {
  Prompter prompter(engine, flags);
  if (flags.raw || !flags.ids.empty()) return prompter;
  std::string source;
  if (!flags.template_file.empty()) {
    KVASIR_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(flags.template_file));
    source = Text(file);
  } else {
    KVASIR_ASSIGN_OR_RETURN(const std::string_view own, engine.file().GetStringOr("tokenizer.chat_template", ""));
    source = own;
  }
  if (source.empty()) {
    Log(LogLevel::kWarn, "the model has no chat template; the prompt is taken as it is (--raw says so)");
    return prompter;
  }
  const tokenizer::Tokenizer& tokenizer = engine.tokenizer();
  KVASIR_ASSIGN_OR_RETURN(
      prompter.template_,
      chat::ChatTemplate::Parse(std::move(source), {.bos_token = TokenText(tokenizer, tokenizer.special().bos),
                                                    .eos_token = TokenText(tokenizer, tokenizer.special().eos),
                                                    .limits = {}}));
  return prompter;
}

Result<std::vector<kv::Token>> Prompter::First(std::istream& in) const {
  if (!flags_->ids.empty()) {
    std::vector<kv::Token> tokens;
    for (const int64_t id : flags_->ids) {
      if (id >= engine_->config().n_vocab) {
        return MakeError(ErrorCode::kInvalidArgument, "--ids: {} is not in the vocabulary of {}", id,
                         engine_->config().n_vocab);
      }
      tokens.push_back(static_cast<kv::Token>(id));
    }
    return tokens;
  }
  std::string text = flags_->text.value_or("");
  if (flags_->file == "-") {
    text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  } else if (!flags_->file.empty()) {
    KVASIR_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(flags_->file));
    text = Text(file);
  }
  Conversation conversation = Begin();
  return Turn(conversation, text);
}

Result<std::vector<kv::Token>> Prompter::Turn(Conversation& conversation, const std::string& line) const {
  conversation.Ask(line);
  if (template_.has_value()) return Render(conversation);
  std::string text;
  for (const auto& message : conversation.messages()) text += message["content"].get_ref<const std::string&>();
  return engine_->tokenizer().Encode(text, {.add_special = true, .parse_special = flags_->parse_special});
}

Result<std::vector<kv::Token>> Prompter::Render(const Conversation& conversation) const {
  chat::ChatInput input;
  input.messages = conversation.messages();
  input.now = chat::LocalTimeNow();
  KVASIR_ASSIGN_OR_RETURN(const chat::RenderedChat rendered, template_->Render(input));
  return chat::EncodeChat(engine_->tokenizer(), rendered);
}

}  // namespace kvasir::cli
