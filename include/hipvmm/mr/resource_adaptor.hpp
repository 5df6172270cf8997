// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// Base class of all adaptors: forwards each call to one upstream resource, which must outlive it.
/// - device() and the accessibility of the memory are those of the upstream. Exception: an adaptor
///   that keeps memory has a device, even if the upstream has none.
/// - Each constructor throws std::invalid_argument when the upstream is nullptr.
/// - Two adaptors are never equal, because each keeps its own records.
class resource_adaptor : public memory_resource {
 public:
  resource_adaptor& operator=(resource_adaptor&&) = delete;

  [[nodiscard]] memory_resource* get_upstream_resource() const noexcept { return upstream_; }

 protected:
  resource_adaptor(const char* name, memory_resource* upstream);

  struct request {
    std::optional<stream_ref> stream;  ///< nullopt for allocate_sync() and deallocate_sync()
    std::size_t bytes;
    std::size_t alignment;

    [[nodiscard]] void* allocate_from(memory_resource& source) const;
    void deallocate_to(memory_resource& source, void* pointer) const noexcept;
  };
  /// Serve calls with and without a stream. An adaptor overrides this pair, or the four functions.
  virtual void* do_allocate_any(const request& wanted);
  virtual void do_deallocate_any(void* pointer, const request& freed) noexcept;

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override {
    return upstream_->device();
  }

 private:
  [[nodiscard]] bool do_is_device_accessible() const noexcept final {
    return upstream_->is_device_accessible();
  }
  [[nodiscard]] bool do_is_host_accessible() const noexcept final {
    return upstream_->is_host_accessible();
  }

  memory_resource* upstream_;
};

/// Returns `resource`. Throws: std::invalid_argument naming `user` when it is nullptr.
memory_resource* require_resource(const char* user, memory_resource* resource);

}  // namespace hipvmm::mr
