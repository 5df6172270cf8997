// SPDX-License-Identifier: MIT
// Resources that are wrong on purpose: --check has to see each of them.
#include "tool/replay/replay_checker.hpp"

#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "support/host/host_provider.hpp"
#include "support/test.hpp"
#include "tool/replay/replay_job.hpp"
#include "tool/replay_traces.hpp"

namespace hipvmm::test {
namespace {

/// Hands out the memory of one slab from its start on.
class slab_resource : public scripted_resource {
 protected:
  static constexpr std::size_t slab_bytes = 4 * MiB;

  [[nodiscard]] std::byte* slab() const { return static_cast<std::byte*>(memory_.get()); }
  void* give(stream_ref, std::size_t bytes) override {
    used_ = align_up(used_ + bytes, default_alignment);
    REQUIRE(used_ <= slab_bytes);
    return slab() + align_down(used_ - bytes, default_alignment);
  }

 private:
  device_allocation memory_{device_ref{0}, slab_bytes};
  std::size_t used_ = 0;
};

tool::replay_result checked(mr::memory_resource& resource, const std::string& rows,
                            std::size_t bytes = 64 * KiB) {
  plain_subject subject{resource};
  const tool::replay_options options{.check_bytes = bytes};
  return tool::replay(trace_of(rows), subject, options);
}

void check_found(const tool::replay_result& result, const std::string& row,
                 const std::string& what) {
  REQUIRE(result.failures.count() == 1);
  const std::string& text = result.failures.texts().front().text;
  CAPTURE(text);
  CHECK(text.starts_with(row + ": "));
  CHECK(text.find(what) != std::string::npos);
}

const std::string two_blocks =
    "0,0,allocate,a,100000,0\n"
    "0,1,allocate,b,100000,0\n"
    "0,2,free,a,100000,0\n"
    "0,3,free,b,100000,0\n";

}  // namespace

TEST_CASE("block_checker: a resource that is right passes") {
  slab_resource resource;
  const tool::replay_result result = checked(resource, two_blocks);
  CHECK(result.failures.count() == 0);
  REQUIRE(result.checked.has_value());
  CHECK(result.checked->blocks == 2);
  CHECK(result.checked->bytes == 200000);
  CHECK(result.checked->bytes_looked_at == 2 * 64 * KiB);
}

TEST_CASE("block_checker: sees blocks that overlap, though what is compared does not") {
  // The second starts between the pieces of the first.
  struct overlapping final : slab_resource {
    void* give(stream_ref, std::size_t) override { return slab() + 512 * count_++; }
    std::size_t count_ = 0;
  } resource;
  const tool::replay_result result = checked(resource, two_blocks, 256);
  REQUIRE(result.failures.count() >= 1);
  CHECK(result.failures.texts().front().text.starts_with("row 3: "));
  CHECK(result.failures.texts().front().text.find("overlap with the block of row 2") !=
        std::string::npos);
}

TEST_CASE("block_checker: sees memory that changes while its block is in use") {
  // As when two addresses have the same memory behind them.
  struct scribbling final : slab_resource {
    void* give(stream_ref stream, std::size_t bytes) override {
      if (last_ != nullptr) fill_async(stream, last_ + 70000, 1, 1);
      last_ = static_cast<std::byte*>(slab_resource::give(stream, bytes));
      return last_;
    }
    std::byte* last_ = nullptr;
  } resource;
  check_found(checked(resource, two_blocks, MiB), "row 2", "byte 70000 of the block");
}

TEST_CASE("block_checker: sees a change of every block's first and last byte") {
  for (const std::size_t bytes : {1, 2, 3, 4, 5, 7, 1000, 100001}) {
    for (const std::size_t at : {std::size_t{0}, bytes - 1}) {
      CAPTURE(bytes);
      CAPTURE(at);
      struct scribbling final : slab_resource {
        void* give(stream_ref stream, std::size_t size) override {
          if (first_ != nullptr) fill_async(stream, first_ + at_, 0, 1);
          first_ = static_cast<std::byte*>(slab_resource::give(stream, size));
          return first_;
        }
        std::byte* first_ = nullptr;
        std::size_t at_ = 0;
      } resource;
      resource.at_ = at;
      const std::string size = std::to_string(bytes);
      check_found(checked(resource, "0,0,allocate,a," + size + ",0\n0,1,allocate,b,8,0\n", 256),
                  "row 2", "byte " + std::to_string(at) + " of the block");
    }
  }
}

TEST_CASE("block_checker: sees memory that another stream gets before it is free in the first") {
  // The first stream stands still between the fill of block a and the copy before its free. The
  // freed memory goes to block c in the second stream without waiting for that.
  struct unordered final : slab_resource {
    void* give(stream_ref stream, std::size_t bytes) override {
      switch (++count_) {
        case 1:
          return freed_ = slab_resource::give(stream, bytes);
        case 2:
          stream.synchronize();  // the fill of block a has run
          REQUIRE(hipLaunchHostFunc(stream.get(), wait, &gate_) == hipSuccess);
          return slab_resource::give(stream, bytes);
        case 3:
          return freed_;
        default:
          stream.synchronize();  // the fill of block c has run
          gate_.set_value();
          return slab_resource::give(stream, bytes);
      }
    }
    static void wait(void* gate) { static_cast<std::promise<void>*>(gate)->get_future().wait(); }
    int count_ = 0;
    void* freed_ = nullptr;
    std::promise<void> gate_;
  } resource;
  const unordered_on_purpose silent;
  check_found(checked(resource,
                      "0,0,allocate,a,5000,1\n"
                      "0,1,allocate,b,5000,1\n"
                      "0,2,free,a,5000,1\n"
                      "0,3,allocate,c,5000,2\n"
                      "0,4,allocate,d,5000,2\n"),
              "row 2", "byte 0 of the block");
}

TEST_CASE(
    "block_checker: what it does shows the order checker memory that changes hands too early") {
  const char* const on = std::getenv("HIPVMM_HOST_CHECK");
  if (on == nullptr || std::string_view{on} != "1") {
    MESSAGE("skipped: HIPVMM_HOST_CHECK is not 1");
    return;
  }
  struct unordered final : slab_resource {
    void* give(stream_ref, std::size_t) override { return slab(); }
  } resource;
  static_cast<void>(
      checked(resource, "0,0,allocate,a,5000,1\n0,1,free,a,5000,1\n0,2,allocate,c,5000,2\n"));
  CHECK(hipvmm_host_order_reports() > 0);
  hipvmm_host_clear_order_reports();
}

TEST_CASE("block_checker: a block handed to another stream is checked there in order") {
  slab_resource resource;
  const tool::replay_result result = checked(resource,
                                             "0,0,allocate,a,5000,1\n0,1,allocate,b,5000,2\n"
                                             "0,2,free,a,5000,2\n0,3,free,b,5000,1\n");
  CHECK(result.failures.count() == 0);
  CHECK(hipvmm_host_order_reports() == 0);
}

TEST_CASE("block_checker: no more fills of a stream are in flight than AMD's runtime bears") {
  constexpr std::uint32_t blocks = 3 * tool::block_checker::fills_in_flight;
  constexpr std::size_t bytes = 64;
  tool::replay_failures failures;
  tool::block_checker checker{device_ref{0}, tool::block_checker::default_budget, failures};
  const device_allocation memory{device_ref{0}, blocks * bytes};
  const stream used{device_ref{0}};
  const auto fills = [] {
    return hipvmm_host_call_count("hipMemsetD32Async") + hipvmm_host_call_count("hipMemsetAsync");
  };
  const std::uint64_t fills_before = fills();
  const std::uint64_t waits_before = hipvmm_host_call_count("hipEventSynchronize");
  held_streams held;
  const std::future<void> filled = std::async(std::launch::async, [&] {
    for (std::uint32_t i = 0; i < blocks; ++i)
      checker.fill(used, {static_cast<std::byte*>(memory.get()) + i * bytes, bytes, i, i});
  });
  while (hipvmm_host_call_count("hipEventSynchronize") == waits_before &&
         filled.wait_for(std::chrono::milliseconds{1}) != std::future_status::ready) {
  }
  CHECK(fills() - fills_before <= tool::block_checker::fills_in_flight);
  held.release();
  filled.wait();
  CHECK(fills() - fills_before == blocks);
  used.synchronize();
}

TEST_CASE("block_checker: a block holds another word in the next epoch") {
  // Memory that was never filled does not hold the bytes that an epoch would have filled in.
  struct noting_words final : slab_resource {
    void* give(stream_ref, std::size_t) override { return slab(); }
    void take(stream_ref stream, void* pointer, std::size_t) noexcept override {
      stream.synchronize();
      words.push_back(*static_cast<const std::uint32_t*>(pointer));
    }
    std::vector<std::uint32_t> words;
  } resource;
  plain_subject subject{resource};
  const tool::replay_result result =
      tool::replay(trace_of("0,0,allocate,a,64,0\n0,1,free,a,64,0\n"), subject,
                   tool::replay_options{.check_bytes = 64, .epochs = 2});
  CHECK(result.failures.count() == 0);
  REQUIRE(result.checked.has_value());
  CHECK(result.checked->blocks == 2);
  REQUIRE(resource.words.size() == 2);
  CHECK(resource.words[0] != resource.words[1]);
}

TEST_CASE("block_checker: refuses to look at next to nothing") {
  tool::replay_failures failures;
  CHECK_THROWS_AS((tool::block_checker{device_ref{0}, 63, failures}), std::invalid_argument);
}

}  // namespace hipvmm::test
