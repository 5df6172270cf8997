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

/// Asks what is open in `found`, which has its subject, by another process: one that ends or says
/// nothing for `patience` in a probe has answered it with no, unless a signal from outside ended
/// it, and a new one goes on with the rest, a few times. Returns why that could not be done, and
/// others may try; empty where it was.
std::string probe_in_child(device_ref device, capability::record& found, const std::string& program,
                           std::chrono::milliseconds patience = std::chrono::seconds{5});

/// What the program does: writes findings about a device, of all probes but those named in
/// `without`, separated by commas, to standard output. Throws: as run_probes.
void run_as_child(device_ref device, const std::string& without);

}  // namespace hipvmm::detail
