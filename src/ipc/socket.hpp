// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/ipc/ipc_error.hpp>
#include "ipc/packet.hpp"

namespace hipvmm::detail {

using deadline = std::chrono::steady_clock::time_point;

/// The time `limit` after `from`, a year at most: milliseconds::max() would overflow.
[[nodiscard]] inline deadline deadline_in(
    std::chrono::milliseconds limit, deadline from = std::chrono::steady_clock::now()) noexcept {
  constexpr std::chrono::hours year{365 * 24};
  return from + (limit < year ? limit : std::chrono::milliseconds{year});
}

/// Owns one file descriptor.
class owned_descriptor {
 public:
  owned_descriptor() noexcept = default;
  explicit owned_descriptor(int descriptor) noexcept : value_{descriptor} {}
  ~owned_descriptor();
  owned_descriptor(owned_descriptor&& other) noexcept : value_{std::exchange(other.value_, -1)} {}
  owned_descriptor& operator=(owned_descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  [[nodiscard]] int get() const noexcept { return value_; }
  [[nodiscard]] int release() noexcept { return std::exchange(value_, -1); }
  [[nodiscard]] bool empty() const noexcept { return value_ < 0; }

 private:
  int value_ = -1;
};

/// Throws for the errno `code` of `call`, a call of the operating system about `subject`:
/// out_of_memory where the process has no descriptor left, else ipc_error.
[[noreturn]] void throw_system(int code, const char* call, const std::string& subject);

/// The errno that a test plans for `step`, or that of a call that returned `result`; 0 for none.
[[nodiscard]] int failure_of(const char* step, int result);

/// The process and user at the other end of a connected socket, when it was connected.
struct peer_credentials {
  ::pid_t process;
  ::uid_t user;
};
[[nodiscard]] peer_credentials credentials_of(int socket);

/// Checks the user at the other end: this process's own, or one of `others`.
/// Throws: ipc_error `refused`, which names both.
void require_user(const peer_credentials& peer, const std::vector<unsigned>& others);

/// How a packet went. Nothing was sent or received unless `done`.
enum class transfer_result { done, would_block, closed };

/// Sends one packet without waiting.
/// Throws: ipc_error `system`.
[[nodiscard]] transfer_result send_packet(int socket, const packet& content,
                                          const std::vector<int>& descriptors = {});

/// A packet with the descriptors that came with it.
struct received_packet {
  packet content;
  std::vector<owned_descriptor> descriptors;
};

/// Receives one packet without waiting, and checks it.
/// Throws: ipc_error `malformed`, `system`; out_of_memory where too few descriptors are left. All
/// that came with it are closed then.
[[nodiscard]] transfer_result receive_packet(int socket, received_packet& into);

/// Waits until the socket can be read (or written) or is closed. Returns false at the deadline.
[[nodiscard]] bool wait_readable(int socket, deadline until);
[[nodiscard]] bool wait_writable(int socket, deadline until);

/// Makes a Unix socket that is non-blocking, and closed by exec.
[[nodiscard]] owned_descriptor make_socket();

/// Whether somebody listens at a path, and the connection to it.
enum class listener_state { answered, absent, busy };
struct connection {
  listener_state state;
  owned_descriptor socket;  ///< connected where `state` is answered
};
/// Connects without waiting. `busy`: so many wait that the listener takes no more.
/// Throws: std::invalid_argument for a path that a socket cannot have; ipc_error `system`.
[[nodiscard]] connection connect_to(const std::string& path);

/// Checks the length of the path of a socket, with `extra` characters behind it.
/// Throws: std::invalid_argument for one that is empty or too long.
void require_socket_path(const std::string& path, std::size_t extra);

/// Binds `socket` to `path`. `everybody` may connect, or only the same user.
/// Throws: ipc_error `system`.
enum class who_connects { same_user, everybody };
void bind_to(int socket, const std::string& path, who_connects who);

}  // namespace hipvmm::detail
