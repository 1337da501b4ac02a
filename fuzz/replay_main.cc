// The main of a fuzz target where there is no libFuzzer: runs it on every file of the folders named, then on no bytes
// at all.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(stream)), {});
      // Of exactly its size, so that a sanitizer sees a read behind the end.
      const std::vector<uint8_t> bytes(text.begin(), text.end());
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++files;
    }
    if (error) std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
  }
  LLVMFuzzerTestOneInput(nullptr, 0);
  std::printf("%zu inputs replayed\n", files);
  return files > 0 ? 0 : 1;
}
