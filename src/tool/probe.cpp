// SPDX-License-Identifier: MIT
// hipvmm-probe DEVICE [--without NAME,... [--watch]]: runs the library's probes of a device in a
// process that may crash or hang, and writes a line for each finding. Started by the library.
#include "capability/probe_child.hpp"

int main(int argc, char** argv) { return hipvmm::detail::probe_main(argc, argv); }
