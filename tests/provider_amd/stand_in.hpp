// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::test {

/// Whether AMD's runtime runs on the stand-in for ROCr, which can hold streams back.
[[nodiscard]] bool is_on_stand_in();

/// Behind a control's name: the refusal of a question that asks ROCr itself for one.
inline constexpr const char* lacks_control = " is not in the linked libhsa-runtime64";

/// Settings ("NAME=value") that give it `devices` GPUs with the links that `peers` lists.
[[nodiscard]] std::vector<std::string> stand_in_settings(int devices, const std::string& peers);

/// The profile of the linked release, such as rocm-6.4. The runtime is asked in a process of its
/// own, so that children of this one can be forked.
[[nodiscard]] std::string linked_profile();

}  // namespace hipvmm::test
