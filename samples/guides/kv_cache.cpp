// SPDX-License-Identifier: MIT
// The KV cache of a server: a growable vector for each sequence, and sequences that were not used
// for long make room for others. kv_cache MEBIBYTES lets it have that much, 64 by default; if
// the device has less, its refusal evicts too.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <hipvmm/vector.hpp>
#include <list>
#include <stdexcept>
#include <vector>

namespace {

/// Keys and values of one token in all layers of a small model.
struct token_kv {
  unsigned char bytes[64 * hipvmm::KiB];
};

constexpr std::size_t context_tokens = 512;

class kv_cache {
 public:
  kv_cache(hipvmm::device_ref device, std::size_t budget_bytes)
      : device_{device}, budget_bytes_{budget_bytes} {}

  /// Appends tokens to a sequence, which is then the one used last. Evicts others for it.
  void append(int id, const std::vector<token_kv>& tokens, hipvmm::stream_ref stream) {
    use(id);
    hipvmm::growable_device_vector<token_kv>& vector = sequences_.front().tokens;
    while (held_bytes() + tokens.size() * sizeof(token_kv) > budget_bytes_ && evict_one()) {
    }
    for (;;) {
      try {
        return vector.append(tokens, stream);
      } catch (const hipvmm::out_of_memory&) {  // others use the device as well
        if (!evict_one()) throw;
        ++refusals_;
      }
    }
  }

  [[nodiscard]] std::size_t sequences() const { return sequences_.size(); }
  [[nodiscard]] std::size_t evicted() const { return evicted_; }
  [[nodiscard]] std::size_t refusals() const { return refusals_; }
  [[nodiscard]] std::size_t held_bytes() const {
    std::size_t bytes = 0;
    for (const sequence& one : sequences_) bytes += one.tokens.capacity() * sizeof(token_kv);
    return bytes;
  }
  [[nodiscard]] const hipvmm::growable_device_vector<token_kv>& last_used() const {
    return sequences_.front().tokens;
  }

 private:
  struct sequence {
    int id;
    hipvmm::growable_device_vector<token_kv> tokens;
  };

  /// An address for life, so that kernels and tables keep it, and steps of one size, so that the
  /// chunks of an evicted sequence fit the next one.
  static hipvmm::growth_options options() {
    hipvmm::growth_options result;
    result.max_bytes = context_tokens * sizeof(token_kv);
    result.past_max = hipvmm::past_max_size::refuse;
    result.granule_bytes = 2 * hipvmm::MiB;
    result.step_limit = 0;  // no more than is asked for
    return result;
  }

  /// Evicts the sequence that was used longest ago, if it is not the one in use.
  bool evict_one() {
    if (sequences_.size() < 2) return false;
    sequences_.pop_back();  // its memory is released when the work that uses it is done
    ++evicted_;
    return true;
  }

  /// Makes a sequence the first of the list; a new one if there is none.
  void use(int id) {
    for (auto at = sequences_.begin(); at != sequences_.end(); ++at)
      if (at->id == id) return sequences_.splice(sequences_.begin(), sequences_, at);
    sequences_.push_front({id, hipvmm::growable_device_vector<token_kv>{device_, options()}});
  }

  hipvmm::device_ref device_;
  std::size_t budget_bytes_;
  std::list<sequence> sequences_;  // the one used last first
  std::size_t evicted_ = 0;
  std::size_t refusals_ = 0;
};

void run(std::size_t budget_bytes) {
  const hipvmm::stream stream{hipvmm::device_ref::current()};
  kv_cache cache{stream.device(), budget_bytes};
  std::vector<token_kv> tokens(32);  // 2 MiB
  for (int turn = 0; turn < 75; ++turn) {
    for (token_kv& token : tokens) token.bytes[0] = static_cast<unsigned char>(turn);
    cache.append(turn % 5 == 0 ? 0 : 1 + turn / 10, tokens, stream);  // 0 goes on
  }
  const hipvmm::chunk_cache_statistics chunks = hipvmm::chunk_cache::shared().statistics();
  std::printf("%zu sequences are here, %zu were evicted; %zu MiB held\n", cache.sequences(),
              cache.evicted(), cache.held_bytes() / hipvmm::MiB);
  std::printf("the device refused %s; chunks were %s\n", cache.refusals() == 0 ? "nothing" : "some",
              chunks.hits > 0 ? "used again" : "made anew each time");
  if (cache.held_bytes() > budget_bytes || cache.evicted() == 0 ||
      cache.last_used().back_element(stream).bytes[0] != 74)
    throw std::runtime_error{"the cache holds too much, or not what was put into it"};
}

/// If one sequence alone does not fit, nothing is left to evict.
void fill_beyond_context(hipvmm::stream_ref stream) {
  kv_cache cache{hipvmm::device_ref::current(), hipvmm::GiB};
  const std::vector<token_kv> tokens(context_tokens / 4);
  try {
    for (int part = 0; part < 5; ++part) cache.append(0, tokens, stream);
  } catch (const std::length_error& error) {
    std::printf("%s\n", error.what());
  } catch (const hipvmm::out_of_memory& error) {
    std::printf("%s\n", error.what());
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run((count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 64) * hipvmm::MiB);
    fill_beyond_context(hipvmm::stream{});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_cache: %s\n", error.what());
    return 1;
  }
}
