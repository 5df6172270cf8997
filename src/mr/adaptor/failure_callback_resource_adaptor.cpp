// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>

#include <new>
#include <stdexcept>
#include <utility>

namespace hipvmm::mr {

failure_callback_resource_adaptor::failure_callback_resource_adaptor(memory_resource* upstream,
                                                                     failure_callback_t callback,
                                                                     void* callback_arg)
    : resource_adaptor{"failure_callback_resource_adaptor", upstream},
      callback_{std::move(callback)},
      callback_arg_{callback_arg} {
  if (!callback_)
    throw std::invalid_argument{
        "failure_callback_resource_adaptor: the callback is empty; pass one that says whether to "
        "try again"};
}

void* failure_callback_resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes,
                                                     std::size_t alignment) {
  while (true) {
    try {
      return resource_adaptor::do_allocate(stream, bytes, alignment);
    } catch (const std::bad_alloc&) {
      ask_about(bytes);
    }
  }
}

void* failure_callback_resource_adaptor::do_allocate_sync(std::size_t bytes,
                                                          std::size_t alignment) {
  while (true) {
    try {
      return resource_adaptor::do_allocate_sync(bytes, alignment);
    } catch (const std::bad_alloc&) {
      ask_about(bytes);
    }
  }
}

void failure_callback_resource_adaptor::ask_about(std::size_t bytes) const {
  if (!callback_(bytes, callback_arg_)) throw;
}

}  // namespace hipvmm::mr
