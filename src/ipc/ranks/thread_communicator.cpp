// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/thread_communicator.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/event.hpp>
#include "core/check.hpp"
#include "runtime/pointer_memory.hpp"
#include "strategy/memory_strategy.hpp"

namespace hipvmm {
namespace detail {
namespace {

std::string rank_text(auto rank) { return "rank " + std::to_string(rank); }

}  // namespace

/// At a *meeting* each rank waits for all; the last to come checks all parts, and moves host bytes.
class thread_group {
 public:
  enum class function { all_gather, all_to_all, transfer };
  struct part {
    function call = function::transfer;
    const void* mine = nullptr;
    void* all = nullptr;
    std::size_t bytes = 0;
    const std::vector<outgoing>* out = nullptr;
    const std::vector<incoming>* in = nullptr;
    const std::string* failure = nullptr;
  };
  struct verdict {
    rank_failure reason;
    int rank;
    std::string text;
  };
  /// The state of a rank that the others read between meetings.
  struct rank_state {
    device_ref device{0};
    const std::vector<outgoing>* sent = nullptr;
    std::optional<event> ready;  ///< the sent bytes are complete; recorded in the sender's stream
    std::optional<event> done;   ///< the sent bytes have been copied; in the receiver's stream
    bool is_done_recorded = false;
    bool is_taken = false;
  };

  thread_group(int size, const communicator_options& options)
      : limit_{checked_limit(options)},
        parts_(static_cast<std::size_t>(size)),
        is_here_(static_cast<std::size_t>(size)),
        states_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] int size() const noexcept { return static_cast<int>(states_.size()); }
  [[nodiscard]] rank_state& state(int rank) noexcept {
    return states_[static_cast<std::size_t>(rank)];
  }

  void take(int rank, device_ref device) {
    const std::lock_guard lock{mutex_};
    if (rank < 0 || rank >= size())
      throw std::invalid_argument{"thread_communicator: " + rank_text(rank) + " is not one of " +
                                  std::to_string(size()) + " ranks, which begin with 0"};
    if (std::exchange(state(rank).is_taken, true))
      throw std::invalid_argument{"thread_communicator: " + rank_text(rank) +
                                  " has been made already; each rank is made once"};
    state(rank).device = device;
  }

  void lose(int rank) noexcept {
    const std::lock_guard lock{mutex_};
    break_group(rank_failure::lost, rank);
  }
  void lose_untaken() noexcept {
    const std::lock_guard lock{mutex_};
    for (int rank = 0; rank < size(); ++rank)
      if (!state(rank).is_taken) break_group(rank_failure::lost, rank);
  }

  /// Waits for the other ranks up to the limit. The result is null without an obstacle, and valid
  /// until the next meeting. Throws: rank_error if not all have come.
  [[nodiscard]] const verdict* meet(int rank, const part& brought) {
    std::unique_lock lock{mutex_};
    if (broken_) throw_broken(brought.call);
    const unsigned meeting = meeting_;
    if (!come(rank, brought) &&
        !changed_.wait_for(lock, limit_, [&] { return meeting_ != meeting || broken_; }))
      break_group(rank_failure::timeout, first_missing());
    if (meeting_ == meeting) throw_broken(brought.call);
    return verdict_ ? &*verdict_ : nullptr;
  }

  /// Throws: rank_error, also for an obstacle.
  void meet_for_host_bytes(int rank, const part& brought) {
    if (const verdict* const failure = meet(rank, brought))
      throw rank_error{failure->reason, failure->rank, failure->text};
  }

  /// Has no limit: all ranks came before, and make only HIP calls that wait for no rank.
  [[nodiscard]] const verdict* meet_again(int rank, const part& brought) {
    std::unique_lock lock{mutex_};
    const unsigned meeting = meeting_;
    if (!come(rank, brought)) changed_.wait(lock, [&] { return meeting_ != meeting; });
    return verdict_ ? &*verdict_ : nullptr;
  }

