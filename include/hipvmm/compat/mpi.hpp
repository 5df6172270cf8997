// SPDX-License-Identifier: MIT
#pragma once

// Needs MPI 3.0 or newer.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/compat/mpi_messages.hpp>
#include <hipvmm/compat/mpi_rounds.hpp>
#include <hipvmm/container/pinned_array.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

enum class mpi_device_memory {
  ask,     ///< direct if MPI or the provider reports that it works, else staged
  direct,  ///< MPI gets device addresses. Some GPU-aware MPIs do not take mapped memory, as of
           ///< vectors
  staged,  ///< in pieces through pinned host memory
};

struct mpi_options : communicator_options {
  mpi_device_memory device_memory = mpi_device_memory::ask;
  /// If memory is staged: bytes of a message, and of each of four pinned buffers, which the first
  /// transfer allocates. All ranks use the smallest value of any rank.
  std::size_t staging_bytes = 4 * MiB;
};

/// - Messages between each two ranks, nonblocking and polled; their errors are returned. The limit
///   begins anew with each message that arrives. From 64 ranks on, all_gather(), and all_to_all()
///   of small pieces, take log2 P rounds, rounded up, instead of P - 1 messages for P ranks.
/// - transfer() returns when all data has arrived, or is on its way from pinned memory.
/// - A rank that calls another function or passes other sizes is found by its messages, or by the
///   limit. Each rank_error ends the use of the communicator; make another one.
/// - If an exception ends a rank's communicator, the other ranks see it as lost at once.
/// - If a rank dies, Open MPI's mpirun ends all others by default. Otherwise they get an error of
///   MPI, or wait until the limit.
/// - After rank_error of a transfer that is not staged, MPI may still use the memory of its pieces:
///   keep it until MPI_Finalize or the end of the process.
/// - Calls from another thread than that of MPI_Init need MPI_THREAD_SERIALIZED.
/// - After MPI_Finalize, and in a child of fork(), calls throw rank_error of lost; the object may
///   be destroyed then.
class mpi_communicator final : public communicator {
 public:
  /// Collective. Throws: std::invalid_argument if MPI is not initialized or already finalized,
  /// `ranks` is MPI_COMM_NULL or an inter-communicator, or staging_bytes or the limit is 0;
  /// rank_error, also of refused if ranks have another version of hipvmm or another provider.
  explicit mpi_communicator(MPI_Comm ranks, device_ref device = device_ref::current(),
                            const mpi_options& options = {})
      : device_{checked(ranks, device, options)}, link_{ranks, detail::checked_limit(options)} {
    detail::rank_greeting own;
    std::vector<detail::rank_greeting> all;
    guarded([&] {
      is_host_memory_ = detail::is_host_memory(device);
      is_direct_ = options.device_memory == mpi_device_memory::direct ||
                   (options.device_memory == mpi_device_memory::ask &&
                    (is_host_memory_ || detail::mpi_takes_device_memory()));
      const std::size_t largest = link_.piece_bytes;
      own = detail::own_greeting(is_direct_ ? largest : std::min(options.staging_bytes, largest));
      reserve_agreement();
      all.resize(static_cast<std::size_t>(size()));
    });
    all_gather(&own, all.data(), sizeof(own));
    link_.piece_bytes = detail::agree(all);
  }

  ~mpi_communicator() override {
    if (std::uncaught_exceptions() > exceptions_) link_.leave();
  }

