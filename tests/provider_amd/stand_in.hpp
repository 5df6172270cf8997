// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::test {

/// Whether AMD's runtime runs on the stand-in for ROCr, which can hold streams back.
[[nodiscard]] bool is_on_stand_in();

/// Settings ("NAME=value") that give it `devices` GPUs with the links that `peers` lists.
[[nodiscard]] std::vector<std::string> stand_in_settings(int devices, const std::string& peers);

}  // namespace hipvmm::test
