// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// What all adaptors have in common: one upstream, which they do not own and which outlives them,
/// and whose answers about its memory are theirs. An adaptor overrides what it changes; the rest
/// goes to the upstream as it is. Two adaptors are never equal, for each keeps books of its own.
class resource_adaptor : public memory_resource {
 public:
  resource_adaptor(const resource_adaptor&) = delete;
  resource_adaptor& operator=(const resource_adaptor&) = delete;

  /// The resource that the memory comes from; nullptr never.
  [[nodiscard]] memory_resource* get_upstream_resource() const noexcept { return upstream_; }

 protected:
  /// Throws: std::invalid_argument when `upstream` is nullptr; `name` is that of the adaptor.
  resource_adaptor(const char* name, memory_resource* upstream);

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

 private:
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept final;
  [[nodiscard]] bool do_is_device_accessible() const noexcept final;
  [[nodiscard]] bool do_is_host_accessible() const noexcept final;

  memory_resource* upstream_;
};

/// Returns `resource`. Throws: std::invalid_argument naming `user` when it is nullptr.
memory_resource* require_resource(const char* user, memory_resource* resource);

}  // namespace hipvmm::mr
