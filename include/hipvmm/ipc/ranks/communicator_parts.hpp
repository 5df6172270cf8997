// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm {
namespace detail {

/// The message by which ranks make a communicator. Its form stays the same in later versions.
struct rank_greeting {
  std::array<std::uint32_t, 3> version{};  ///< of hipvmm
  std::array<char, 20> provider{};         ///< padded with zeros
  std::uint64_t piece_bytes = 0;           ///< most bytes of one message
  /// In place of piece_bytes: the rank cannot make its communicator.
  static constexpr std::uint64_t cannot = ~std::uint64_t{0};
};

/// Throws: hip_error.
[[nodiscard]] rank_greeting own_greeting(std::size_t piece_bytes);
/// Returns the smallest piece_bytes. `all` is in the order of ranks.
/// Throws: rank_error of remote, naming the first rank that failed; of refused, naming the first
/// rank with another provider, or major or minor version of hipvmm, than rank 0.
[[nodiscard]] std::size_t agree(const std::vector<rank_greeting>& all);

/// Throws: hip_error.
[[nodiscard]] std::string provider_name();
/// Returns whether every host library can use memory of `device`: on the host provider, except
/// under profiles that close it to the host.
[[nodiscard]] bool is_host_memory(device_ref device);

/// Throws: std::invalid_argument, as communicator::transfer() for the pieces of one rank.
void check_pieces(const std::vector<outgoing>& out, const std::vector<incoming>& in, int rank,
                  int size);

class last_failure {
 public:
  void require_none() const {
    if (failure_.has_value()) throw rank_error{*failure_};
  }
  [[nodiscard]] bool happened() const noexcept { return failure_.has_value(); }
  void remember(const rank_error& error) {
    if (!failure_.has_value()) failure_.emplace(error);
  }

 private:
  std::optional<rank_error> failure_;
};

/// Keeps memory that a broken communicator may still use until the process ends.
template <typename T>
void keep_until_exit(T&& memory) noexcept {
  using kept = std::decay_t<T>;
  static_assert(!std::is_lvalue_reference_v<T> && std::is_nothrow_move_constructible_v<kept>);
  try {
    static auto& all = *new std::deque<std::shared_ptr<void>>;
    static auto& mutex = *new std::mutex;
    const std::lock_guard lock{mutex};
    std::shared_ptr<void>& place = all.emplace_back();
    place = std::make_shared<kept>(std::forward<T>(memory));
  } catch (const std::bad_alloc&) {
    // The list lacks memory: moved here and never destroyed, the owner frees nothing.
    alignas(kept) std::array<std::byte, sizeof(kept)> owner;
    ::new (static_cast<void*>(owner.data())) kept(std::forward<T>(memory));
  }
}

/// The limit of `options`, or a year: longer times would overflow the clock.
/// Throws: std::invalid_argument unless it is more than zero.
[[nodiscard]] std::chrono::milliseconds checked_limit(const communicator_options& options);

/// The wait between two checks of other ranks: yields at first, later sleeps, at most 0.5 ms.
class rank_wait {
 public:
  explicit rank_wait(std::chrono::milliseconds limit);
  void restart();
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool is_half_over() const;
  void pause();

 private:
  using clock = std::chrono::steady_clock;
  std::chrono::milliseconds limit_;
  clock::time_point start_;
};

[[nodiscard]] std::string name_ranks(const std::vector<int>& ranks);

}  // namespace detail
}  // namespace hipvmm
