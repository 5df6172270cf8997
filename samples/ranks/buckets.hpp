// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <hipvmm/hipvmm.hpp>
#include <vector>

#include "kernels.hpp"

/// The work of a thread that counts the items of each rank.
template <typename T, typename RankOf>
struct count_item {
  const T* items;
  RankOf rank_of;
  unsigned long long* counts;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    add(counts + rank_of(items[index]), 1);
  }
};

/// The work of a thread that puts an item behind the others of its rank.
template <typename T, typename RankOf>
struct place_item {
  const T* items;
  RankOf rank_of;
  unsigned long long* ends;
  T* placed;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    placed[add(ends + rank_of(items[index]), 1)] = items[index];
  }
};

/// Items by the rank that they go to, as exchange() takes them. Its memory is used again by each
/// fill(), and grows if more items come.
template <typename T>
class buckets {
 public:
  explicit buckets(const hipvmm::communicator& ranks)
      : counts_(static_cast<std::size_t>(ranks.size())),
        items_{ranks.device()},
        counters_{ranks.device()} {}

  /// Orders `items` by `rank_of(item)`, a function object that kernels may call. Waits for
  /// `stream`.
  template <typename RankOf>
  void fill(hipvmm::device_span<const T> items, RankOf rank_of, hipvmm::stream_ref stream) {
    const std::vector<unsigned long long> zeros(counts_.size());
    counters_.assign(zeros, stream);
    launch(items.size(), count_item<T, RankOf>{items.data(), rank_of, counters_.data()}, stream,
           {reads(items), writes(counters_)});
    const std::vector<unsigned long long> counts = counters_.copy_to_host(stream);
    std::vector<unsigned long long> begins(counts.size());
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      counts_[rank] = counts[rank];
      if (rank != 0) begins[rank] = begins[rank - 1] + counts[rank - 1];
    }
    counters_.assign(begins, stream);
    items_.resize_uninitialized(items.size());
    launch(items.size(),
           place_item<T, RankOf>{items.data(), rank_of, counters_.data(), items_.data()}, stream,
           {reads(items), writes(counters_), writes(items_)});
    stream.synchronize();  // `begins` has been read
  }

  [[nodiscard]] const hipvmm::growable_device_vector<T>& items() const { return items_; }
  [[nodiscard]] const std::vector<std::size_t>& counts() const { return counts_; }

 private:
  std::vector<std::size_t> counts_;
  hipvmm::growable_device_vector<T> items_;
  hipvmm::growable_device_vector<unsigned long long> counters_;
};