 private:
  /// Returns whether this rank was the last to come.
  bool come(int rank, const part& brought) {
    const auto index = static_cast<std::size_t>(rank);
    parts_[index] = brought;
    is_here_[index] = true;
    if (std::find(is_here_.begin(), is_here_.end(), false) != is_here_.end()) return false;
    try {
      verdict_ = judge();
    } catch (const std::bad_alloc&) {
      verdict_ = verdict{rank_failure::remote, -1, "no host memory"};
    }
    if (!verdict_) move_host_bytes();
    std::fill(is_here_.begin(), is_here_.end(), false);
    ++meeting_;
    changed_.notify_all();
    return true;
  }

  [[nodiscard]] int first_missing() const {
    return static_cast<int>(std::find(is_here_.begin(), is_here_.end(), false) - is_here_.begin());
  }

  void break_group(rank_failure reason, int rank) noexcept {
    if (broken_) return;
    broken_.emplace(reason, rank);
    changed_.notify_all();
  }

  [[noreturn]] void throw_broken(function call) const {
    const auto [reason, rank] = *broken_;
    std::string text = rank_text(rank);
    if (reason == rank_failure::timeout)
      text += std::string{" did not come to "} + function_text(call) + " within " +
              std::to_string(limit_.count()) +
              " ms (communicator_options::limit); it must make the same calls as the others";
    else
      text += " has ended its communicator, or never had one";
    throw rank_error{reason, rank,
                     text + "; the ranks that are left need thread_ranks of their own"};
  }

  static const char* function_text(function call) {
    return call == function::all_gather   ? "all_gather()"
           : call == function::all_to_all ? "all_to_all()"
                                          : "transfer()";
  }
  static std::string call_text(const part& brought) {
    std::string text = function_text(brought.call);
    if (brought.call != function::transfer)
      text += " of " + std::to_string(brought.bytes) + " bytes";
    return text;
  }

  [[nodiscard]] std::optional<verdict> judge() const {
    for (std::size_t rank = 1; rank < parts_.size(); ++rank) {
      if (parts_[rank].call != parts_[0].call || parts_[rank].bytes != parts_[0].bytes)
        return verdict{rank_failure::refused, static_cast<int>(rank),
                       rank_text(rank) + " called " + call_text(parts_[rank]) + ", and rank 0 " +
                           call_text(parts_[0]) +
                           "; all ranks make the same calls in the same order"};
    }
    for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
      if (parts_[rank].failure != nullptr)
        return verdict{
            rank_failure::remote, static_cast<int>(rank),
            rank_text(rank) + " could not do its part of a transfer: " + *parts_[rank].failure};
    }
    if (parts_[0].call != function::transfer) return {};
    for (std::size_t rank = 0; rank < parts_.size(); ++rank)
      for (std::size_t other = 0; other < parts_.size(); ++other)
        if (auto found = judge_pair(rank, other)) return found;
    return {};
  }

  [[nodiscard]] std::optional<verdict> judge_pair(std::size_t from, std::size_t to) const {
    const auto sent = bytes_of(*parts_[from].out, to);
    const auto expected = bytes_of(*parts_[to].in, from);
    if (sent == expected && sent.second < 2) return {};
    const auto pieces = [](std::pair<std::size_t, std::size_t> found) {
      return std::to_string(found.first) + " bytes in " + std::to_string(found.second) +
             (found.second == 1 ? " piece" : " pieces");
    };
    return verdict{rank_failure::refused, static_cast<int>(from),
                   rank_text(from) + " sends " + pieces(sent) + " to " + rank_text(to) +
                       ", which receives " + pieces(expected) +
                       "; both name one piece of the same bytes, or none"};
  }

  template <typename Piece>
  static std::pair<std::size_t, std::size_t> bytes_of(const std::vector<Piece>& pieces,
                                                      std::size_t rank) {
    std::pair<std::size_t, std::size_t> result{0, 0};
    for (const Piece& each : pieces) {
      if (each.rank != static_cast<int>(rank)) continue;
      result.first += each.bytes;
      ++result.second;
    }
    return result;
  }

