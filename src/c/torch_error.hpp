// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace hipvmm::c {

/// Throws PyTorch's own out-of-memory error, which is torch.OutOfMemoryError in Python. Returns if
/// the process has no library of PyTorch with the necessary symbols.
void throw_torch_out_of_memory(const std::string& text);

}  // namespace hipvmm::c
