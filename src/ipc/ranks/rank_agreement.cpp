// SPDX-License-Identifier: MIT
#include "ipc/ranks/rank_agreement.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include <hipvmm/ipc/ranks/rank_error.hpp>

namespace hipvmm::detail {
namespace {

template <std::size_t Size>
void write(std::array<char, Size>& to, const char* text) noexcept {
  std::strncpy(to.data(), text, Size - 1);
}

std::string text_of_elements(std::uint64_t bytes) {
  return (bytes & rank_agreement::several_arrays) != 0
             ? "several arrays"
             : "elements of " + std::to_string(bytes) + " bytes";
}

}  // namespace

void rank_agreement::reserve(communicator& ranks) {
  if (ranks.agreement_.empty()) ranks.reserve_agreement();
}

rank_agreement::rank_agreement(communicator& ranks, const char* function,
                               std::uint64_t element_bytes, int root)
    : ranks_{ranks}, size_{static_cast<std::size_t>(ranks.size())} {
  reserve(ranks);
  own_.element_bytes = element_bytes;
  own_.root = root;
  write(own_.function, function);
  for (std::size_t rank = 0; rank < size_; ++rank) set_count(rank, 0);
}

void rank_agreement::set_count(std::size_t rank, std::size_t count) noexcept {
  const std::uint64_t value = count;
  own_.most = std::max(own_.most, value);
  std::memcpy(sent() + rank * sizeof(header) + offsetof(header, count), &value, sizeof(value));
}

std::size_t rank_agreement::count_of(std::size_t rank) const noexcept { return got(rank).count; }

void rank_agreement::share_count(std::size_t count) {
  own_.count = count;
  own_.has_failed = caught_ ? 1 : 0;
  call_ranks([&] { ranks_.all_gather(&own_, got(), sizeof(header)); });
  judge_headers();
}

bool rank_agreement::all_have_room() const noexcept {
  constexpr std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t comes = 0;
  std::uint64_t room = limit;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const header its = got(rank);
    comes = its.most > limit - comes ? limit : comes + its.most;
    room = std::min(room, its.room);
  }
  return comes <= room;
}

void rank_agreement::share_counts(std::size_t room) {
  own_.room = room;
  own_.has_failed = caught_ ? 1 : 0;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    std::byte* const to = sent() + rank * sizeof(header);
    std::memcpy(&own_.count, to + offsetof(header, count), sizeof(own_.count));
    std::memcpy(to, &own_, sizeof(header));
  }
  call_ranks([&] { ranks_.all_to_all(sent(), got(), sizeof(header)); });
  judge_headers();
}

void rank_agreement::judge_headers() {
  require_same_call();
  for (std::size_t rank = 0; rank < size_; ++rank)
    if (got(rank).has_failed != 0) throw_failure_of(rank);
}

void rank_agreement::require_same_call() const {
  const header first = got(0);
  for (std::size_t rank = 1; rank < size_; ++rank) {
    const header its = got(rank);
    const auto refuse = [&](const std::string& one, const std::string& other, const char* mend) {
      rethrow_own();
      throw rank_error{rank_failure::refused, static_cast<int>(rank),
                       "rank " + std::to_string(rank) + " called " + its.function.data() + "()" +
                           one + ", and rank 0 " + other + "; " + mend};
    };
    if (its.function != first.function)
      refuse("", std::string{first.function.data()} + "()",
             "all ranks make the same calls in the same order");
    if (its.element_bytes != first.element_bytes)
      refuse(" with " + text_of_elements(its.element_bytes),
             "with " + text_of_elements(first.element_bytes),
             "use the same element type on all ranks, for each array in turn");
    if (its.root != first.root)
      refuse(" to rank " + std::to_string(its.root), "to rank " + std::to_string(first.root),
             "name the same root on all ranks");
  }
}

void rank_agreement::agree() {
  const std::int32_t has_failed = caught_ ? 1 : 0;
  call_ranks([&] { ranks_.all_gather(&has_failed, later(), sizeof(has_failed)); });
  for (std::size_t rank = 0; rank < size_; ++rank) {
    std::int32_t its = 0;
    std::memcpy(&its, later() + rank * sizeof(its), sizeof(its));
    if (its != 0) throw_failure_of(rank);
  }
}

/// All ranks call it, with the first rank that has failed.
void rank_agreement::throw_failure_of(std::size_t rank) {
  call_ranks([&] { ranks_.all_gather(&text_, later(), sizeof(text)); });
  rethrow_own();
  text reason;
  std::memcpy(&reason, later() + rank * sizeof(text), sizeof(text));
  throw rank_error{rank_failure::remote, static_cast<int>(rank),
                   "rank " + std::to_string(rank) + " could not take part in " +
                       own_.function.data() + "(): " + reason.data()};
}

void rank_agreement::keep(const char* what) noexcept {
  caught_ = std::current_exception();
  write(text_, what);
}

void rank_agreement::rethrow_own() const {
  if (caught_) std::rethrow_exception(caught_);
}

/// A rank's own error says more than its consequences.
template <typename Call>
void rank_agreement::call_ranks(Call call) const {
  try {
    call();
  } catch (...) {
    rethrow_own();
    throw;
  }
}

}  // namespace hipvmm::detail
