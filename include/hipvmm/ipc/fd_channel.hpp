// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/region/chunk_view.hpp>

namespace hipvmm {

struct channel_options {
  std::chrono::milliseconds timeout{5000};  ///< the longest that one call waits for the other side
  /// Accepted users (uid) in addition to the one of this process. Root is no exception.
  std::vector<unsigned> other_users = {};
};

/// Exactly one member is set.
struct channel_message {
  std::vector<exported_chunk> chunks;  ///< at most fd_channel::max_chunks of those sent
  std::optional<exported_range> block;
  std::string note;
};

/// Carries exported chunks, and notes of the program, to another process: a connected Unix socket
/// of type SOCK_SEQPACKET. docs/reference/ipc.md has the format of its packets.
/// - Each packet is checked whole before any of it is used: format, version, counts, sizes, and the
///   system's size of each descriptor. import_chunk() checks the memory again.
/// - One thread may send while another receives, not more.
/// - After `malformed`, or a failure amid a block or several packets, close the channel.
class fd_channel {
 public:
  static constexpr std::size_t max_chunks = 16;         ///< in one packet
  static constexpr std::size_t max_note_bytes = 1'000;  ///< in one packet

  /// Takes ownership of a connected socket, even if it throws.
  /// Throws: std::invalid_argument unless it is a connected Unix socket of type SOCK_SEQPACKET;
  /// ipc_error `refused`, naming both users, for a peer of another user.
  explicit fd_channel(int socket, channel_options options = {});
  /// Connects to the socket at `path`. Throws: as above; ipc_error `closed` without a listener.
  explicit fd_channel(const std::string& path, channel_options options = {});
  /// Makes both ends of a channel, to be passed on by fork() or exec.
  /// Throws: out_of_memory without descriptors; ipc_error.
  [[nodiscard]] static std::pair<fd_channel, fd_channel> make_pair(channel_options options = {});
  ~fd_channel();
  fd_channel(fd_channel&& other) noexcept
      : socket_{std::exchange(other.socket_, -1)}, options_{std::move(other.options_)} {}
  fd_channel& operator=(fd_channel&& other) noexcept;

  /// Sends chunks, max_chunks in a packet. The caller may close them afterwards.
  /// Throws: std::invalid_argument for an empty handle or chunk; ipc_error `timeout`, `closed`.
  void send(const exported_chunk& chunk);
  void send(const std::vector<exported_chunk>& chunks);
  /// Sends a block with its chunks, for imported_blocks::add().
  void send(const exported_range& block);
  /// Sends bytes of the program's own, such as the number of readable elements.
  /// Throws: std::invalid_argument for none, or more than max_note_bytes; ipc_error.
  void send_note(const std::string& note);

  /// Receives the next packet, or all packets of the next block. Returns nothing if the other side
  /// closed the channel.
  /// Throws: ipc_error: `timeout`, which loses at most a partly received block; `closed` in the
  /// middle of a block; `malformed`. out_of_memory if the process has too few free descriptors; the
  /// packet can then be received again.
  [[nodiscard]] std::optional<channel_message> receive();

  [[nodiscard]] int get() const noexcept { return socket_; }
  [[nodiscard]] int release() noexcept { return std::exchange(socket_, -1); }
  [[nodiscard]] bool empty() const noexcept { return socket_ < 0; }

 private:
  int socket_;
  channel_options options_;
};

}  // namespace hipvmm
