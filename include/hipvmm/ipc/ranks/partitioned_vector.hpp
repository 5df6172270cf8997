// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// The number of elements of each rank, in the order of ranks: rank r has the global indices from
/// offset(r) to before offset(r) + size(r).
class partition {
 public:
  explicit partition(int ranks) : begins_(static_cast<std::size_t>(ranks) + 1) {}
  /// The sizes differ by at most one; the first ranks have one more. Pre: ranks > 0.
  [[nodiscard]] static partition even(std::size_t elements, int ranks);

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(begins_.size()) - 1; }
  [[nodiscard]] std::size_t size() const noexcept { return begins_.back(); }  ///< of all ranks
  /// Pre: 0 <= rank < ranks().
  [[nodiscard]] std::size_t size(int rank) const noexcept {
    return begins_[static_cast<std::size_t>(rank) + 1] - offset(rank);
  }
  [[nodiscard]] std::size_t offset(int rank) const noexcept {
    return begins_[static_cast<std::size_t>(rank)];
  }
  /// Cost: O(log ranks). Throws: std::out_of_range.
  [[nodiscard]] int owner_of(std::size_t index) const;

  void resize(int rank, std::size_t elements) noexcept;  ///< pre: 0 <= rank < ranks()

 private:
  std::vector<std::size_t> begins_;
};

namespace detail {

/// Both functions are collective, set `parts` by the elements of each rank, and throw rank_error.
class part_agreement {
 public:
  /// Not collective. Throws: std::bad_alloc.
  part_agreement(communicator& ranks, std::size_t element_bytes);
  [[nodiscard]] communicator& ranks() const noexcept { return *ranks_; }
  void update(partition& parts, std::size_t elements) const;
  /// Calls each step after all ranks have completed the one before; returns after all have
  /// completed the last. Calls `check` before it sets `parts`. Throws also: as this rank's steps.
  void rebalance(partition& parts, std::size_t elements, const std::function<void()>& check,
                 const std::function<void()>& get_memory, const std::function<void()>& send) const;

 private:
  static void set_parts(rank_agreement& call, partition& parts, std::size_t elements);

  communicator* ranks_;
  std::size_t element_bytes_;
};

void require_stream_of(const communicator& rank, stream_ref stream);

/// The plan of one rank, in elements.
struct rebalance_plan {
  struct piece {
    int rank;
    std::size_t first;  ///< in the part if sent; in the new part if received
    std::size_t count;
  };

  rebalance_plan(const partition& from, const partition& to, int rank);
  /// Allocates no host memory for its lists: all ranks have agreed by now.
  void transfer(communicator& ranks, const void* part, void* new_part, std::size_t element_bytes,
                stream_ref stream);

  std::size_t size;         ///< of the new part
  std::size_t kept_begin;   ///< of those that stay, in the part
  std::size_t kept_end;     ///< as kept_begin if none stays
  std::size_t received;     ///< from other ranks
  bool in_front;            ///< whether some received ones come in front of some that stay
  std::vector<piece> send;  ///< to other ranks, and to this one if in_front
  std::vector<piece> receive;

 private:
  std::vector<outgoing> out_;
  std::vector<incoming> in_;
};

}  // namespace detail

/// A vector in parts on the ranks of a communicator, in the order of ranks. Each rank has a part, a
/// growable_device_vector on its device, and uses it as such: local().append(...), exchange(). The
/// other ranks see its size after the next update().
/// - Collective, called by all ranks in the same order: update(), rebalance(). All else is local.
/// - update() and rebalance() fail on all ranks together, and each rank keeps its elements.
///   Exception: after rank_error of timeout or lost in the last agreement of rebalance(), some
///   ranks may have their new part already.
/// - After timeout or lost in rebalance(), messages to the vector's memory may still be under way,
///   new memory included: keep the vector until ncclCommAbort or MPI_Finalize.
/// - Same thread rules as std::vector, for each rank. `ranks` must outlive the vector.
template <typename T>
class partitioned_vector {
 public:
  using value_type = T;
  using size_type = std::size_t;

  /// Makes an empty part on ranks.device(). Not collective. Throws: as growable_device_vector.
  explicit partitioned_vector(communicator& ranks, const growth_options& options = {})
      : agreement_{ranks, sizeof(T)}, parts_{ranks.size()}, local_{ranks.device(), options} {}

