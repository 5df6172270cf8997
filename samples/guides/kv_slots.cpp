// SPDX-License-Identifier: MIT
// The KV cache of a server in planes: keys and values of each layer have a tensor of slots, a slot
// for each sequence. Sequences begin with the same prompt, get a token a step, all of them by one
// call, and those that were not used for long make room.
#include <hipvmm/container/slot_arena.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <map>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::size_t token_bytes = 4 * hipvmm::KiB;  // in each plane
constexpr std::size_t context_tokens = 2048;
constexpr std::size_t layers = 2;

class kv_slots {
 public:
  kv_slots(hipvmm::device_ref device, std::size_t budget_bytes)
      : arena_{device, options(budget_bytes)} {}

  /// A step of the batch: each sequence gets `tokens` more. One call, and none of HIP if the
  /// blocks are there.
  void step(const std::vector<int>& batch, std::size_t tokens, hipvmm::stream_ref stream) {
    std::vector<std::size_t> slots;
    std::vector<std::size_t> lengths;
    ++now_;
    for (const int id : batch) {
      sequence& one = sequences_.at(id);
      one.used = now_;
      slots.push_back(one.slot);
      lengths.push_back(arena_.length(one.slot) + tokens * token_bytes);
    }
    stream_ = stream;
    arena_.commit(slots, lengths, stream);
    for (std::size_t i = 0; i < slots.size(); ++i)  // stands for the model
      for (std::size_t plane = 0; plane < arena_.planes(); ++plane)
        hipvmm::fill_async(stream, at(slots[i], plane, lengths[i] - token_bytes),
                           static_cast<unsigned char>(batch[i]), token_bytes);
  }

  void begin(int id, hipvmm::stream_ref stream) {
    sequences_[id] = {arena_.acquire(stream), ++now_};
  }
  /// Begins sequences that go on from the tokens of `prompt`, whose whole blocks they share.
  void begin_with(int prompt, const std::vector<int>& ids, hipvmm::stream_ref stream) {
    std::vector<std::size_t> slots;
    for (const int id : ids) {
      begin(id, stream);
      slots.push_back(sequences_[id].slot);
    }
    const std::size_t from = sequences_[prompt].slot;
    arena_.share_prefix(from, slots, arena_.length(from), stream);
  }
  void end(int id, hipvmm::stream_ref stream) {
    arena_.release(sequences_.at(id).slot, stream);  // for others once `stream` has passed this
    sequences_.erase(id);
  }

  [[nodiscard]] const std::map<int, std::size_t> tokens() const {
    std::map<int, std::size_t> result;
    for (const auto& [id, one] : sequences_) result[id] = arena_.length(one.slot) / token_bytes;
    return result;
  }
  [[nodiscard]] bool is_here(int id) const { return sequences_.count(id) != 0; }
  [[nodiscard]] const hipvmm::slot_arena& arena() const { return arena_; }
  [[nodiscard]] void* last_token(int id) const {
    const std::size_t slot = sequences_.at(id).slot;
    return at(slot, arena_.planes() - 1, arena_.length(slot) - token_bytes);
  }

 private:
  struct sequence {
    std::size_t slot = 0;
    int used = 0;
  };

  hipvmm::slot_arena_options options(std::size_t budget_bytes) {
    hipvmm::slot_arena_options result;
    result.slots = 16;
    result.planes = 2 * layers;
    result.bytes_per_slot = context_tokens * token_bytes;
    result.block_bytes = 2 * hipvmm::MiB;
    result.budget_bytes = budget_bytes;
    result.evict = [this](std::size_t) { evict_one(); };
    return result;
  }

  /// Evicts the sequence that was used longest ago, unless it is one of the batch.
  void evict_one() {
    const auto oldest = std::min_element(
        sequences_.begin(), sequences_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (oldest != sequences_.end() && oldest->second.used != now_) end(oldest->first, stream_);
  }

  [[nodiscard]] void* at(std::size_t slot, std::size_t plane, std::size_t bytes) const {
    return static_cast<char*>(arena_.pointer(slot, plane)) + bytes;
  }

  int now_ = 0;
  hipvmm::stream_ref stream_ = hipvmm::stream_ref::legacy_default();
  std::map<int, sequence> sequences_;
  hipvmm::slot_arena arena_;
};

void run(const hipvmm::stream& stream) {
  kv_slots cache{stream.device(), 64 * hipvmm::MiB};
  cache.begin(0, stream);
  cache.step({0}, 600, stream);  // the prompt: more than a block of 512 tokens
  cache.begin_with(0, {1, 2, 3}, stream);
  const auto print = [&] {
    const hipvmm::slot_arena_statistics now = cache.arena().statistics();
    const char* before = "";
    for (const auto& [id, tokens] : cache.tokens()) {
      std::printf("%s%d: %zu", before, id, tokens);
      before = ", ";
    }
    std::printf("\n%zu MiB are needed for %zu MiB of tokens, %zu evicted\n",
                now.needed_bytes / hipvmm::MiB, now.used_bytes / hipvmm::MiB,
                static_cast<std::size_t>(now.evictions));
  };
  print();
  for (int turn = 0; turn < 5; ++turn) cache.step({1, 2}, 100, stream);
  cache.begin(4, stream);
  cache.step({1, 4}, 500, stream);
  print();
  unsigned char last = 0;
  hipvmm::copy(stream, &last, cache.last_token(1), 1);
  if (last != 1 || cache.arena().statistics().held_bytes > 64 * hipvmm::MiB)
    throw std::runtime_error{"the cache holds too much, or not what was put into it"};
}

}  // namespace

int main() {
  try {
    const hipvmm::stream stream{hipvmm::device_ref::current()};
    try {
      run(stream);
    } catch (const hipvmm::unsupported& error) {  // a device without virtual memory
      std::printf("nothing to see here: %s\n", error.what());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_slots: %s\n", error.what());
    return 1;
  }
}
