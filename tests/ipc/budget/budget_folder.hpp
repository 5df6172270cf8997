// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/budget/memory_budget.hpp>
#include "support/devices.hpp"
#include "support/process/temporary_folder.hpp"

namespace hipvmm::test {

/// While this lives, budgets of this process and of its children are in a folder of its own.
class budget_folder {
 public:
  budget_folder() { ::setenv(variable, path().c_str(), 1); }
  ~budget_folder() { ::setenv(variable, before_.c_str(), 1); }
  budget_folder& operator=(budget_folder&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.path(); }

 private:
  static constexpr const char* variable = "HIPVMM_BUDGETS";
  const std::string before_ = std::getenv(variable);  // of this run, see support/main.cpp
  temporary_folder folder_;
};

/// The bytes of a chunk in tests: whole granules, and no less than a pool takes.
inline std::size_t budget_unit() { return align_up(2 * MiB, granule()); }

inline std::filesystem::path only_file(const std::filesystem::path& folder) {
  return std::filesystem::directory_iterator { folder } -> path();
}

/// The bytes of all holders of the only budget.
inline std::size_t held_of_all() {
  const auto all = memory_budget::all();
  return all.empty() ? 0 : all.front().bytes;
}

}  // namespace hipvmm::test
