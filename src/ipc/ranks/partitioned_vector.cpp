// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/partitioned_vector.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

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
  // The first rank that ends behind it: ranks without elements end where they begin.
  const auto end = std::upper_bound(begins_.begin() + 1, begins_.end(), index);
  return static_cast<int>(end - begins_.begin()) - 1;
}

void partition::resize(int rank, std::size_t elements) noexcept {
  const std::size_t before = size(rank);
  for (auto after = static_cast<std::size_t>(rank) + 1; after < begins_.size(); ++after)
    begins_[after] = begins_[after] - before + elements;
}

namespace detail {
namespace {

/// What a rank tells the others. Texts end with a zero byte.
struct part_report {
  std::size_t elements;
  std::size_t element_bytes;
  int failed;
  char call[28];
  char reason[256];
};

template <std::size_t Size>
void write(char (&to)[Size], const char* text) noexcept {
  std::strncpy(to, text, Size - 1);
}

part_report report_of(const std::vector<unsigned char>& reports, int rank) noexcept {
  part_report report;
  std::memcpy(&report, reports.data() + static_cast<std::size_t>(rank) * sizeof report,
              sizeof report);
  return report;
}

std::string sender(const char* call, int rank) {
  return "partitioned_vector: " + std::string{call} + ": rank " + std::to_string(rank);
}

}  // namespace

part_agreement::part_agreement(communicator& ranks, std::size_t element_bytes)
    : ranks_{&ranks},
      element_bytes_{element_bytes},
      reports_(static_cast<std::size_t>(ranks.size()) * sizeof(part_report)) {}

void part_agreement::reach(const char* call, std::size_t elements, partition& parts,
                           const std::function<void()>& own_part) {
  part_report mine{};
  mine.elements = elements;
  mine.element_bytes = element_bytes_;
  write(mine.call, call);
  std::exception_ptr failure;
  try {
    if (own_part) own_part();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    write(mine.reason, error.what());
  } catch (...) {
    failure = std::current_exception();
    write(mine.reason, "an exception that is no std::exception");
  }
  mine.failed = failure ? 1 : 0;
  try {
    ranks_->all_gather(&mine, reports_.data(), sizeof mine);
  } catch (...) {
    if (failure) std::rethrow_exception(failure);  // of which this one is the consequence
    throw;
  }
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const part_report other = report_of(reports_, rank);
    if (std::strcmp(other.call, call) != 0 || other.element_bytes != element_bytes_)
      throw refusal(call, rank);
  }
  if (failure) std::rethrow_exception(failure);
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const part_report other = report_of(reports_, rank);
    if (other.failed != 0)
      throw rank_error{rank_failure::remote, rank,
                       sender(call, rank) + " could not do its part, so that all ranks keep the " +
                           "elements they had: " + other.reason};
  }
  for (int rank = 0; rank < ranks_->size(); ++rank)
    parts.resize(rank, report_of(reports_, rank).elements);
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

rank_error part_agreement::refusal(const char* call, int rank) const {
  const part_report other = report_of(reports_, rank);
  std::string what = sender(call, rank);
  if (std::strcmp(other.call, call) != 0)
    what += " has called " + std::string{other.call} + ", and this rank " + call +
            "; call collective functions in the same order on all ranks";
  else
    what += " has elements of " + std::to_string(other.element_bytes) +
            " bytes, and this rank of " + std::to_string(element_bytes_) +
            "; use the same element type on all ranks";
  return {rank_failure::refused, rank, what};
}

namespace {

/// Where two ranges of global indices overlap.
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