  [[nodiscard]] communicator& ranks() const noexcept { return agreement_.ranks(); }
  /// This rank's part. Its data() changes when rebalance() brings elements in front of others.
  [[nodiscard]] growable_device_vector<T>& local() noexcept { return local_; }
  [[nodiscard]] const growable_device_vector<T>& local() const noexcept { return local_; }

  /// Of all parts at the last update() or rebalance(), as are size() and offset(); empty before.
  [[nodiscard]] const partition& parts() const noexcept { return parts_; }
  [[nodiscard]] size_type size() const noexcept { return parts_.size(); }
  [[nodiscard]] size_type offset() const noexcept { return parts_.offset(ranks().rank()); }

  /// Tells every rank the sizes of all parts. Collective; uses no stream. Throws: rank_error.
  void update() { agreement_.update(parts_, local_.size()); }

  /// Moves elements between ranks until the sizes of parts differ by at most one; their order
  /// stays. Collective; calls update() first. Works in the order of `stream`, a stream of this
  /// rank's device; a default stream is that device's, even if another is current.
  /// - A rank that only sends, or receives only behind its own elements, keeps its own in place. It
  ///   releases elements sent from the front as erase_front() does; memory at the back stays.
  /// - A rank that receives in front of its own elements moves its part to new memory. The old
  ///   memory exists until `stream` has passed.
  /// Pre: all work that uses the elements is ordered in `stream`, before or behind this call.
  /// Throws: out_of_memory; std::length_error; std::invalid_argument if `stream` is captured or of
  /// another device; std::logic_error while the memory sleeps; hip_error; rank_error.
  void rebalance(stream_ref stream);

 private:
  void drop_front(size_type count, stream_ref stream);

  detail::part_agreement agreement_;
  partition parts_;
  growable_device_vector<T> local_;
  std::optional<growable_device_vector<T>> failed_;
};

template <typename T>
void partitioned_vector<T>::rebalance(stream_ref stream) {
  const size_type size = local_.size();
  std::optional<scoped_device> scope;
  const auto check = [&] {
    scope.emplace(local_.device());
    detail::require_stream_of(ranks(), stream);
  };
  std::optional<detail::rebalance_plan> plan;
  std::optional<growable_device_vector<T>> fresh;
  std::optional<partition> even;
  // A sender's device may write: it gets its right before the messages.
  const bool writes = local_.access(local_.device()) == access_right::read_write;
  const auto get_memory = [&] {
    even = partition::even(parts_.size(), parts_.ranks());
    plan.emplace(parts_, *even, ranks().rank());
    if (!plan->in_front) return local_.reserve(size + plan->received);
    fresh.emplace(growable_device_vector<T>{local_.empty_copy()});
    fresh->reserve(plan->size);
    if (writes) local_.share_rights(*fresh, stream);
  };
  const auto keeps = [&] { return plan->kept_begin != plan->kept_end; };
  const auto send = [&] {
    T* const to =
        plan->in_front ? fresh->data() : local_.data() + (keeps() ? plan->kept_begin : size);
    plan->transfer(ranks(), local_.data(), to, sizeof(T), stream);
    if (plan->in_front && !writes) local_.share_rights(*fresh, stream);
  };
  try {
    // By reference: a std::function of its own might need memory of the host.
    agreement_.rebalance(parts_, size, std::ref(check), std::ref(get_memory), std::ref(send));
  } catch (const rank_error& error) {
    // Messages to its memory may be under way.
    if (error.reason() == rank_failure::timeout || error.reason() == rank_failure::lost)
      failed_ = std::move(fresh);
    throw;
  }

  parts_ = std::move(*even);
  if (plan->in_front) {
    local_ = std::move(*fresh);
    local_.size_ = plan->size;
    return;
  }
  // If elements leave from the back, none has been received behind them.
  local_.size_ = (keeps() ? plan->kept_end : size) + plan->received;
  if (plan->size == 0) return local_.clear();
  drop_front(keeps() ? plan->kept_begin : size, stream);
}

// Only releases memory, and all ranks have agreed by now: a device that refuses is no failure.
template <typename T>
void partitioned_vector<T>::drop_front(size_type count, stream_ref stream) {
  try {
    local_.erase_front(count, stream);
  } catch (const std::exception&) {
    local_.erase(0, count, stream);
  }
}

}  // namespace hipvmm
