// SPDX-License-Identifier: MIT
// The dispatch of a mixture of experts: each token goes to the two experts that its gate chooses,
// which are on ranks, and their results come back and are added up. How many tokens an
// expert gets is known only when they come: exchange() appends them to a vector that grows, and
// takes them back by the counts that it returned. The result is compared with that of one rank.
//   token_dispatch --ranks threads:4 --size 2000   (so many tokens on each rank)
#include <cmath>
#include <cstdio>
#include <hipvmm/hipvmm.hpp>
#include <vector>

#include "buckets.hpp"
#include "run_ranks.hpp"

namespace {

constexpr unsigned width = 32;           // of a token's vector
constexpr unsigned experts_of_rank = 4;  // beside each other
constexpr unsigned choices = 2;          // experts for each token

/// A token on its way to an expert, and back.
struct message {
  unsigned slot;  // choices * its number on its own rank + which choice
  unsigned expert;
  float weight;
  float values[width];
};

/// A token's vector.
struct token {
  float values[width];
};

HIPVMM_HOST_DEVICE inline float first_value(std::uint64_t number, unsigned which) {
  return static_cast<float>(mixed(number * width + which) % 1000) / 1000;
}

/// The gate. Small experts get more tokens than others.
HIPVMM_HOST_DEVICE inline unsigned chosen(std::uint64_t number, unsigned which, unsigned experts) {
  const std::uint64_t random = mixed(number * choices + which + 1) % experts;
  return static_cast<unsigned>(random * random / experts);
}
HIPVMM_HOST_DEVICE inline float weight(std::uint64_t number, unsigned which) {
  const float first = first_value(number, width);
  return which == 0 ? first : 1 - first;
}

/// An expert's result for a value.
HIPVMM_HOST_DEVICE inline float applied(unsigned expert, float value) {
  return value * static_cast<float>(expert + 1) + static_cast<float>(expert % 3);
}

/// The work of a thread for a token and one of its choices: writes the message.
struct route {
  message* messages;
  std::uint64_t first;  // number of this rank's first token
  unsigned experts;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    const std::uint64_t number = first + index / choices;
    const auto which = static_cast<unsigned>(index % choices);
    message& to = messages[index];
    to.slot = static_cast<unsigned>(index);
    to.expert = chosen(number, which, experts);
    to.weight = weight(number, which);
    for (unsigned i = 0; i < width; ++i) to.values[i] = first_value(number, i);
  }
};

struct rank_of_expert {
  HIPVMM_HOST_DEVICE unsigned operator()(const message& of) const {
    return of.expert / experts_of_rank;
  }
};

/// Runs the expert for a message.
struct run_expert {
  message* messages;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    message& own = messages[index];
    for (float& each : own.values) each = applied(own.expert, each) * own.weight;
  }
};

/// Puts each result at its place.
struct take_back {
  const message* messages;
  token* slots;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    token& to = slots[messages[index].slot];
    for (unsigned i = 0; i < width; ++i) to.values[i] = messages[index].values[i];
  }
};

/// Adds up the choices of a token.
struct combine {
  const token* slots;
  token* results;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    for (unsigned i = 0; i < width; ++i) {
      float sum = 0;
      for (unsigned which = 0; which < choices; ++which)
        sum += slots[choices * index + which].values[i];
      results[index].values[i] = sum;
    }
  }
};

/// The vectors of a layer, whose memory grows to the need of the largest batch.
struct layer {
  explicit layer(hipvmm::communicator& of) : ranks{of}, routed{of} {}

  hipvmm::communicator& ranks;
  hipvmm::stream stream;
  hipvmm::growable_device_vector<message> made;
  buckets<message> routed;
  hipvmm::growable_device_vector<message> at_experts;
  hipvmm::growable_device_vector<message> returned;
  hipvmm::growable_device_vector<token> slots;
  hipvmm::growable_device_vector<token> results;
};

/// Sends `count` tokens, whose first has the number `first`, through the experts of all ranks.
/// Returns how many came to those of this rank.
std::size_t forward(layer& own, std::uint64_t first, std::size_t count) {
  const hipvmm::stream_ref stream = own.stream;
  const auto experts = static_cast<unsigned>(own.ranks.size()) * experts_of_rank;
  own.made.resize_uninitialized(choices * count);
  launch(choices * count, route{own.made.data(), first, experts}, stream, {writes(own.made)});
  own.routed.fill(own.made, rank_of_expert{}, stream);

  // [token-dispatch]
  own.at_experts.clear();  // its memory stays
  const auto came =
      exchange(own.routed.items(), own.routed.counts(), own.at_experts, own.ranks, stream);
  launch(own.at_experts.size(), run_expert{own.at_experts.data()}, stream,
         {writes(own.at_experts)});
  own.returned.clear();
  exchange(own.at_experts, came.counts, own.returned, own.ranks, stream);
  // [token-dispatch-end]

  require(own.returned.size() == choices * count, "not all tokens came back");
  own.slots.resize_uninitialized(choices * count);
  own.results.resize_uninitialized(count);
  launch(own.returned.size(), take_back{own.returned.data(), own.slots.data()}, stream,
         {reads(own.returned), writes(own.slots)});
  launch(count, combine{own.slots.data(), own.results.data()}, stream,
         {reads(own.slots), writes(own.results)});
  return own.at_experts.size();
}

/// Compares the results with those of one rank.
void check(layer& own, std::uint64_t first) {
  const auto experts = static_cast<unsigned>(own.ranks.size()) * experts_of_rank;
  const std::vector<token> results = own.results.copy_to_host(own.stream);
  for (std::size_t index = 0; index < results.size(); ++index)
    for (unsigned i = 0; i < width; ++i) {
      float expected = 0;
      for (unsigned which = 0; which < choices; ++which)
        expected += applied(chosen(first + index, which, experts), first_value(first + index, i)) *
                    weight(first + index, which);
      // Kernels may round a multiplication and an addition at once.
      require(std::abs(results[index].values[i] - expected) <= 1e-5F * (1 + std::abs(expected)),
              "a token has a wrong value");
    }
}

void run(hipvmm::communicator& ranks, std::size_t size) {
  layer own{ranks};
  std::uint64_t first = static_cast<std::uint64_t>(ranks.rank()) << 32;
  for (const std::size_t count : {size / 2, size, size / 4}) {
    const std::size_t came = forward(own, first, count);
    check(own, first);
    first += count;
    std::vector<std::size_t> loads(static_cast<std::size_t>(ranks.size()));
    ranks.all_gather(&came, loads.data(), sizeof came);
    if (ranks.rank() != 0) continue;
    std::printf("%zu tokens of each rank; at the experts of the ranks:", count);
    for (const std::size_t each : loads) std::printf(" %zu", each);
    std::printf("\n");
  }
  if (ranks.rank() != 0) return;
  std::printf("all combined as on one rank, on %d ranks: %s\n", ranks.size(),
              ranks.describe().c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return run_on_ranks(count, arguments, "token_dispatch", 2000, run);
}
