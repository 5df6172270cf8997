// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

#include <hipvmm/ipc/fd_channel.hpp>

namespace bench {

/// Another process of the scenarios, forked before this one uses HIP. It waits for orders, maps the
/// memory of this process and reads it on a device of its own choice: that of the memory, or a
/// peer.
class importer {
 public:
  /// How the memory comes to it.
  enum class way { raw_calls, adopt, attach };

  /// Reads on the device that is `behind` places behind that of the memory.
  explicit importer(int behind);
  /// Ends the process.
  ~importer();
  importer(const importer&) = delete;
  importer& operator=(const importer&) = delete;

  /// Lets it begin anew, with so many addresses; by attach(), at `path`.
  void begin(way how, hipvmm::device_ref device, std::size_t max_bytes,
             const std::string& path = "-");
  /// Lets it read the last word of `bytes` bytes, which last_word() waits for and returns.
  void ask_for_last_word_of(std::size_t bytes);
  [[nodiscard]] unsigned last_word() { return answer(); }
  /// Lets it release everything.
  void end();

  /// The carrier of chunks to it: hipvmm's channel, or the bare socket for raw calls.
  [[nodiscard]] hipvmm::fd_channel& channel() noexcept { return channel_; }
  /// Sends a descriptor of `bytes` bytes by sendmsg() alone. It stays the caller's.
  void send_raw(int descriptor, std::size_t bytes) const;

 private:
  importer(int behind, std::pair<hipvmm::fd_channel, hipvmm::fd_channel> ends);
  unsigned answer();

  hipvmm::fd_channel channel_;
  int raw_socket_ = -1;
  ::pid_t process_ = -1;
};

}  // namespace bench