  [[nodiscard]] int rank() const noexcept override { return link_.rank(); }
  [[nodiscard]] int size() const noexcept override { return link_.size(); }
  [[nodiscard]] device_ref device() const noexcept override { return device_; }
  [[nodiscard]] std::string describe() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    const std::string version{text.data(), static_cast<std::size_t>(length)};
    return version.substr(0, version.find_first_of(",\n")) + ", rank " + std::to_string(rank()) +
           " of " + std::to_string(size()) + ", device memory " +
           (!is_direct_       ? "staged through pinned memory"
            : is_host_memory_ ? "is host memory, passed as it is"
                              : "passed as it is to a GPU-aware MPI") +
           " in messages of at most " + format_bytes(link_.piece_bytes) +
           "; transfer() waits for its stream";
  }

  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    link_.begin(detail::mpi_function::all_gather);
    guarded([&] { detail::mpi_collective{link_, bytes}.all_gather(mine, all); });
  }
  void all_to_all(const void* mine, void* theirs, std::size_t bytes) override {
    link_.begin(detail::mpi_function::all_to_all);
    guarded([&] { detail::mpi_collective{link_, bytes}.all_to_all(mine, theirs); });
  }
  void transfer(const std::vector<outgoing>& out, const std::vector<incoming>& in,
                stream_ref stream) override {
    link_.begin(detail::mpi_function::transfer);
    guarded([&] {
      detail::check_pieces(out, in, rank(), size());
      const scoped_device scope{device_};
      std::vector<outgoing> to;
      std::vector<incoming> from;
      for (const outgoing& each : out)
        if (each.rank != rank() && each.bytes != 0) to.push_back(each);
      for (const incoming& each : in)
        if (each.rank != rank() && each.bytes != 0) from.push_back(each);
      if (!is_direct_ && !(to.empty() && from.empty())) make_buffers();
      copy_own(out, in, stream);
      if (to.empty() && from.empty()) return;
      if (is_direct_)
        transfer_direct(to, from, stream);
      else
        transfer_staged(to, from, stream);
    });
  }

 private:
  struct staging_buffer {
    pinned_array<std::byte> memory;
    event copied;
    detail::mpi_message message;
    bool is_copying = false;
    void* target = nullptr;
  };
  struct lane {
    std::vector<std::pair<int, std::pair<std::byte*, std::size_t>>> left;
    std::deque<staging_buffer*> busy;
  };

  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const rank_error&) {
      throw;
    } catch (const std::exception& error) {
      link_.give_up(error.what());
      throw;
    }
  }
  static device_ref checked(MPI_Comm ranks, device_ref device, const mpi_options& options) {
    detail::require_ranks("mpi_communicator", ranks);
    if (options.staging_bytes == 0)
      throw std::invalid_argument{"mpi_communicator: staging_bytes is 0; give some, such as 4 MiB"};
    require_device(device);
    return device;
  }

  void copy_own(const std::vector<outgoing>& out, const std::vector<incoming>& in,
                stream_ref stream) {
    for (const outgoing& each : out)
      for (const incoming& own : in)
        if (each.rank == rank() && own.rank == rank() && each.bytes != 0 && own.data != each.data)
          copy_async(stream, own.data, each.data, each.bytes);
  }

  void transfer_direct(const std::vector<outgoing>& to, const std::vector<incoming>& from,
                       stream_ref stream) {
    stream.synchronize();
    std::vector<detail::mpi_message> messages;
    try {
      for (const incoming& each : from)
        link_.post(messages, each.rank, static_cast<std::byte*>(each.data), each.bytes, true);
      for (const outgoing& each : to)
        link_.post(messages, each.rank, static_cast<std::byte*>(const_cast<void*>(each.data)),
                   each.bytes, false);
      link_.wait_for(messages);
    } catch (...) {
      detail::mpi_link::cancel(messages);
      throw;
    }
  }

  /// Sorts pieces by the distance to their rank. Both ends of a message see the same distance, so
  /// they reach it in the same order, and few buffers suffice.
  template <typename Piece>
  lane lane_of(std::vector<Piece> pieces, int sign) {
    const auto distance = [&](const Piece& each) {
      return (sign * (each.rank - rank()) + size()) % size();
    };
    std::sort(pieces.begin(), pieces.end(),
              [&](const Piece& a, const Piece& b) { return distance(a) > distance(b); });
    lane result;
    for (const Piece& each : pieces)
      result.left.push_back(
          {each.rank,
           {static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(each.data))),
            each.bytes}});
    return result;
  }
  struct piece {
    int rank;
    std::byte* data;
    std::size_t bytes;
  };
  piece take_piece(lane& from) const {
    auto& [rank, rest] = from.left.back();
    const piece result{rank, rest.first, std::min(link_.piece_bytes, rest.second)};
    rest.first += result.bytes;
    rest.second -= result.bytes;
    if (rest.second == 0) from.left.pop_back();
    return result;
  }
  void make_buffers() {
    while (buffers_.size() < 4)
      buffers_.push_back(std::make_unique<staging_buffer>(staging_buffer{
          pinned_array<std::byte>(link_.piece_bytes), event{device_}, {}, false, nullptr}));
  }
  void transfer_staged(const std::vector<outgoing>& to, const std::vector<incoming>& from,
                       stream_ref stream) {
    lane sent = lane_of(to, 1);
    lane received = lane_of(from, -1);
    std::vector<staging_buffer*> for_sends{buffers_[0].get(), buffers_[1].get()};
    std::vector<staging_buffer*> for_receives{buffers_[2].get(), buffers_[3].get()};
    detail::rank_wait wait{link_.limit()};
    int idle = 0;
    try {
      while (!sent.left.empty() || !sent.busy.empty() || !received.left.empty() ||
             !received.busy.empty()) {
        const bool sent_any = advance_sends(sent, for_sends, stream);
        const bool received_any = advance_receives(received, for_receives, stream);
        // A copy that is under way waits for the stream, not for a rank.
        const bool copies =
            (!received.left.empty() && received.busy.empty()) ||
            std::any_of(sent.busy.begin(), sent.busy.end(),
                        [](const staging_buffer* each) { return each->is_copying; });
        if (sent_any || received_any || copies) wait.restart();
        if (sent_any || received_any) {
          idle = 0;
          continue;
        }
        if (++idle % 64 == 0) link_.check_late(pending_of(sent, received), wait);
        wait.pause();
      }
    } catch (...) {
      for (auto& each : buffers_) detail::keep_until_exit(std::move(each));
      buffers_.clear();
      throw;
    }
  }
  static std::vector<const detail::mpi_message*> pending_of(const lane& sent,
                                                            const lane& received) {
    std::vector<const detail::mpi_message*> result;
    for (const lane* each : {&received, &sent})
      for (const staging_buffer* buffer : each->busy)
        if (!buffer->is_copying) result.push_back(&buffer->message);
    return result;
  }
  bool advance_sends(lane& sent, std::vector<staging_buffer*>& free, stream_ref stream) {
    bool any = false;
    for (staging_buffer* each : sent.busy) {
      if (!each->is_copying) continue;
      // In order, because messages of two ranks arrive as they were sent.
      if (!each->copied.is_done()) break;
      each->message = link_.send(each->message.rank, each->memory.data(), each->message.bytes);
      each->is_copying = false;
      any = true;
    }
    while (!sent.busy.empty() && !sent.busy.front()->is_copying &&
           link_.is_done(sent.busy.front()->message)) {
      free.push_back(sent.busy.front());
      sent.busy.pop_front();
      any = true;
    }
    while (!sent.left.empty() && !free.empty()) {
      staging_buffer& buffer = *free.back();
      const piece next = take_piece(sent);
      copy_async(stream, buffer.memory.data(), next.data, next.bytes);
      buffer.copied.record(stream);
      buffer.message = {MPI_REQUEST_NULL, next.rank, next.bytes, false};
      buffer.is_copying = true;
      sent.busy.push_back(&buffer);
      free.pop_back();
      any = true;
    }
    return any;
  }
  bool advance_receives(lane& received, std::vector<staging_buffer*>& free, stream_ref stream) {
    bool any = false;
    while (!received.busy.empty() && link_.is_done(received.busy.front()->message)) {
      staging_buffer& buffer = *received.busy.front();
      copy_async(stream, buffer.target, buffer.memory.data(), buffer.message.bytes);
      buffer.copied.record(stream);
      free.insert(free.begin(), &buffer);
      received.busy.pop_front();
      any = true;
    }
    // A buffer is used again only after the copy of its last contents, perhaps an earlier call's.
    while (!received.left.empty() && !free.empty() && free.back()->copied.is_done()) {
      staging_buffer& buffer = *free.back();
      const piece next = take_piece(received);
      buffer.message = link_.receive(next.rank, buffer.memory.data(), next.bytes);
      buffer.target = next.data;
      received.busy.push_back(&buffer);
      free.pop_back();
      any = true;
    }
    return any;
  }

  device_ref device_;
  int exceptions_ = std::uncaught_exceptions();
  bool is_host_memory_ = false;
  bool is_direct_ = false;
  detail::mpi_link link_;
  std::vector<std::unique_ptr<staging_buffer>> buffers_;
};

}  // namespace hipvmm
