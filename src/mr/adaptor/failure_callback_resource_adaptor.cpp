// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>

#include <new>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/error.hpp"

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

void* failure_callback_resource_adaptor::do_allocate_any(const request& wanted) {
  for (detail::retry_rounds rounds;;) {
    try {
      return resource_adaptor::do_allocate_any(wanted);
    } catch (const out_of_memory& refused) {
      if (!rounds.may_help(refused.why()) || !callback_(wanted.bytes, callback_arg_)) throw;
    } catch (const std::bad_alloc&) {
      if (!callback_(wanted.bytes, callback_arg_)) throw;
    }
  }
}

}  // namespace hipvmm::mr
