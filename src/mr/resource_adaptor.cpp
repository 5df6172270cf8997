// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource_adaptor.hpp>

#include <stdexcept>
#include <string>

namespace hipvmm::mr {

memory_resource* require_resource(const char* user, memory_resource* resource) {
  if (resource == nullptr)
    throw std::invalid_argument{std::string{user} +
                                ": the resource is nullptr; pass one that outlives it, such as "
                                "mr::get_current_device_resource()"};
  return resource;
}

resource_adaptor::resource_adaptor(const char* name, memory_resource* upstream)
    : upstream_{require_resource(name, upstream)} {
  keep_to_process();
}

void* resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  return upstream_->allocate(stream, bytes, alignment);
}

void resource_adaptor::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                     std::size_t alignment) noexcept {
  upstream_->deallocate(stream, pointer, bytes, alignment);
}

void* resource_adaptor::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return upstream_->allocate_sync(bytes, alignment);
}

void resource_adaptor::do_deallocate_sync(void* pointer, std::size_t bytes,
                                          std::size_t alignment) noexcept {
  upstream_->deallocate_sync(pointer, bytes, alignment);
}

std::optional<device_ref> resource_adaptor::do_device() const noexcept {
  return upstream_->device();
}

bool resource_adaptor::do_is_device_accessible() const noexcept {
  return upstream_->is_device_accessible();
}

bool resource_adaptor::do_is_host_accessible() const noexcept {
  return upstream_->is_host_accessible();
}

}  // namespace hipvmm::mr
