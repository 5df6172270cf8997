// SPDX-License-Identifier: MIT
#include "c/objects.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>

namespace hipvmm::c {

std::mutex& resource_object::bins_mutex() noexcept {
  static std::mutex mutex;
  return mutex;
}

// Deep as the program has nested its resources; without circles it ends.
bool resource_object::uses(const resource_object& other) const noexcept {
  return this == &other || (upstream != nullptr && upstream->uses(other)) ||
         std::any_of(bins.begin(), bins.end(), [&](const auto& each) { return each->uses(other); });
}

void call_mutex::lock() {
  if (process_.is_of_parent())
    throw unsupported{
        "a child of fork() cannot use what its parent has made: start a new program instead, or "
        "fork before the first call of HIP"};
  if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id())
    throw bad_argument{
        "the object is in use by the call from which this one comes: a callback or an error "
        "handler may not use it"};
  mutex_.lock();
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void call_mutex::unlock() noexcept {
  owner_.store(std::thread::id{}, std::memory_order_relaxed);
  mutex_.unlock();
}

access_right right_of(hipvmm_right right) {
  switch (right) {
    case HIPVMM_RIGHT_NONE:
      return access_right::none;
    case HIPVMM_RIGHT_READ:
      return access_right::read;
    case HIPVMM_RIGHT_READ_WRITE:
      return access_right::read_write;
  }
  throw bad_argument{"right is " + std::to_string(static_cast<int>(right)) +
                     ", which is no hipvmm_right"};
}

hipvmm_right right_of(access_right right) noexcept {
  switch (right) {
    case access_right::none:
      return HIPVMM_RIGHT_NONE;
    case access_right::read:
      return HIPVMM_RIGHT_READ;
    case access_right::read_write:
      return HIPVMM_RIGHT_READ_WRITE;
  }
  return HIPVMM_RIGHT_NONE;
}

access_list list_of(const hipvmm_access* access, std::size_t count) {
  if (access == nullptr && count != 0)
    throw bad_argument{"access is null, and is to have " + std::to_string(count) + " entries"};
  std::vector<access_desc> entries;
  for (std::size_t i = 0; i < count; ++i)
    entries.push_back({device_ref{access[i].device}, right_of(access[i].right)});
  return access_list{std::move(entries)};
}

}  // namespace hipvmm::c
