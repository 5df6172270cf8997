// SPDX-License-Identifier: MIT
#include "memory/process_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
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

bool read_memory(address from, void* to, std::size_t bytes) {
  const iovec local{to, bytes};
  const iovec remote{pointer_to(from), bytes};
  const ssize_t copied = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (copied >= 0 || errno == EFAULT) return copied == static_cast<ssize_t>(bytes);
  if (!protection_of(from, bytes).readable) return false;
  std::memcpy(to, pointer_to(from), bytes);
  return true;
}

}  // namespace hipvmm::host_provider
