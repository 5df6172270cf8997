// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/callback_resource.hpp>

#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "mr/resource/misaligned.hpp"
#include "mr/stream_wait.hpp"

namespace hipvmm::mr {

callback_resource::callback_resource(allocate_callback_t allocate, deallocate_callback_t deallocate,
                                     void* allocate_args, void* deallocate_args,
                                     deallocate_sync_callback_t deallocate_sync)
    : allocate_{std::move(allocate)},
      deallocate_{std::move(deallocate)},
      deallocate_sync_{std::move(deallocate_sync)},
      allocate_args_{allocate_args},
      deallocate_args_{deallocate_args} {
  if (!allocate_ || !deallocate_)
    throw std::invalid_argument{std::string{"callback_resource: the callback to "} +
                                (allocate_ ? "deallocate" : "allocate") +
                                " is empty; pass a function"};
  keep_to_process();
}

void* callback_resource::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  void* const pointer = allocate_(bytes, stream, allocate_args_);
  if (pointer == nullptr)
    throw out_of_memory{exhausted::device_memory, sync_stream_.device().ordinal(), bytes,
                        sync_stream_.device().free_memory(),
                        "callback_resource: the callback gave nullptr"};
  if (detail::is_aligned(pointer, alignment)) return pointer;
  do_deallocate(stream, pointer, bytes, alignment);
  detail::throw_misaligned("callback_resource", "the callback", alignment);
}

void callback_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                      std::size_t) noexcept {
  detail::report_exceptions([&] { deallocate_(pointer, bytes, stream, deallocate_args_); });
}

void* callback_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return detail::allocate_and_wait(*this, sync_stream_, bytes, alignment);
}

void callback_resource::do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept {
  detail::report_exceptions([&] {
    if (deallocate_sync_) return deallocate_sync_(pointer, bytes, deallocate_args_);
    detail::wait_for_users(pointer, detail::all_devices());
    deallocate_(pointer, bytes, sync_stream_, deallocate_args_);
  });
}

}  // namespace hipvmm::mr
