// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace hipvmm::c {

/// Throws PyTorch's own out-of-memory error with that text, if its library in this process has the
/// necessary symbols: Python then sees torch.OutOfMemoryError. Returns otherwise.
void throw_torch_out_of_memory(const std::string& text);

}  // namespace hipvmm::c
