// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

constexpr std::array<const char*, 6> folders{"base", "signal", "memory", "kernel", "queue", "api"};

std::size_t rank_of(const std::string& folder) {
  return static_cast<std::size_t>(std::find(folders.begin(), folders.end(), folder) -
                                  folders.begin());
}

TEST_CASE("sources: a folder includes itself and those before it") {
  const std::string mark = "#include \"src/";
  std::size_t includes = 0;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(ROCR_STAND_IN_SOURCE "/src")) {
    if (!file.is_regular_file()) continue;
    CAPTURE(file.path().string());
    const std::size_t own = rank_of(file.path().parent_path().filename().string());
    CHECK(own < folders.size());
    std::ifstream in{file.path()};
    for (std::string line; std::getline(in, line);) {
      if (line.rfind(mark, 0) != 0) continue;
      CAPTURE(line);
      const std::string rest = line.substr(mark.size());
      CHECK(rank_of(rest.substr(0, rest.find('/'))) <= own);
      ++includes;
    }
  }
  CHECK(includes > 100);
}

}  // namespace
