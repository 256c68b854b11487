// Runs a target over the files and folders named on the command line, without the fuzzer, so that
// every build runs the corpora and every finding once made stays found.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace {

int Run(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  recourse::FuzzOne(recourse::ExactBytes(bytes).view());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) count += Run(entry.path());
    }
  }
  std::printf("%d inputs\n", count);
  return count > 0 ? 0 : 1;
}
