// SPDX-License-Identifier: MIT
// Decisions of the stand-in in place of ROCr, the kernel driver or hardware. README.md has the same
// table with the source of each default.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stand_in {

enum class after_report { stop, go_on, ask_handlers };

struct knob_values {
  std::uint64_t gpus = 2;
  std::uint64_t memory = std::uint64_t{4} << 30;
  bool all_peers = true;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> peers;  // links, if not all
  std::string isa = "gfx90a:sramecc+:xnack-";
  std::uint64_t delay_us = 0;
  bool log = false;
  std::string faults;
  after_report reports = after_report::stop;
  bool check_pending = true;
  bool kernels_stop = false;
  bool pageable_faults = true;
  bool allocation_access_checked = true;
  bool copy_by_source = true;
  bool vmm_host_always = false;
  bool addresses_reused = true;
  bool memory_stays = false;  // until the addresses it was mapped at are freed
  std::uint64_t engines = 2;
  bool host_handles = false;
  bool svm = true;
  bool xnack = false;

  [[nodiscard]] bool linked(std::uint64_t one, std::uint64_t other) const;
};

/// The defaults before read_knobs() succeeds.
const knob_values& knobs();

/// Reads HIPVMM_ROCR_* once. Returns a message if a name or a value is wrong, else "".
const std::string& read_knobs();

/// One row: HIPVMM_ROCR_<name>, its values in words, and the source of its default.
struct knob_row {
  const char* name;
  const char* values;
  const char* source;
  bool (*parse)(knob_values& into, const std::string& value);
};

const std::vector<knob_row>& knob_table();

}  // namespace stand_in
