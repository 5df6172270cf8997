// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "core/descriptors.hpp"
#include "ipc/packet.hpp"

namespace hipvmm::detail {

using deadline = std::chrono::steady_clock::time_point;

/// The time `limit` after `from`, a year away at most: milliseconds::max() would overflow.
[[nodiscard]] inline deadline deadline_in(
    std::chrono::milliseconds limit, deadline from = std::chrono::steady_clock::now()) noexcept {
  constexpr std::chrono::hours year{365 * 24};
  return from + std::clamp<std::chrono::milliseconds>(limit, -year, year);
}

/// Closed by close_foreign(), because a peer could prolong a close.
class owned_descriptor : public file_descriptor {
 public:
  using file_descriptor::file_descriptor;
  owned_descriptor() noexcept = default;
  ~owned_descriptor();
  owned_descriptor(owned_descriptor&& other) noexcept = default;
  owned_descriptor& operator=(owned_descriptor&& other) noexcept = default;
};

/// Throws for the errno `code` of `call`, a call of the operating system about `subject`:
/// out_of_memory if the process has no descriptor left, else ipc_error.
[[noreturn]] void throw_system(int code, const char* call, const std::string& subject);

/// The errno that a test plans for `step`, or that of a call that returned `result`; 0 for none.
[[nodiscard]] int failure_of(const char* step, int result);

/// The process and user at the other end when the socket was connected.
struct peer_credentials {
  ::pid_t process;
  ::uid_t user;
};
[[nodiscard]] peer_credentials credentials_of(int socket);

/// Throws: ipc_error `refused`, which names both, unless the user is this process's or in `others`.
void require_user(const peer_credentials& peer, const std::vector<unsigned>& others);

/// Nothing was sent or received unless `done`.
enum class transfer_result { done, would_block, closed };

/// Does not wait. Throws: ipc_error `system`.
[[nodiscard]] transfer_result send_packet(int socket, const packet& content,
                                          const std::vector<int>& descriptors = {});

/// The same, but waits for the peer to read: `would_block` at the deadline.
[[nodiscard]] transfer_result send_until(int socket, const packet& content,
                                         const std::vector<int>& descriptors, deadline until);

struct received_packet {
  packet content;
  std::vector<owned_descriptor> descriptors;
};

enum class peer_descriptors { accepted, refused };

/// Receives one packet without waiting, and checks it. Accepted descriptors are owned here before
/// the packet leaves the socket, so that the system closes none, which a peer could prolong.
/// Throws: ipc_error `system`, and `malformed`, also if descriptors are refused or more than the
/// packet says; out_of_memory without free descriptors: the packet stays in the socket.
[[nodiscard]] transfer_result receive_packet(int socket, received_packet& into,
                                             peer_descriptors which = peer_descriptors::accepted);

/// Wait until the socket can be used or is closed. Return false at the deadline.
[[nodiscard]] bool wait_readable(int socket, deadline until);
[[nodiscard]] bool wait_writable(int socket, deadline until);

[[nodiscard]] owned_descriptor make_socket();

enum class listener_state { answered, absent, busy };
struct connection {
  listener_state state;
  owned_descriptor socket;  ///< connected if `state` is answered
};
/// Connects without waiting. `busy`: the queue of the listener is full.
/// Throws: std::invalid_argument for a path that a socket cannot have; ipc_error `system`.
[[nodiscard]] connection connect_to(const std::string& path);

/// As connect_to(), but waits for a busy listener until the deadline.
[[nodiscard]] connection connect_until(const std::string& path, deadline until);

/// Throws: std::invalid_argument if a socket's path may not be `path` and `extra` characters.
void require_socket_path(const std::string& path, std::size_t extra);

/// Follows no link, and changes no file except a socket of this user.
/// Pre: no other user may write in the folder, or `who` is same_user.
/// Throws: ipc_error `system`; out_of_memory.
enum class who_connects { same_user, everybody };
void bind_to(int socket, const std::string& path, who_connects who);

}  // namespace hipvmm::detail
