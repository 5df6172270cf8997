// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "capability/capability.hpp"

namespace hipvmm::detail {

/// The path of the program that probes, or the reason why there is none.
struct probe_program {
  std::string path;
  std::string why_not;
};

/// Finds the program that probes. In this order:
/// 1) HIPVMM_PROBE, which may be "none".
/// 2) Its place of installation, or beside the library or the program or in their neighbourhood,
///   unless users other than root and this one may change it there.
/// 3) The running program itself, if the library is linked into it.
/// None for a program that runs with rights of its own, as setuid grants them.
probe_program find_probe_program();

/// Probes the open traits of `found`, which has its fingerprint, in another process. When that
/// process ends or is silent in a probe, a new one probes the rest, a few times. The result of that
/// probe:
/// - The process crashed or exited: no, permanently.
/// - A signal from outside ended it, or how it ended is unknown: nothing, in this process.
/// - Silent for `patience`: nothing, and a new process probes again. Silent then for twice as long:
///   no, for an hour.
/// Returns why this could not be done, and others may try; empty if it was done.
std::string probe_in_child(device_ref device, capability::record& found, const std::string& program,
                           std::chrono::milliseconds patience = std::chrono::seconds{5});

/// Option: the program watches itself and writes how it ended, for callers that cannot wait for
/// child processes.
inline constexpr const char* watch_option = "--watch";
/// Writes how a child ended, from the status that wait() returned.
void say_end_of_child(int status);

/// Writes findings about a device to standard output, of all probes except those named in
/// `without`, separated by commas.
/// Throws: as run_probes.
void run_as_child(device_ref device, const std::string& without);

/// The main function of the program. Does not return if it has probed. Otherwise it writes the
/// reason to standard error, and returns 2 for wrong arguments and 1 for other failures.
int probe_main(int argc, char** argv) noexcept;
/// The running program as a program that probes: the file that runs, whoever has replaced or
/// removed it since. Started by this name it does nothing else, and its own constructors do not
/// run.
inline constexpr const char* own_program = "/proc/self/exe";
inline constexpr std::string_view own_probe_name = "hipvmm-probe (the program itself)";

}  // namespace hipvmm::detail
