// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

#include "vmm/capability_record.hpp"

namespace hipvmm::detail {

/// The program that probes, or why there is none.
struct probe_program {
  std::string path;
  std::string why_not;
};

/// HIPVMM_PROBE, which may be "none"; else where it was installed, or beside the library or the
/// program or in their neighbourhood, unless users other than root and this one may change it
/// there. None for a program that runs with rights of its own, as setuid gives them.
probe_program find_probe_program();

/// Asks what is open in `found`, which has its subject, by another process, and a new one with the
/// rest when it ends or is silent in a probe, a few times. What that says of the probe:
/// - it crashed or left: no, for good
/// - a signal from outside ended it, or nobody knows how it ended: nothing, in this process
/// - silent for `patience`: nothing, a new process asks again; silent then for twice as long: no,
///   for an hour
/// Returns why that could not be done, and others may try; empty where it was.
std::string probe_in_child(device_ref device, capability::record& found, const std::string& program,
                           std::chrono::milliseconds patience = std::chrono::seconds{5});

/// Has the program watch itself and write how it ended: for who cannot see ends of children.
inline constexpr const char* watch_option = "--watch";
/// Writes that, as wait() returned it.
void say_end_of_child(int status);

/// What the program does: writes findings about a device, of all probes but those named in
/// `without`, separated by commas, to standard output. Throws: as run_probes.
void run_as_child(device_ref device, const std::string& without);

}  // namespace hipvmm::detail
