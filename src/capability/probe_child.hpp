// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "capability/capability.hpp"

namespace hipvmm::detail {

struct probe_program {
  std::string path;
  std::string why_not;
};

/// In this order; none in a program with rights of its own (setuid):
/// - HIPVMM_PROBE, which may be "none".
/// - Its place of installation, or near the library or program, if only root and this user can
///   replace it there.
/// - The running program itself, if the library is linked into it.
probe_program find_probe_program();

/// Probes the open traits of `found`, which has its fingerprint, in a process. If that ends or is
/// silent in a probe, a new one probes the rest, a few times. Returns the reason if no process
/// could probe, else empty. The result of the probe in which it ended:
/// - The process crashed or exited: no, permanently.
/// - It was ended from outside, or nobody knows how: unknown, in this process.
/// - It was silent for `patience`, and a new process for twice as long: no, for an hour.
std::string probe_in_child(device_ref device, capability::record& found, const std::string& program,
                           std::chrono::milliseconds patience = std::chrono::seconds{5});

/// For callers that cannot wait for children: the program watches itself and writes how it ended.
inline constexpr const char* watch_option = "--watch";
void say_end_of_child(int status);  ///< from wait()

/// Writes to standard output the findings of all probes but those in `without`, separated by
/// commas. Throws: as run_probes.
void run_as_child(device_ref device, const std::string& without);

/// The program's main function. Does not return if it has probed. Otherwise writes the reason to
/// standard error and returns 2 for wrong arguments, 1 for other failures.
int probe_main(int argc, char** argv) noexcept;
/// The running program, even if its file was replaced since. Started by own_probe_name it only
/// probes; its own constructors do not run.
inline constexpr const char* own_program = "/proc/self/exe";
inline constexpr std::string_view own_probe_name = "hipvmm-probe (the program itself)";

}  // namespace hipvmm::detail
