// SPDX-License-Identifier: MIT
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace hipvmm::test {

/// A folder that goes with this object.
class temporary_folder {
 public:
  explicit temporary_folder(
      const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
    std::string name = (in / "hipvmm-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::system_error{errno, std::generic_category(), "mkdtemp " + name};
    path_ = name;
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder& operator=(temporary_folder&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// All that a file holds.
inline std::string content_of(const std::filesystem::path& file) {
  return (std::ostringstream{} << std::ifstream{file}.rdbuf()).str();
}

}  // namespace hipvmm::test
