// SPDX-License-Identifier: MIT
#pragma once

#include <netinet/in.h>

#include "ipc/ipc_test.hpp"

// Descriptors whose last close takes as long as their sender has said.
namespace hipvmm::test {

/// A TCP connection whose end waits `seconds`, because its other side does not read.
inline int lingering_socket(detail::owned_descriptor& other, int seconds) {
  const detail::owned_descriptor listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const int few = 4096;
  REQUIRE(::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &few, sizeof few) == 0);
  REQUIRE(::bind(listener.get(), any, bytes) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), any, &bytes) == 0);
  const int result = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::setsockopt(result, SOL_SOCKET, SO_SNDBUF, &few, sizeof few) == 0);
  REQUIRE(::connect(result, any, bytes) == 0);
  other = detail::owned_descriptor{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  const std::vector<char> unread(1 << 16);
  while (::send(result, unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
  }
  const linger wait{1, seconds};
  REQUIRE(::setsockopt(result, SOL_SOCKET, SO_LINGER, &wait, sizeof wait) == 0);
  return result;
}

/// A Unix socket in which one of those is queued: nothing that is set for it changes how long its
/// close lasts.
inline int socket_with_lingering_one(detail::owned_descriptor& other, int seconds) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const int inner = lingering_socket(other, seconds);
  REQUIRE(send_raw(ends[0], "x", 1, {inner}));
  // Not the last that refer to them.
  ::close(inner);
  ::close(ends[0]);
  return ends[1];
}

}  // namespace hipvmm::test
