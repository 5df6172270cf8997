// SPDX-License-Identifier: MIT
// The cost to pin memory of the host: by hipHostMalloc, and as sleep_storage::pinned does,
// which registers pages that several threads have touched.
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "bench/sharing/raw_memory.hpp"
#include "halves.hpp"
#include "raw_sleep.hpp"
#include "sleep_scenarios.hpp"

namespace bench {
namespace {

constexpr std::size_t most_threads = 8;

/// Pages of the system, large ones if it has them, all faulted.
class faulted_pages {
 public:
  explicit faulted_pages(std::size_t bytes) : bytes_{bytes} {
    start_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED) throw std::bad_alloc{};
    static_cast<void>(::madvise(start_, bytes_, MADV_HUGEPAGE));
    const std::size_t count =
        std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most_threads);
    const std::size_t part = hipvmm::align_up(bytes_ / count + 1, 2 * hipvmm::MiB);
    std::vector<std::thread> threads;
    for (std::size_t from = 0; from < bytes_; from += part)
      threads.emplace_back([this, from, end = std::min(bytes_, from + part)] {
        constexpr std::size_t page = 4 * hipvmm::KiB;
        for (std::size_t at = from; at < end; at += page)
          static_cast<volatile char*>(start_)[at] = 0;
      });
    for (std::thread& each : threads) each.join();
  }
  ~faulted_pages() { ::munmap(start_, bytes_); }
  faulted_pages(const faulted_pages&) = delete;
  faulted_pages& operator=(const faulted_pages&) = delete;
  [[nodiscard]] void* get() const noexcept { return start_; }

 private:
  std::size_t bytes_;
  void* start_;
};

}  // namespace

std::vector<measurement> measure_pinning(const settings& chosen, const sleep_shape& shape) {
  const std::size_t bytes = std::min(shape.bytes, 4 * hipvmm::GiB);
  std::unique_ptr<raw_pinned> allocated;
  std::unique_ptr<faulted_pages> pages;
  return measure_halves("free pinned memory", "pin memory", bytes,
                        {{"hipHostMalloc", 1, 1,
                          [&](memory_probe*) {
                            return cycle([&] { allocated = std::make_unique<raw_pinned>(bytes); },
                                         [&] { allocated.reset(); });
                          }},
                         {"faulted by threads, hipHostRegister", 1, 1,
                          [&](memory_probe*) {
                            return cycle(
                                [&] {
                                  pages = std::make_unique<faulted_pages>(bytes);
                                  require(
                                      hipHostRegister(pages->get(), bytes, hipHostRegisterPortable),
                                      "hipHostRegister");
                                },
                                [&] {
                                  require(hipHostUnregister(pages->get()), "hipHostUnregister");
                                  pages.reset();
                                });
                          }}},
                        chosen);
}

}  // namespace bench
