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

void* resource_adaptor::request::allocate_from(memory_resource& source) const {
  return stream ? source.allocate(*stream, bytes, alignment)
                : source.allocate_sync(bytes, alignment);
}

void resource_adaptor::request::deallocate_to(memory_resource& source,
                                              void* pointer) const noexcept {
  stream ? source.deallocate(*stream, pointer, bytes, alignment)
         : source.deallocate_sync(pointer, bytes, alignment);
}

void* resource_adaptor::do_allocate_any(const request& wanted) {
  return wanted.allocate_from(*upstream_);
}

void resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  freed.deallocate_to(*upstream_, pointer);
}

void* resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  return do_allocate_any({stream, bytes, alignment});
}

void resource_adaptor::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                     std::size_t alignment) noexcept {
  do_deallocate_any(pointer, {stream, bytes, alignment});
}

void* resource_adaptor::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return do_allocate_any({std::nullopt, bytes, alignment});
}

void resource_adaptor::do_deallocate_sync(void* pointer, std::size_t bytes,
                                          std::size_t alignment) noexcept {
  do_deallocate_any(pointer, {std::nullopt, bytes, alignment});
}

}  // namespace hipvmm::mr
