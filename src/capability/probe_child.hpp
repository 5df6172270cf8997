// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "capability/capability.hpp"

namespace hipvmm::detail {

struct probe_program {
  std::string path;     ///< of the program that probes
  std::string why_not;  ///< why there is none
};

/// Finds the program that probes, in this order:
/// - HIPVMM_PROBE, which may be "none".
/// - Its place of installation, or near the library or the program, unless others than root and
///   this user could replace it there.
/// - The running program itself, if the library is linked into it.
/// A program that runs with rights of its own (setuid) finds none.
probe_program find_probe_program();

/// Probes the open traits of `found`, which has its fingerprint, in a process. If that ends or is
/// silent in a probe, a new one probes the rest, a few times. The result of that probe:
/// - The process crashed or exited: no, permanently.
/// - A signal from outside ended it, or its end is unknown: nothing, in this process.
/// - Silent for `patience`: nothing, and a new process probes again. Silent there for twice as
///   long: no, for an hour.
/// Returns why this could not be done, and others may try; empty if it was done.
std::string probe_in_child(device_ref device, capability::record& found, const std::string& program,
                           std::chrono::milliseconds patience = std::chrono::seconds{5});

/// The program watches itself and writes how it ended, for callers that cannot wait for children.
inline constexpr const char* watch_option = "--watch";
void say_end_of_child(int status);  ///< `status`: from wait()

/// Writes findings to standard output, of all probes but those in `without`, separated by commas.
/// Throws: as run_probes.
void run_as_child(device_ref device, const std::string& without);

/// The main function of the program. Does not return if it has probed, else writes the reason to
/// standard error and returns 2 for wrong arguments, 1 for other failures.
int probe_main(int argc, char** argv) noexcept;
/// The running program as the program that probes: the file that runs, even if it was replaced or
/// removed since. Started by own_probe_name it only probes; its own constructors do not run.
inline constexpr const char* own_program = "/proc/self/exe";
inline constexpr std::string_view own_probe_name = "hipvmm-probe (the program itself)";

}  // namespace hipvmm::detail
