// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/partitioned_vector.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "ipc/ranks/rank_agreement.hpp"
#include "runtime/stream.hpp"

namespace hipvmm {

partition partition::even(std::size_t elements, int ranks) {
  partition result{ranks};
  const auto count = static_cast<std::size_t>(ranks);
  for (std::size_t rank = 0; rank <= count; ++rank)
    result.begins_[rank] = rank * (elements / count) + std::min(rank, elements % count);
  return result;
}

int partition::owner_of(std::size_t index) const {
  if (index >= size())
    throw std::out_of_range{"partition::owner_of: element " + std::to_string(index) +
                            " is beyond the size, " + std::to_string(size())};
  // The first rank that ends behind the element, because an empty rank ends where it begins.
  const auto end = std::upper_bound(begins_.begin() + 1, begins_.end(), index);
  return static_cast<int>(end - begins_.begin()) - 1;
}

void partition::resize(int rank, std::size_t elements) noexcept {
  const std::size_t before = size(rank);
  for (auto after = static_cast<std::size_t>(rank) + 1; after < begins_.size(); ++after)
    begins_[after] = begins_[after] - before + elements;
}

namespace detail {

part_agreement::part_agreement(communicator& ranks, std::size_t element_bytes)
    : ranks_{&ranks}, element_bytes_{element_bytes} {
  rank_agreement::reserve(ranks);
}

void part_agreement::update(partition& parts, std::size_t elements) const {
  rank_agreement call{*ranks_, "update", element_bytes_};
  set_parts(call, parts, elements);
}

void part_agreement::rebalance(partition& parts, std::size_t elements,
                               const std::function<void()>& check,
                               const std::function<void()>& get_memory,
                               const std::function<void()>& send) const {
  rank_agreement call{*ranks_, "rebalance", element_bytes_};
  call.attempt(check);
  set_parts(call, parts, elements);
  call.attempt(get_memory);
  call.agree();
  call.attempt(send);
  call.agree();
}

void part_agreement::set_parts(rank_agreement& call, partition& parts, std::size_t elements) {
  call.share_count(elements);
  for (int rank = 0; rank < parts.ranks(); ++rank)
    parts.resize(rank, call.count_of(static_cast<std::size_t>(rank)));
}

void require_stream_of(const communicator& rank, stream_ref stream) {
  if (stream.is_capturing())
    throw std::invalid_argument{
        "partitioned_vector::rebalance in a stream that is being captured into a graph; name a "
        "stream that is not captured"};
  const std::optional<device_ref> device = device_of_stream(stream);
  if (device && *device != rank.device())
    throw std::invalid_argument{"partitioned_vector::rebalance: the stream is of device " +
                                std::to_string(device->ordinal()) + ", and rank " +
                                std::to_string(rank.rank()) + " is for memory of device " +
                                std::to_string(rank.device().ordinal()) +
                                "; name a stream of that"};
}

namespace {

struct overlap {
  overlap(const partition& a, int rank_a, const partition& b, int rank_b) noexcept
      : begin{std::max(a.offset(rank_a), b.offset(rank_b))},
        end{std::max(begin, std::min(a.offset(rank_a) + a.size(rank_a),
                                     b.offset(rank_b) + b.size(rank_b)))} {}
  [[nodiscard]] std::size_t count() const noexcept { return end - begin; }

  std::size_t begin;
  std::size_t end;
};

}  // namespace

rebalance_plan::rebalance_plan(const partition& from, const partition& to, int rank)
    : size{to.size(rank)}, kept_begin{0}, kept_end{0}, received{0}, in_front{false} {
  const std::size_t part = from.offset(rank);
  const std::size_t new_part = to.offset(rank);
  const overlap kept{from, rank, to, rank};
  if (kept.count() != 0) {
    kept_begin = kept.begin - part;
    kept_end = kept.end - part;
    in_front = new_part < part;
  }
  for (int other = 0; other < from.ranks(); ++other) {
    if (other == rank && !in_front) continue;
    const overlap sent{from, rank, to, other};
    if (sent.count() != 0) send.push_back({other, sent.begin - part, sent.count()});
    const overlap got{from, other, to, rank};
    if (got.count() != 0) receive.push_back({other, got.begin - new_part, got.count()});
    if (other != rank) received += got.count();
  }
  out_.reserve(send.size());
  in_.reserve(receive.size());
}

void rebalance_plan::transfer(communicator& ranks, const void* part, void* new_part,
                              std::size_t element_bytes, stream_ref stream) {
  for (const piece& each : send)
    out_.push_back({each.rank, static_cast<const unsigned char*>(part) + each.first * element_bytes,
                    each.count * element_bytes});
  for (const piece& each : receive)
    in_.push_back({each.rank, static_cast<unsigned char*>(new_part) + each.first * element_bytes,
                   each.count * element_bytes});
  ranks.transfer(out_, in_, stream);
}

}  // namespace detail
}  // namespace hipvmm
