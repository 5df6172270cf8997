// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/communicator_parts.hpp>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <thread>

#include <hipvmm/capability/capability.hpp>
#include "ipc/identity.hpp"
#include "strategy/memory_strategy.hpp"

namespace hipvmm::detail {
namespace {

std::string text_of(const rank_greeting& build) {
  const auto end = std::find(build.provider.begin(), build.provider.end(), '\0');
  return "hipvmm " + std::to_string(build.version[0]) + '.' + std::to_string(build.version[1]) +
         '.' + std::to_string(build.version[2]) + " on the provider '" +
         std::string(build.provider.begin(), end) + "'";
}

std::string at(const char* direction, int rank) {
  return std::string{"transfer: the piece "} + direction + " rank " + std::to_string(rank);
}

/// Returns the bytes of the rank's piece for itself, or 0.
template <typename Piece>
std::size_t check(const std::vector<Piece>& pieces, const char* direction, int own, int size) {
  std::set<int> seen;
  std::size_t own_bytes = 0;
  for (const Piece& each : pieces) {
    if (each.rank < 0 || each.rank >= size)
      throw std::invalid_argument{at(direction, each.rank) + " has no such rank: there are " +
                                  std::to_string(size) + ", from 0 on"};
    if (!seen.insert(each.rank).second)
      throw std::invalid_argument{at(direction, each.rank) +
                                  " is named twice; join the pieces, or call transfer() twice"};
    if (each.data == nullptr && each.bytes != 0)
      throw std::invalid_argument{at(direction, each.rank) + " has " + std::to_string(each.bytes) +
                                  " bytes and its address is nullptr"};
    if (each.rank == own) own_bytes = each.bytes;
  }
  return own_bytes;
}

}  // namespace

rank_greeting own_greeting(std::size_t piece_bytes) {
  const build_identity own = own_identity();
  rank_greeting result;
  for (std::size_t i = 0; i < result.version.size(); ++i)
    result.version[i] = static_cast<std::uint32_t>(own.version[i]);
  std::copy_n(own.provider.begin(), std::min(own.provider.size(), result.provider.size()),
              result.provider.begin());
  result.piece_bytes = piece_bytes;
  return result;
}

std::size_t agree(const std::vector<rank_greeting>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].piece_bytes == rank_greeting::cannot)
      throw rank_error{rank_failure::remote, static_cast<int>(rank),
                       "rank " + std::to_string(rank) +
                           " could not make its communicator: its exception has the reason, such "
                           "as missing memory; make another one on all ranks"};
  }
  std::uint64_t piece_bytes = all.at(0).piece_bytes;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const rank_greeting &first = all[0], &other = all[rank];
    if (other.version[0] != first.version[0] || other.version[1] != first.version[1] ||
        other.provider != first.provider)
      throw rank_error{rank_failure::refused, static_cast<int>(rank),
                       "rank " + std::to_string(rank) + " has " + text_of(other) + ", rank 0 has " +
                           text_of(first) + ": build all ranks with the same version and provider"};
    piece_bytes = std::min(piece_bytes, other.piece_bytes);
  }
  return static_cast<std::size_t>(piece_bytes);
}

std::string provider_name() { return provider_of_build(); }

bool is_host_memory(device_ref device) {
  if (provider_name() != "host") return false;
  const capability found = capability_of(device);
  // A profile can close mappings to the host. Without virtual memory there are none.
  return found.path() == memory_path::fallback || memory_strategy{device}.host_reads;
}

void check_pieces(const std::vector<outgoing>& out, const std::vector<incoming>& in, int rank,
                  int size) {
  const std::size_t sent = check(out, "to", rank, size);
  const std::size_t received = check(in, "from", rank, size);
  if (sent != received)
    throw std::invalid_argument{"transfer: rank " + std::to_string(rank) + " sends itself " +
                                std::to_string(sent) + " bytes and receives " +
                                std::to_string(received) + " of itself; give the same"};
}

std::chrono::milliseconds checked_limit(const communicator_options& options) {
  if (options.limit <= std::chrono::milliseconds::zero())
    throw std::invalid_argument{"communicator_options::limit is " +
                                std::to_string(options.limit.count()) +
                                " ms; it must be more than zero"};
  return std::min<std::chrono::milliseconds>(options.limit, std::chrono::hours{24 * 365});
}

rank_wait::rank_wait(std::chrono::milliseconds limit) : limit_{limit}, start_{clock::now()} {}

void rank_wait::restart() { start_ = clock::now(); }

bool rank_wait::is_over() const { return clock::now() - start_ > limit_; }

bool rank_wait::is_half_over() const { return clock::now() - start_ > limit_ / 2; }

void rank_wait::pause() {
  const auto waited = clock::now() - start_;
  // Other ranks may need this core to answer.
  if (waited < std::chrono::milliseconds{2})
    std::this_thread::yield();
  else if (waited < std::chrono::milliseconds{50})
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  else
    std::this_thread::sleep_for(std::chrono::microseconds{500});
}

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  std::string result = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i)
    result += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > most) result += " and " + std::to_string(ranks.size() - most) + " more";
  return result;
}

}  // namespace hipvmm::detail
