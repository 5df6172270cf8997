// SPDX-License-Identifier: MIT
// hipvmm-probe DEVICE [--without NAME,... [--watch]]: runs the library's probes of a device in a
// process that may crash or hang, and writes a line for each finding. Started by the library.
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "capability/probe_child.hpp"
#include "tool/printable.hpp"

int main(int argc, char** argv) {
  try {
    return hipvmm::detail::probe_main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hipvmm-probe: %s\n", hipvmm::tool::printable(error.what()).c_str());
    return dynamic_cast<const std::invalid_argument*>(&error) == nullptr ? 1 : 2;
  }
}
