// The names of tokenizer.ggml.pre and what they mean. Patterns are those of the models' tokenizer.json files as
// llama.cpp (src/llama-vocab.cpp) lists them; where it had to bend one for its own regex engine, the model's own is
// used.
#include <algorithm>
#include <iterator>

#include "tokenizer/pre_tokenizer.h"

namespace kvasir::tokenizer {
namespace {

#define KVASIR_CONTRACTION R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define KVASIR_CASED                                                                                   \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" KVASIR_CONTRACTION \
  "?|"                                                                                                 \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" KVASIR_CONTRACTION "?|"
#define KVASIR_ASCII_PUNCTUATION R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])"

constexpr const char* kBloomWords = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)";
constexpr const char* kCjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kDeepSeekWords = KVASIR_ASCII_PUNCTUATION
    R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr Pass kGpt2[] = {{PassKind::kGpt2}};
constexpr Pass kLlama3[] = {{PassKind::kLlama3}};
constexpr Pass kQwen2[] = {{PassKind::kQwen2}};
constexpr Pass kQwen35[] = {{PassKind::kQwen35}};
constexpr Pass kTekken[] = {{PassKind::kTekken}};
constexpr Pass kGpt4o[] = {{PassKind::kGpt4o}};
constexpr Pass kKimi[] = {{PassKind::kKimi}};
constexpr Pass kLines[] = {{PassKind::kLines}};
constexpr Pass kDigitsGpt2[] = {{PassKind::kSingleNumbers}, {PassKind::kGpt2}};
constexpr Pass kLinesQwen2[] = {{PassKind::kLines}, {PassKind::kQwen2}};
// The second pattern takes runs of digits of any length, but the first has cut them.
constexpr Pass kMiniCpm5[] = {{PassKind::kThreeNumbers}, {PassKind::kLlama3}};
constexpr Pass kSuperBpe[] = {{PassKind::kNumberGroups}};
constexpr Pass kDefault[] = {{PassKind::kRegex, R"([\p{P}\$\+<=>\^~\|]+)"},
                             {PassKind::kGpt2},
                             {PassKind::kRegex, R"(\p{N}+)"},
                             {PassKind::kRegex, "[0-9][0-9][0-9]"}};
constexpr Pass kFalcon[] = {
    {PassKind::kRegex, R"([\p{P}\$\+<=>\^~\|`]+)"}, {PassKind::kGpt2}, {PassKind::kRegex, "[0-9][0-9][0-9]"}};
constexpr Pass kDeepSeekCoder[] = {{PassKind::kRegex, R"([\r\n])"},
                                   {PassKind::kRegex, R"(\s?\p{L}+)"},
                                   {PassKind::kRegex, R"(\s?\p{P}+)"},
                                   {PassKind::kRegex, R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"},
                                   {PassKind::kSingleNumbers}};
constexpr Pass kDeepSeekLlm[] = {
    {PassKind::kRegex, R"([\r\n])"},
    {PassKind::kRegex,
     R"(\s?[A-Za-z\x{00B5}\x{00C0}-\x{00D6}\x{00D8}-\x{00F6}\x{00F8}-\x{01BA}\x{01BC}-\x{01BF}\x{01C4}-\x{0293})"
     R"(\x{0295}-\x{02AF}\x{0370}-\x{0373}\x{0376}\x{0377}\x{037B}-\x{037D}\x{037F}\x{0386}\x{0388}-\x{038A})"
     R"(\x{038C}\x{038E}-\x{03A1}\x{03A3}-\x{03F5}\x{03F7}-\x{0481}\x{048A}-\x{052F}\x{0531}-\x{0556})"
     R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
     R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
     R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
     R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
     R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"
     R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"
     R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B})"
     R"(\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
     R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
     R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)"},
    {PassKind::kRegex, R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"},
    {PassKind::kRegex, R"(\s+\z)"},
    {PassKind::kRegex, R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"},
    {PassKind::kRegex, R"(\p{N}+)"}};
constexpr Pass kDeepSeek3[] = {{PassKind::kThreeNumbers}, {PassKind::kRegex, kCjk}, {PassKind::kRegex, kDeepSeekWords}};
constexpr Pass kSpark[] = {{PassKind::kThreeNumbers},
                           {PassKind::kRegex, kCjk},
                           {PassKind::kRegex, KVASIR_ASCII_PUNCTUATION
                            R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"},
                           {PassKind::kSingleNumbers}};
constexpr Pass kYoutu[] = {
    {PassKind::kRegex,
     R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A})"
     R"(\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5})"
     R"(\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"},
    {PassKind::kRegex, KVASIR_CASED R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Pass kJais2[] = {
    {PassKind::kRegex, KVASIR_CONTRACTION
     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|)"
     R"(\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}};
constexpr Pass kBloom[] = {{PassKind::kRegex, kBloomWords}};
constexpr Pass kViking[] = {{PassKind::kRegex, kBloomWords}, {PassKind::kSingleNumbers}};
constexpr Pass kChameleon[] = {
    {PassKind::kRegex, "<sentinel:[0-9]+>"},       {PassKind::kRegex, "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"},
    {PassKind::kRegex, R"([\t\n]|    |  )"},       {PassKind::kSingleNumbers},
    {PassKind::kRegex, R"([\p{P}!-/:-@\[-`{-~])"}, {PassKind::kGpt2}};
constexpr Pass kTinyAya[] = {{PassKind::kDecimalGroups}, {PassKind::kGpt4o}};
constexpr Pass kBailing[] = {
    {PassKind::kRegex,
     R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
     R"(\s*[\r\n]|\s+(?!\S)|\s+)"}};
constexpr Pass kSeedCoder[] = {
    {PassKind::kRegex,
     KVASIR_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Pass kUfakzeka[] = {
    {PassKind::kRegex, R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr Pass kAfmoe[] = {
    {PassKind::kNumberGroups},
    {PassKind::kRegex,
     R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
     R"(\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
     R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)"},
    {PassKind::kRegex, kDeepSeekWords}};
constexpr Pass kExaoneMoe[] = {
    {PassKind::kRegex, KVASIR_CONTRACTION
     R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S))"
     R"(|\s+)"}};

#undef KVASIR_CONTRACTION
#undef KVASIR_CASED
#undef KVASIR_ASCII_PUNCTUATION

constexpr bool kAddsBos = true, kAddsSep = true, kWholeWords = true, kVisibleSpaces = true;

constexpr PreTokenizerRules kRules[] = {
    {"default", kDefault},
    {"llama-bpe", kLlama3, kAddsBos, false, kWholeWords},
    {"llama3", kLlama3, kAddsBos, false, kWholeWords},
    {"llama-v3", kLlama3, kAddsBos, false, kWholeWords},
    {"falcon3", kLlama3, kAddsBos, false, kWholeWords},
    {"falcon-h1", kLlama3, kAddsBos, false, kWholeWords},
    {"pixtral", kLlama3, kAddsBos, false, kWholeWords},
    {"midm-2.0", kLlama3, kAddsBos, false, kWholeWords},
    {"lfm2", kLlama3, kAddsBos, false, kWholeWords},
    {"jina-v5-nano", kLlama3, kAddsBos, false, kWholeWords},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"chatglm-bpe", kLlama3},
    {"glm4", kLlama3},
    {"minicpm5", kMiniCpm5, false, false, kWholeWords},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"solar-open", kQwen2},
    {"grok-2", kQwen2},
    {"laguna", kLinesQwen2},
    {"qwen35", kQwen35},
    {"tekken", kTekken, kAddsBos, false, kWholeWords},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"granite-embed-multi-97m", kGpt4o, false, false, kWholeWords},
    {"kimi-k2", kKimi},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"gigachat", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"modern-bert", kGpt2},
    {"exaone4", kGpt2},
    {"jina-v1-en", kGpt2, false, kAddsSep},
    {"jina-v2-code", kGpt2, false, kAddsSep},
    {"roberta-bpe", kGpt2, false, kAddsSep},
    {"starcoder", kDigitsGpt2},
    {"smollm", kDigitsGpt2},
    {"refact", kDigitsGpt2},
    {"command-r", kDigitsGpt2},
    {"codeshell", kDigitsGpt2},
    {"exaone", kDigitsGpt2},
    {"minerva-7b", kDigitsGpt2},
    {"mellum2", kDigitsGpt2},
    {"gemma4", kLines, false, false, false, kVisibleSpaces},
    {"granite-embed-multi-311m", kLines, false, false, false, kVisibleSpaces},
    {"sarvam-moe", kLines, false, false, false, kVisibleSpaces},
    {"deepseek-llm", kDeepSeekLlm},
    {"deepseek-coder", kDeepSeekCoder},
    {"deepseek-v3", kDeepSeek3},
    {"hunyuan-dense", kDeepSeek3},
    {"joyai-llm", kDeepSeek3},
    {"hy_v4", kDeepSeek3},
    {"spark2_5", kSpark},
    {"falcon", kFalcon},
    {"youtu", kYoutu, false, false, kWholeWords},
    {"jais-2", kJais2},
    {"bloom", kBloom},
    {"poro-chat", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
    {"chameleon", kChameleon, kAddsBos},
    {"tiny_aya", kTinyAya},
    {"cohere2moe", kTinyAya},
    {"superbpe", kSuperBpe},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"llada-moe", kBailing},
    {"seed-coder", kSeedCoder},
    {"ufakzeka", kUfakzeka},
    {"afmoe", kAfmoe},
    {"exaone-moe", kExaoneMoe},
};

}  // namespace

const PreTokenizerRules* FindPreTokenizer(std::string_view name) {
  const auto* rules =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const PreTokenizerRules& r) { return r.name == name; });
  return rules == std::end(kRules) ? nullptr : rules;
}

}  // namespace kvasir::tokenizer
