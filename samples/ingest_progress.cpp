// SPDX-License-Identifier: MIT
#include "ingest_progress.hpp"

#include <algorithm>
#include <string>

#include <hipvmm/core/bytes.hpp>

namespace ingest {

progress_bar::progress_bar(std::optional<std::size_t> total_bytes) : total_bytes_{total_bytes} {}

void progress_bar::update(std::size_t bytes) {
  if (!line_.is_due()) return;
  const double seconds =
      std::max(std::chrono::duration<double>(clock::now() - start_).count(), 1e-6);
  const auto rate = static_cast<std::size_t>(static_cast<double>(bytes) / seconds);
  std::string text =
      hipvmm::format_bytes(bytes) + " on the device, " + hipvmm::format_bytes(rate) + "/s";
  // Files of /proc call themselves regular and empty, and a file may grow while it is read.
  if (total_bytes_ && *total_bytes_ >= bytes)
    text += "  " + hipvmm::tool::progress_bar(static_cast<double>(bytes) /
                                              static_cast<double>(*total_bytes_));
  line_.show(text);
}

}  // namespace ingest
