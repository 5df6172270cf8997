// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::test {

/// Gives addresses that are multiples of 256 and of nothing more, with no memory behind them.
class paper_resource final : public mr::memory_resource {
 public:
  [[nodiscard]] std::size_t bytes_out() const noexcept { return bytes_out_; }
  [[nodiscard]] std::size_t last_bytes() const noexcept { return last_bytes_; }

 private:
  void* do_allocate(stream_ref, std::size_t bytes, std::size_t alignment) override {
    return do_allocate_sync(bytes, alignment);
  }
  void do_deallocate(stream_ref, void*, std::size_t bytes, std::size_t) noexcept override {
    bytes_out_ -= bytes;
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override {
    if (bytes > TiB || alignment > default_alignment) throw std::bad_alloc{};
    last_bytes_ = bytes;
    bytes_out_ += bytes;
    const std::uintptr_t given = next_;
    next_ = align_up(given + bytes, 512) + 256;
    return reinterpret_cast<void*>(given);
  }
  void do_deallocate_sync(void*, std::size_t bytes, std::size_t) noexcept override {
    bytes_out_ -= bytes;
  }

  std::uintptr_t next_ = GiB + 256;
  std::size_t bytes_out_ = 0;
  std::size_t last_bytes_ = 0;
};

}  // namespace hipvmm::test
