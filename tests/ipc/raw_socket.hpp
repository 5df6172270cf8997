// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/test.hpp"

// Packets of a peer that does not use the library, and the open descriptors of a process.
namespace hipvmm::test {

/// Sends bytes with descriptors, without a check. Returns whether the system took them.
inline bool send_raw(int socket, const void* data, std::size_t bytes,
                     const std::vector<int>& descriptors = {}) {
  iovec part{const_cast<void*>(data), bytes};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * descriptors.size()));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}
inline bool send_raw(int socket, const std::vector<unsigned char>& bytes,
                     const std::vector<int>& descriptors = {}) {
  return send_raw(socket, bytes.data(), bytes.size(), descriptors);
}

/// Entries of /proc/self/fd, without the one that reads them. A driver opens some of its own when
/// the process first uses a device: they are open before the first count.
inline std::size_t open_descriptors() {
  static const bool all_are_used = [] {
    for (int device = 0; device < device_count(); ++device)
      static_cast<void>(stream{device_ref{device}});
    return true;
  }();
  REQUIRE(all_are_used);
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    static_cast<void>(entry);
    ++count;
  }
  return count - 1;
}

/// Lines of /proc/self/maps with `word`.
inline std::size_t mappings_of(const std::string& word) {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(word) != std::string::npos;
  return count;
}

/// Checks that `action` throws ipc_error for this reason, and returns its message.
template <typename Action>
std::string check_ipc_error(ipc_failure reason, Action action) {
  try {
    action();
  } catch (const ipc_error& error) {
    CHECK_MESSAGE(error.reason() == reason, error.what());
    return error.what();
  } catch (const std::exception& error) {
    FAIL_CHECK("another exception: " << error.what());
    return {};
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

}  // namespace hipvmm::test
