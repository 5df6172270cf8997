// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include <hipvmm/ipc/publication_options.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/background_thread.hpp"
#include "core/owner_process.hpp"
#include "ipc/packet.hpp"
#include "ipc/path_lock.hpp"
#include "ipc/publication_page.hpp"

namespace hipvmm::detail {

using shared_descriptor = std::shared_ptr<const shareable_handle>;

struct published_memory {
  publication_header shape;
  std::vector<std::array<unsigned char, 16>> other_uuids;
  std::vector<device_ref> devices;  ///< the owners of the chunks, by chunk_record::device
};
/// Throws: std::invalid_argument for devices that do not exist, or sizes that no memory has.
[[nodiscard]] published_memory describe(device_ref device, const std::vector<device_ref>& others,
                                        std::size_t max_bytes, const element_identity& elements);

/// The serving thread calls no HIP and waits for no single importer.
class publication_server {
 public:
  struct published_chunk {
    chunk_record place;
    std::uint64_t epoch;  // in which it came
    shared_descriptor handle;
  };
  using chunk_map = std::map<std::uint64_t, published_chunk>;  // by serial
  using device_by_serial = std::unordered_map<std::uint64_t, std::uint64_t>;

  /// Takes the path. Importers wait until start().
  publication_server(const std::string& path, published_memory memory, publication_options options);
  ~publication_server();
  publication_server& operator=(publication_server&&) = delete;

  [[nodiscard]] bool is_of_parent() const noexcept { return process_.is_of_parent(); }
  /// In a child of fork(): closes the path's descriptors. All else must stay as it is, because a
  /// thread of the parent may have been changing it.
  void abandon() noexcept { path_.abandon(); }

  void start();  ///< throws: ipc_error `system`
  /// Publishes the new ones of `fresh`, and withdraws the chunks that are not in `present`.
  /// `begin`: the first byte that may be read then. Returns the number of the announcement.
  std::uint64_t replace_chunks(const device_by_serial& present, chunk_map fresh,
                               std::uint64_t begin);
  /// Pre: the bytes are written.
  void set_range(std::uint64_t number, byte_range readable) { state_->set_range(number, readable); }

  void announce(const std::vector<chunk_view>& chunks, const void* start, std::size_t bytes,
                const std::function<std::vector<exported_chunk>(std::uint64_t)>& export_since,
                stream_ref stream);
  bool wait_until_withdrawn(std::chrono::milliseconds timeout);
  [[nodiscard]] const std::string& path() const noexcept { return path_.path(); }
  [[nodiscard]] std::size_t max_bytes() const noexcept { return memory_.shape.max_bytes; }
  [[nodiscard]] std::size_t importers() const;
  void require_own_process(const char* function) const;

 private:
  struct removal_notice {
    std::uint64_t epoch;
    deadline when;
  };
  struct withdrawn_chunk {
    chunk_record place;
    removal_notice went;
  };
  struct outgoing {
    packet content;
    std::vector<shared_descriptor> handles;
    bool has_state_page = false;
  };
  struct importer {
    owned_descriptor socket;
    bool is_known = false;    // has said hello
    bool is_dropped = false;  // after the queue was sent
    bool is_stalled = false;  // poll() found room, but send_packet() none: no POLLOUT
    bool has_chunks = false;
    bool may_owe_reads = false;  // was sent descriptors that it may not have read
    std::size_t in_packet = 0;   // the most descriptors of a packet of its queue
    [[nodiscard]] bool is_served() const noexcept { return is_known && !is_dropped; }
    std::uint64_t applied = 0;  // the epoch that the importer reports as mapped
    std::deque<outgoing> queue;
    std::optional<removal_notice> owes;  // the first withdrawal that it has not applied
    bool was_told = false;               // of the withdrawal in `owes`
    deadline lease_end = {};             // of that withdrawal
    deadline since = {};                 // when the first of the queue was put there, or sent last
  };

  void serve();
  void serve_once();  ///< throws: std::bad_alloc
  void accept_importers();
  void admit(owned_descriptor socket);
  /// Reads and writes what is possible, after a poll() that began at `polled` reported `events`.
  /// Returns false if the importer is to be dropped.
  [[nodiscard]] bool attend(importer& one, short events, deadline polled);
  [[nodiscard]] bool receive_from(importer& one);
  [[nodiscard]] bool send_to(importer& one, bool is_writable) const;
  void answer(importer& one, const hello_packet& hello);
  void answer(importer& one, const request_packet& request);
  void refuse(importer& one, std::string why) const;
  [[nodiscard]] bool is_full() const;
  /// Few enough that all importers together leave half of the limit free, even if none reads.
  [[nodiscard]] std::size_t descriptors_in_packet(const importer& one) const noexcept;
  void drop_oldest_stranger();
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_lease_end(deadline now) const;
  void end_leases(deadline now);
  /// Starts the lease for the first withdrawal after the epoch that the importer has mapped.
  void start_lease(importer& one) const;
  void drop(std::list<importer>::iterator one);
  void forget_left();  ///< forgets those of leaving_ that have read all or are gone
  void queue_withdrawn(importer& one, std::uint64_t since) const;
  /// Queues the list of published chunks, in place of the withdrawn ones.
  void queue_present(importer& one) const;
  void forget_applied();
  void wake() noexcept;

  const owner_process process_;
  publication_options options_;
  path_lock path_;
  published_memory memory_;
  build_identity identity_;
  std::shared_ptr<publication_page> state_;
  owned_descriptor wake_;  // an eventfd
  std::atomic<bool> ends_{false};

  // Only the thread changes importers_ and its entries, except leases, which announce() starts. It
  // locks for members that others read: the list, is_known, has_chunks, applied, owes, lease_end.
  // It makes no system call with the lock, because a peer could prolong it.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t epoch_ = 0;
  std::uint64_t announcements_ = 0;
  chunk_map chunks_;
  std::vector<withdrawn_chunk> withdrawn_;  // by epoch; an importer may still have them
  std::list<importer> importers_;
  // Only the thread uses it: dropped connections with unread descriptors, which count as importers
  // until the peer reads or closes.
  std::list<owned_descriptor> leaving_;
  std::uint64_t last_withdrawal_ = 0;  // the epoch in which chunks went last
  std::uint64_t forgotten_ = 0;        // of this epoch and before, withdrawn_ lacks some
  bool lacks_descriptors_ = false;     // the thread's: it could accept no connection
  background_thread thread_{[this](const std::stop_token&) { serve(); }};
};

}  // namespace hipvmm::detail
