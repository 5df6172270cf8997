// SPDX-License-Identifier: MIT
#include "ingest_job.hpp"

#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "ingest_copy.hpp"

namespace ingest {
namespace {

class mapped_bytes final : public device_bytes {
 public:
  mapped_bytes(hipvmm::device_ref device, std::size_t max_bytes)
      : vector_{device, options(max_bytes)} {}

  void append(const unsigned char* source, std::size_t bytes, hipvmm::stream_ref stream) override {
    vector_.append(source, bytes, stream);
  }
  const unsigned char* data() const noexcept override { return vector_.data(); }
  std::size_t bytes() const noexcept override { return vector_.size(); }
  growth_figures growth() const noexcept override {
    const hipvmm::growth_statistics done = vector_.statistics();
    // Nothing is copied and nothing moves but on a device without virtual memory management; the
    // test counts HIP's copies.
    return {done.growth_steps, done.chunks, done.copied_bytes, done.base_moves != 0,
            done.peak_bytes};
  }

 private:
  static hipvmm::growth_options options(std::size_t max_bytes) {
    hipvmm::growth_options result;
    result.max_bytes = max_bytes;
    return result;
  }

  hipvmm::growable_device_vector<unsigned char> vector_;
};

std::unique_ptr<unsigned char[]> make_block(std::size_t bytes) {
  try {
    return std::make_unique_for_overwrite<unsigned char[]>(bytes);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error{"no host memory for a block of " + hipvmm::format_bytes(bytes) +
                             "; ask for a smaller one with --block"};
  }
}

class crc32_sum {
 public:
  void add(const unsigned char* data, std::size_t bytes) noexcept {
    value_ = crc32_z(value_, data, bytes);
  }
  friend bool operator==(const crc32_sum& a, const crc32_sum& b) noexcept = default;

 private:
  uLong value_ = crc32_z(0, nullptr, 0);
};

crc32_sum sum_of(const device_bytes& source, hipvmm::stream_ref stream, unsigned char* block,
                 std::size_t block_bytes) {
  crc32_sum sum;
  for (std::size_t offset = 0; offset < source.bytes();) {
    const std::size_t next = std::min(block_bytes, source.bytes() - offset);
    hipvmm::copy(stream, block, source.data() + offset, next);
    sum.add(block, next);
    offset += next;
  }
  return sum;
}

}  // namespace

std::unique_ptr<device_bytes> make_device_bytes(const job& job) {
  if (job.method == growth_method::copy) return make_copied_bytes(job.device);
  return std::make_unique<mapped_bytes>(job.device, job.max_bytes);
}

report run(const job& job, input& source, device_bytes& destination) {
  const hipvmm::stream stream{job.device};
  const auto block = make_block(job.block_bytes);
  crc32_sum sum_read;

  report result;
  const auto start = std::chrono::steady_clock::now();
  while (const std::size_t got = source.read(block.get(), job.block_bytes)) {
    if (job.check) sum_read.add(block.get(), got);
    destination.append(block.get(), got, stream);
    result.bytes += got;
    if (job.on_progress) job.on_progress(result.bytes);
  }
  stream.synchronize();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (job.check)
    result.verified = sum_of(destination, stream, block.get(), job.block_bytes) == sum_read;
  result.growth = destination.growth();
  return result;
}

report run(const job& job, input& source) {
  const auto destination = make_device_bytes(job);
  return run(job, source, *destination);
}

}  // namespace ingest