  void move_host_bytes() const {
    if (parts_[0].call == function::transfer || parts_[0].bytes == 0) return;
    const std::size_t bytes = parts_[0].bytes;
    for (std::size_t to = 0; to < parts_.size(); ++to) {
      for (std::size_t from = 0; from < parts_.size(); ++from) {
        const auto* piece = static_cast<const std::byte*>(parts_[from].mine);
        if (parts_[0].call == function::all_to_all) piece += to * bytes;
        std::memcpy(static_cast<std::byte*>(parts_[to].all) + from * bytes, piece, bytes);
      }
    }
  }

  const std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<part> parts_;
  std::vector<bool> is_here_;
  std::vector<rank_state> states_;
  unsigned meeting_ = 0;
  std::optional<verdict> verdict_;
  std::optional<std::pair<rank_failure, int>> broken_;
};

namespace {

class thread_transfer {
 public:
  thread_transfer(thread_group& group, int rank, const std::vector<outgoing>& out,
                  const std::vector<incoming>& in, stream_ref stream)
      : group_{group}, rank_{rank}, out_{out}, in_{in}, stream_{stream} {}

  void run() {
    std::optional<scoped_device> scope;
    attempt([&] {
      check_pieces(out_, in_, rank_, group_.size());
      scope.emplace(own().device);
      if (stream_.is_capturing())
        throw std::invalid_argument{
            "a transfer between ranks in a stream that is being captured; name one that is not"};
      own().sent = &out_;
      own().ready->record(stream_);
    });
    const auto* const hindrance = group_.meet(rank_, brought());
    if (hindrance) throw_failure(*hindrance);
    attempt([&] { receive(); });
    bool has_failed = group_.meet_again(rank_, brought()) != nullptr;
    if (!has_failed) {
      attempt([&] {
        for (const outgoing& each : out_) wait_for_receiver(each.rank);
      });
      // AMD's runtime uses the stream of an event that is waited for, and a rank that goes on may
      // destroy its stream at once (samples/rocm_defects/wait_beside_destroy.cpp).
      has_failed = group_.meet_again(rank_, brought()) != nullptr;
    }
    if (!has_failed) return;
    finish();
    if (const auto* const failure = group_.meet_again(rank_, brought())) throw_failure(*failure);
  }

 private:
  thread_group::rank_state& own() { return group_.state(rank_); }

  [[nodiscard]] thread_group::part brought() const {
    return {.out = &out_, .in = &in_, .failure = caught_ ? &text_ : nullptr};
  }

  /// Keeps an exception: if a rank left now, the others would wait for it.
  template <typename Action>
  void attempt(Action action) noexcept {
    try {
      action();
    } catch (const std::exception& error) {
      keep_caught(error.what());
    } catch (...) {
      keep_caught("an exception that is no std::exception");
    }
  }
  void keep_caught(const char* text) noexcept {
    caught_ = std::current_exception();
    try {
      text_ = text;
    } catch (const std::bad_alloc&) {
      text_ = "no host memory";
    }
  }

  [[noreturn]] void throw_failure(const thread_group::verdict& found) const {
    if (caught_) std::rethrow_exception(caught_);
    throw rank_error{found.reason, found.rank, found.text};
  }

  /// When `done` has passed, or if this throws, no work of this rank uses memory of the others.
  void receive() {
    own().is_done_recorded = false;
    try {
      for (const incoming& each : in_) receive(each);
    } catch (...) {
      report_exceptions([&] { stream_.synchronize(); });
      throw;
    }
    try {
      own().done->record(stream_);
      own().is_done_recorded = true;
    } catch (const std::exception&) {
      stream_.synchronize();
    }
  }

  void receive(const incoming& piece) {
    const std::vector<outgoing>& theirs = *group_.state(piece.rank).sent;
    const auto sent = std::ranges::find(theirs, rank_, &outgoing::rank);
    if (piece.bytes == 0) return;
    const thread_group::rank_state& sender = group_.state(piece.rank);
    if (piece.rank != rank_) stream_.wait(*sender.ready);
    if (sender.device == own().device)
      return copy_async(stream_, piece.data, sent->data, piece.bytes);
    require_right(piece.data, sender.device);
    copy_peer_async(stream_, piece.data, own().device, sent->data, sender.device, piece.bytes);
  }

