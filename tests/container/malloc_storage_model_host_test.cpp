// SPDX-License-Identifier: MIT
// Memory of a vector on hipMalloc in random use, and beside stream captures.
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream_pool.hpp>
#include "container/container_test.hpp"
#include "container/malloc_storage.hpp"
#include "support/host/host_test.hpp"
#include "support/region/region_contents.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t page = 4096;

/// Memory and its expected contents: by granule, the byte at its beginning and its end. Work of
/// several streams, each behind the one before, is in flight while it changes.
class random_storage {
 public:
  void step() {
    const stream_ref stream = streams_.get_stream(below(generator_, streams_.size()));
    stream.wait(previous_);
    change(stream);
    fill_some(stream);
    previous_.record(stream);
  }

  void compare() {
    REQUIRE(memory_.committed_bytes() == bytes_.size() * unit_);
    REQUIRE(memory_.max_bytes() == limit_ * unit_);
    REQUIRE(memory_.chunk_count() == (bytes_.empty() ? 0 : 1));
    REQUIRE((memory_.base() == nullptr) == bytes_.empty());
    REQUIRE(memory_.rights().get(second_device) ==
            (granted_ ? access_right::read_write : access_right::none));
    const stream& reader = granted_ ? of_peer_ : of_owner_;
    reader.wait(previous_);
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      CAPTURE(i);
      if (bytes_[i] == unwritten) continue;
      const auto expected = byte_vector(page, static_cast<unsigned char>(bytes_[i]));
      REQUIRE(read_bytes(reader, at(i), page) == expected);
      REQUIRE(read_bytes(reader, advance(at(i), unit_ - page), page) == expected);
    }
    drain_retired_memory();
    REQUIRE(hipvmm_host_device_bytes(0) == others_ + bytes_.size() * unit_);
  }

 private:
  static constexpr int unwritten = -1;

  [[nodiscard]] void* at(std::size_t granule) const {
    return advance(memory_.base(), granule * unit_);
  }

  void change(stream_ref stream) {
    const std::size_t first = below(generator_, limit_ + 1);
    const std::size_t count = below(generator_, limit_ - first + 1);
    switch (below(generator_, 8)) {
      case 0:
      case 1:
      case 2:
        memory_.commit(first * unit_, count * unit_);
        if (count != 0) bytes_.resize(std::max(bytes_.size(), first + count), unwritten);
        return;
      case 3:
      case 4:
      case 5: {
        const std::size_t kept = below(generator_, 6) == 0 ? 0 : first;
        const auto how = count % 2 == 0 ? tail_chunk::keep : tail_chunk::replace;
        const bool moves =
            how == tail_chunk::replace && bytes_.size() > kept && bytes_.size() - kept > kept / 8;
        const std::size_t stays =
            kept == 0 || moves ? std::min(kept, bytes_.size()) : bytes_.size();
        REQUIRE(memory_.trim(kept * unit_, stream, how) == (bytes_.size() - stays) * unit_);
        return bytes_.resize(stays);
      }
      case 6:
        if (limit_ >= 12) return;
        limit_ += 2;
        memory_.extend(limit_ * unit_, first * unit_);
        return bytes_.resize(std::max(bytes_.size(), first), unwritten);
      default:
        granted_ = !granted_;
        return granted_ ? memory_.grant(second_device)
                        : memory_.grant(second_device, access_right::none);
    }
  }

  void fill_some(stream_ref stream) {
    if (bytes_.empty()) return;
    for (int turn = 0; turn < 3; ++turn) {
      const std::size_t index = below(generator_, bytes_.size());
      const auto value = static_cast<unsigned char>(below(generator_, 256));
      fill_async(stream, at(index), value, page);
      fill_async(stream, advance(at(index), unit_ - page), value, page);
      bytes_[index] = value;
    }
  }

  std::mt19937 generator_ = seeded_generator();
  // Bytes that HIP did not free because an earlier case made it fail.
  std::size_t others_ = hipvmm_host_device_bytes(0);
  std::size_t unit_ = granule();
  std::size_t limit_ = 6;
  stream_pool streams_{first_device, 3};
  stream of_owner_{first_device};
  stream of_peer_{second_device};
  event previous_;
  detail::malloc_storage memory_{first_device, limit_* unit_};
  std::vector<int> bytes_;
  bool granted_ = false;
};

TEST_CASE("malloc_storage: random calls beside work in flight agree with a model" *
          needs_fallback) {
  random_storage subject;
  for (int step = 0; step < 200; ++step) {
    CAPTURE(step);
    subject.step();
    if (step % 20 == 0) subject.compare();
  }
  subject.compare();
}

class capture {
 public:
  explicit capture(hipStreamCaptureMode mode) {
    REQUIRE(hipStreamBeginCapture(stream_.get(), mode) == hipSuccess);
  }
  ~capture() { end(); }
  capture& operator=(capture&&) = delete;

  /// Whether it was not lost.
  bool end() {
    if (ended_) return false;
    ended_ = true;
    return end_capture_if_kept(stream_.get());
  }

 private:
  stream stream_;
  bool ended_ = false;
};

TEST_CASE("malloc_storage: growth beside a capture is refused and changes nothing" *
          needs_fallback) {
  HIPVMM_SKIP_UNDER(captures_allow_waits);
  const std::size_t unit = granule();
  for (const hipStreamCaptureMode mode :
       {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed}) {
    CAPTURE(mode);
    drain_retired_memory();
    const std::uint64_t before = live_objects().allocations;
    const stream stream;
    detail::malloc_storage memory{first_device, 16 * unit};
    memory.commit(0, 3 * unit);
    write_tags(memory, 0, 3, 1, stream);
    const void* const base = memory.base();
    capture captured{mode};
    CHECK_THROWS_AS(memory.commit(3 * unit, unit), hip_error);
    CHECK(memory.base() == base);
    CHECK(memory.committed_bytes() == 3 * unit);
    CHECK_FALSE(captured.end());
    check_tags(memory, 0, 3, 1, stream);
    drain_retired_memory();
    CHECK(live_objects().allocations == before + 1);
    memory.commit(3 * unit, unit);
    check_tags(memory, 0, 3, 1, stream);
  }
}

TEST_CASE("malloc_storage: a first commit and a trim cost no capture in relaxed mode" *
          needs_fallback) {
  const std::size_t unit = granule();
  const std::uint64_t before = live_objects().allocations;
  const stream stream;
  detail::malloc_storage memory{first_device, 16 * unit};
  capture captured{hipStreamCaptureModeRelaxed};
  hipStreamCaptureMode own = hipStreamCaptureModeRelaxed;
  REQUIRE(hipThreadExchangeStreamCaptureMode(&own) == hipSuccess);
  memory.commit(0, 2 * unit);
  CHECK(memory.trim(0, stream) == 2 * unit);
  drain_retired_memory();
  CHECK(live_objects().allocations == before);
  REQUIRE(hipThreadExchangeStreamCaptureMode(&own) == hipSuccess);
  CHECK(captured.end());
}

}  // namespace
}  // namespace hipvmm::test
