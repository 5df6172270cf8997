// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <hipvmm/ipc/attach_options.hpp>
#include <hipvmm/ipc/publication_options.hpp>
#include <hipvmm/region/region.hpp>
#include "core/process_mark.hpp"
#include "ipc/packet.hpp"
#include "ipc/socket.hpp"
#include "ipc/state_page.hpp"

namespace hipvmm::detail {

/// The implementation of an attached_region: the connection to the owner, and the chunks here.
class attachment {
 public:
  attachment(const std::string& path, const attach_options& options,
             const published_elements& elements);

  // Like the functions of attached_region with these names.
  std::size_t refresh(stream_ref stream);
  bool wait_for(std::size_t bytes, std::chrono::milliseconds timeout, stream_ref stream);
  [[nodiscard]] std::size_t bytes() const noexcept { return readable_.end - readable_.begin; }
  [[nodiscard]] void* data() const noexcept {
    return static_cast<std::byte*>(memory_->base()) + readable_.begin;
  }
  [[nodiscard]] bool is_open() const noexcept { return !socket_.empty(); }
  [[nodiscard]] const region& memory() const noexcept { return *memory_; }
  [[nodiscard]] region& memory() noexcept { return *memory_; }

 private:
  void connect(deadline until);
  void welcome(const published_elements& elements, deadline until);
  std::size_t refresh(stream_ref stream, deadline until);
  /// The next packet. Returns nothing if the owner has gone.
  [[nodiscard]] std::optional<received_packet> receive(deadline until);
  [[nodiscard]] bool send(const packet& content, deadline until);
  /// Requests the changes, and unmaps and maps packet by packet, so that a packet's number of
  /// descriptors is enough. Returns false if the owner has gone.
  [[nodiscard]] bool fetch(stream_ref stream, deadline until);
  /// Unmaps chunks after all work in `stream` that may use them. Ignores chunks that are not
  /// mapped, such as those that came and went since the last refresh.
  void withdraw(const std::vector<std::uint64_t>& serials, stream_ref stream);
  /// The same for mapped chunks that are not in `present`.
  void withdraw_others(const std::set<std::uint64_t>& present, stream_ref stream);
  /// The owner has cut this process off, with a sentence: nothing of the memory may be used.
  [[noreturn]] void let_go(const std::string& why, stream_ref stream);
  /// Unmaps all after that. Throws: ipc_error `expired`, when nothing is mapped any more.
  [[noreturn]] void unmap_expired(stream_ref stream);
  /// Returns whether HIP may refuse a chunk beside a hole, because chunks have several sizes.
  [[nodiscard]] bool refuses_holes() const;
  /// Makes the bytes of `range` readable that are backed here.
  void set_readable(byte_range range) noexcept;
  /// Throws: unsupported in a child of fork(), which has the parent's connection.
  void require_own_process(const char* function) const;
  /// Maps those chunks of the owner that are not here, all or none.
  void add(const std::vector<chunk_record>& sent, std::vector<owned_descriptor>& descriptors);
  /// Throws: ipc_error `malformed` unless the place is within the reservation, in whole granules.
  void require_sane(const chunk_record& place) const;
  /// The devices of the memory here, by chunk_record::device.
  [[nodiscard]] std::vector<device_ref> devices_here(const welcome_packet& from) const;
  [[noreturn]] void throw_malformed(const std::string& what) const;

  const process_mark process_;
  std::string path_;
  attach_options options_;
  owned_descriptor socket_;
  std::optional<state_view> state_;
  published_shape shape_{};
  std::vector<device_ref> devices_;
  std::optional<region> memory_;
  std::map<std::uint64_t, chunk_record> mapped_;  // by the owner's serial
  std::uint64_t epoch_ = 0;
  std::uint64_t ticket_ = 0;
  bool must_acknowledge_ = false;  // the owner does not know that withdrawn chunks are unmapped
  std::string why_expired_;        // the owner has cut this process off; until the program was told
  byte_range readable_{};          // backed here
  byte_range next_{};              // the readable range when an answer was applied
};

}  // namespace hipvmm::detail