  /// On ROCm 6 the sender's device copies between chunks. Both records decide, because a device
  /// that has no peer lacks the finding.
  void require_right(const void* target, device_ref sender) {
    if (capability_of(own().device).path() == memory_path::fallback) return;
    const memory_strategy both{
        {{own().device, capability_of(own().device)}, {sender, capability_of(sender)}}};
    if (both.peer_copies) return;
    unsigned long long flags = 0;
    // Memory of hipMalloc has no mapping.
    if (query_access(target, sender, flags) != hipSuccess) return clear_last_error();
    if (flags == hipMemAccessFlagsProtReadWrite) return;
    const std::string from = "device " + std::to_string(sender.ordinal());
    throw unsupported{rank_text(rank_) + " receives from memory of " + from +
                      " into a chunk of device " + std::to_string(own().device.ordinal()) +
                      ": the engine of " + from + " makes the copy, and may not write there (" +
                      both.peer_copies.reason() + "); grant " + from +
                      " read_write access to the receiving memory"};
  }

  void wait_for_receiver(int rank) {
    const thread_group::rank_state& receiver = group_.state(rank);
    if (rank == rank_ || !receiver.is_done_recorded) return;
    try {
      stream_.wait(*receiver.done);
    } catch (const std::exception&) {
      receiver.done->synchronize();
    }
  }

  /// Waits until this rank and the others use no memory of each other.
  void finish() {
    for (const outgoing& each : out_) {
      const thread_group::rank_state& receiver = group_.state(each.rank);
      if (each.rank != rank_ && receiver.is_done_recorded)
        report_exceptions([&] { receiver.done->synchronize(); });
    }
    report_exceptions([&] { stream_.synchronize(); });
  }

  thread_group& group_;
  int rank_;
  const std::vector<outgoing>& out_;
  const std::vector<incoming>& in_;
  stream_ref stream_;
  std::exception_ptr caught_;
  std::string text_;
};

}  // namespace
}  // namespace detail

thread_ranks::thread_ranks(int size, const communicator_options& options) {
  if (size < 1)
    throw std::invalid_argument{"thread_ranks: there must be at least one rank, not " +
                                std::to_string(size)};
  group_ = std::make_shared<detail::thread_group>(size, options);
}

thread_ranks::~thread_ranks() { group_->lose_untaken(); }

int thread_ranks::size() const noexcept { return group_->size(); }

thread_communicator::thread_communicator(thread_ranks& ranks, int rank, device_ref device)
    : group_{ranks.group_}, rank_{rank}, device_{device} {
  group_->take(rank, device);
  try {
    reserve_agreement();
    require_device(device);
    group_->state(rank).ready.emplace(device);
    group_->state(rank).done.emplace(device);
  } catch (...) {
    group_->lose(rank);
    throw;
  }
}

thread_communicator::~thread_communicator() { group_->lose(rank_); }

int thread_communicator::size() const noexcept { return group_->size(); }

std::string thread_communicator::describe() const {
  return std::to_string(size()) +
         " threads of one process; copies on the devices, in the order of "
         "their streams, without a wait";
}

void thread_communicator::all_gather(const void* mine, void* all, std::size_t bytes) {
  group_->meet_for_host_bytes(rank_, {.call = detail::thread_group::function::all_gather,
                                      .mine = mine,
                                      .all = all,
                                      .bytes = bytes});
}

void thread_communicator::all_to_all(const void* mine, void* theirs, std::size_t bytes) {
  group_->meet_for_host_bytes(rank_, {.call = detail::thread_group::function::all_to_all,
                                      .mine = mine,
                                      .all = theirs,
                                      .bytes = bytes});
}

void thread_communicator::transfer(const std::vector<outgoing>& out,
                                   const std::vector<incoming>& in, stream_ref stream) {
  detail::thread_transfer{*group_, rank_, out, in, stream}.run();
}

}  // namespace hipvmm
