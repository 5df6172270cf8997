// SPDX-License-Identifier: MIT
#include "process_memory.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace hipvmm::host_provider {

protection protection_of(address start, std::size_t bytes) {
  std::ifstream maps{"/proc/self/maps"};
  const address end = start + bytes;
  protection all{true, true};
  address covered = start;
  for (std::string line; covered < end && std::getline(maps, line);) {
    address first = 0;
    address last = 0;
    char read = '-';
    char write = '-';
    const int fields =
        std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %c%c", &first, &last, &read, &write);
    if (fields != 4 || last <= covered) continue;
    if (first > covered) break;
    all.readable = all.readable && read == 'r';
    all.writable = all.writable && write == 'w';
    covered = last;
  }
  return covered < end ? protection{false, false} : all;
}

}  // namespace hipvmm::host_provider
