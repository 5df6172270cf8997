// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "trace_contenders.hpp"

namespace bench {

/// An allocator behind trace_allocator.h in a process of its own: this program again with --serve,
/// which takes its turns while this one waits. `settings` go into the environment of PyTorch's
/// allocator, which reads them when its process starts.
[[nodiscard]] trace_contender process_contender(const std::string& name, const std::string& library,
                                                hipvmm::device_ref device,
                                                const std::string& settings = {});

/// PyTorch's caching allocator, as it is and with expandable segments. torch_allocator.sh compiles
/// it first; none if that fails, which one line on standard error says.
[[nodiscard]] std::vector<trace_contender> torch_contenders(hipvmm::device_ref device);

/// The work of such a process: for each line on standard input it replays a trace on the allocator
/// in `library`, and answers with a line of figures on its original standard output. Returns the
/// exit status at the end of the input.
int serve_allocator(const std::string& library, int device);

}  // namespace bench
