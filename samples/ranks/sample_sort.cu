// SPDX-License-Identifier: MIT
// Sorts keys that are on ranks: each rank sorts its own, samples choose the first keys of the
// ranks' parts, and the keys go there by exchange(), into a vector that grows. How many a rank gets
// depends on the keys; rebalance() makes the parts even. The result is checked against the input.
//   sample_sort --ranks threads:4 --size 100000   (so many keys on each rank, on average)
#include <algorithm>
#include <cstdio>
#include <hipvmm/hipvmm.hpp>
#include <vector>

#include "kernels.hpp"
#include "run_ranks.hpp"

namespace {

using key = std::uint64_t;

/// The work of a thread: makes a key. Small ones are more frequent than large ones.
struct make_key {
  key* keys;
  std::size_t first;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    const key random = mixed(first + index);
    keys[index] = mixed(random) >> random % 16;
  }
};

/// Takes a key at regular distances; the greatest key if there are none.
struct take_sample {
  hipvmm::device_span<const key> sorted;
  key* samples;
  std::size_t count;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    const std::size_t at = index * sorted.size() / count;
    samples[index] = sorted.empty() ? ~key{0} : sorted.data()[at];
  }
};

/// Finds the first key of a rank.
struct find_bound {
  hipvmm::device_span<const key> sorted;
  key* at;  // the least key of a rank, then the index of its first key

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    at[index] = lower_bound(sorted.data(), sorted.size(), at[index]);
  }
};

/// Shows that no key was lost or changed, and whether keys are in order.
struct summary {
  unsigned long long sum;        // of the keys, mixed
  unsigned long long misplaced;  // keys that are less than those before them
};
struct add_key {
  const key* keys;
  summary* total;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    add(&total->sum, mixed(keys[index]));
    if (index != 0 && keys[index] < keys[index - 1]) add(&total->misplaced, 1);
  }
};

summary summary_of(hipvmm::device_span<const key> keys, hipvmm::stream_ref stream) {
  hipvmm::growable_device_vector<summary> total{1, stream};
  launch(keys.size(), add_key{keys.data(), total.data()}, stream, {reads(keys), writes(total)});
  return total.element(0, stream);
}

/// Sums the sums of all ranks, and checks the order within ranks and between them.
unsigned long long check_sorted(const hipvmm::partitioned_vector<key>& keys,
                                hipvmm::stream_ref stream) {
  struct end_keys {
    summary own;
    std::size_t count;
    key first;
    key last;
  };
  const auto& local = keys.local();
  end_keys mine{summary_of(local.span(), stream), local.size(), 0, 0};
  if (mine.count != 0) {
    mine.first = local.front_element(stream);
    mine.last = local.back_element(stream);
  }
  std::vector<end_keys> all(static_cast<std::size_t>(keys.ranks().size()));
  keys.ranks().all_gather(&mine, all.data(), sizeof mine);
  unsigned long long sum = 0;
  key last = 0;
  for (const end_keys& each : all) {
    sum += each.own.sum;
    require(each.own.misplaced == 0, "the keys of a rank are not sorted");
    if (each.count == 0) continue;
    require(each.first >= last, "a rank begins with a key that is less than one before");
    last = each.last;
  }
  return sum;
}

/// The numbers of keys that go to each rank, which are beside each other in `sorted`.
std::vector<std::size_t> choose_parts(hipvmm::device_span<const key> sorted,
                                      hipvmm::communicator& ranks, hipvmm::stream_ref stream) {
  const auto size = static_cast<std::size_t>(ranks.size());
  const std::size_t per_rank = 16 * size;
  hipvmm::growable_device_vector<key> own{ranks.device()};
  own.resize_uninitialized(per_rank);
  launch(per_rank, take_sample{sorted, own.data(), per_rank}, stream, {reads(sorted), writes(own)});
  const std::vector<key> mine = own.copy_to_host(stream);
  std::vector<key> samples(per_rank * size);
  ranks.all_gather(mine.data(), samples.data(), per_rank * sizeof(key));
  std::sort(samples.begin(), samples.end());
  std::vector<key> bounds;
  for (std::size_t rank = 0; rank < size; ++rank) bounds.push_back(samples[rank * per_rank]);
  own.assign(bounds, stream);
  launch(size, find_bound{sorted, own.data()}, stream, {reads(sorted), writes(own)});
  std::vector<key> begins = own.copy_to_host(stream);
  begins[0] = 0;
  begins.push_back(sorted.size());
  std::vector<std::size_t> counts;
  for (std::size_t rank = 0; rank < size; ++rank) counts.push_back(begins[rank + 1] - begins[rank]);
  return counts;
}

void run(hipvmm::communicator& ranks, std::size_t size) {
  const hipvmm::stream stream;
  // Later ranks have more.
  const auto rank = static_cast<std::size_t>(ranks.rank());
  const std::size_t first = size * rank * (rank + 1) / static_cast<std::size_t>(ranks.size() + 1);
  const std::size_t count = 2 * size * (rank + 1) / static_cast<std::size_t>(ranks.size() + 1);
  hipvmm::growable_device_vector<key> own{ranks.device()};
  own.resize_uninitialized(count);
  launch(count, make_key{own.data(), first}, stream, {writes(own)});
  unsigned long long made = summary_of(own.span(), stream).sum;

  // [sample-sort]
  sort(own.span(), stream);
  const std::vector<std::size_t> counts = choose_parts(own.span(), ranks, stream);
  hipvmm::partitioned_vector<key> sorted{ranks};
  exchange(own, counts, sorted.local(), ranks, stream);  // this rank's keys, from all ranks
  sort(sorted.local().span(), stream);
  // [sample-sort-end]

  // [rebalance]
  sorted.update();  // tells all ranks the sizes of the parts
  const hipvmm::partition before = sorted.parts();
  sorted.rebalance(stream);  // as many keys on each rank, in the same order
  // [rebalance-end]

  const unsigned long long sum = check_sorted(sorted, stream);
  std::vector<unsigned long long> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(&made, all.data(), sizeof made);
  for (const unsigned long long each : all) made += each;
  require(sum == made - all[rank], "a key was lost or changed");
  const hipvmm::partition& after = sorted.parts();
  require(after.size() == before.size(), "there are more or fewer keys than before");
  require(after.size(0) - after.size(ranks.size() - 1) <= 1, "the parts are not even");
  if (ranks.rank() != 0) return;
  std::printf("%zu keys sorted, on %d ranks: %s\nkeys by rank, before rebalance() and after:\n",
              sorted.size(), ranks.size(), ranks.describe().c_str());
  for (int each = 0; each < ranks.size(); ++each)
    std::printf("  rank %d: %zu, %zu\n", each, before.size(each), after.size(each));
}

}  // namespace

int main(int count, char** arguments) {
  return run_on_ranks(count, arguments, "sample_sort", 100'000, run);
}
