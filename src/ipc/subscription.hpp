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

#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/ipc/publication_options.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "core/owner_process.hpp"
#include "ipc/packet.hpp"
#include "ipc/publication_page.hpp"
#include "ipc/socket.hpp"

namespace hipvmm::detail {

struct sent_chunk {
  chunk_record place;
  shareable_handle handle;
};

/// The importer's side of a publication. A derived class has the chunks themselves.
class subscription {
 public:
  subscription& operator=(subscription&&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return !socket_.empty(); }

 protected:
  /// `timeout` is only for messages: each call has a deadline.
  subscription(std::string path, std::vector<unsigned> other_users,
               std::chrono::milliseconds timeout);
  ~subscription() { disconnect(); }

  /// Connects, and returns what the owner publishes. Moves `until` on by the time that HIP needs.
  /// Throws: ipc_error; out_of_memory.
  [[nodiscard]] welcome_packet connect(const element_identity& elements, deadline& until);
  /// Takes the changes. Throws: ipc_error; as the functions of the derived class.
  void refresh(deadline until);
  [[nodiscard]] bool has_news() const noexcept;
  void listen(deadline until);  ///< waits for a message without a request, or the owner's end
  /// Ends the connection of a child of fork() too; in such a child only closes its descriptor.
  void disconnect() noexcept;
  [[nodiscard]] const owner_process& process() const noexcept { return process_; }
  void withdraw_all() { withdraw(others_than({})); }
  [[noreturn]] void throw_malformed(const std::string& what) const;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const publication_header& shape() const noexcept { return shape_; }
  [[nodiscard]] byte_range readable() const noexcept { return readable_; }
  void set_unreadable() noexcept { readable_ = {}; }

 private:
  /// Takes new chunks, all or none. Throws: std::invalid_argument if no owner may send such chunks.
  virtual void add(std::vector<sent_chunk>& fresh) = 0;
  [[nodiscard]] virtual bool has_users() const { return false; }
  virtual void wait_for_users() {}  ///< called before remove()
  /// Pre: all of these bytes have chunks here.
  virtual void remove(std::uint64_t offset, std::uint64_t bytes) = 0;
  /// The bytes from `begin` on that have chunks here, without a gap.
  [[nodiscard]] virtual std::uint64_t backed_from(std::uint64_t begin) const = 0;
  /// Whether add() may throw unsupported because of holes between chunks.
  [[nodiscard]] virtual bool refuses_holes() const { return false; }
  /// Called with the owner's reason when it has cut this process off. Throws: ipc_error `expired`.
  [[noreturn]] virtual void let_go(const std::string& why) = 0;

  void connect(deadline until);
  [[noreturn]] void fail(ipc_failure reason, const std::string& what) const;
  [[nodiscard]] std::optional<received_packet> receive(deadline until);
  [[nodiscard]] bool send(const packet& content, deadline until);
  /// Takes the changes packet by packet, so that descriptors for one packet are enough. Returns
  /// false if the owner has gone. Moves `until` on by the time that this process needs.
  [[nodiscard]] bool fetch(deadline& until, bool has_waited = false);
  /// Ignores chunks that are not here, such as those that came and went since the last refresh.
  void withdraw(const std::vector<std::uint64_t>& serials);
  [[nodiscard]] std::vector<std::uint64_t> others_than(
      const std::set<std::uint64_t>& present) const;
  /// Takes those chunks of the owner that are not here, all or none.
  void take(const std::vector<chunk_record>& sent, std::vector<owned_descriptor>& descriptors);
  void require_sane(const chunk_record& place) const;
  /// Makes the bytes of `range` readable that are backed here.
  void set_readable(byte_range range) noexcept;

  const owner_process process_;
  std::string path_;
  std::vector<unsigned> other_users_;
  std::chrono::milliseconds timeout_;
  owned_descriptor socket_;
  std::optional<state_view> state_;
  publication_header shape_{};
  std::size_t devices_ = 0;
  std::map<std::uint64_t, chunk_record> here_;  // by the owner's serial
  std::uint64_t epoch_ = 0;
  std::uint64_t ticket_ = 0;
  bool must_acknowledge_ = false;  // the owner does not know that withdrawn chunks have gone
  byte_range readable_{};
  byte_range next_{};  // the readable range when an answer was applied
};

}  // namespace hipvmm::detail
