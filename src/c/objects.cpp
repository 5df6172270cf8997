// SPDX-License-Identifier: MIT
#include "c/objects.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>

namespace hipvmm::c {

std::mutex& resource_object::bins_mutex() noexcept {
  static std::mutex mutex;
  return mutex;
}

bool resource_object::uses(const resource_object& other) const noexcept {
  return this == &other || (upstream != nullptr && upstream->uses(other)) ||
         std::ranges::any_of(bins, [&](const auto& each) { return each->uses(other); });
}

std::shared_ptr<resource_object> pool_object(device_ref device, const mr::pool_options& options) {
  return std::make_shared<resource_object>(
      "pool", nullptr, std::make_unique<mr::vmm_pool_resource>(device, options));
}

void call_mutex::require_usable() const {
  process_.require_own();
  if (is_of_caller())
    throw bad_argument{
        "the object is in use by the call from which this one comes: a callback may not use it"};
}

void call_mutex::lock() {
  require_usable();
  mutex_.lock();
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

bool call_mutex::try_lock_for(std::chrono::milliseconds patience) {
  require_usable();
  // ThreadSanitizer of Clang 16 reports a timed lock of std as unlocked twice.
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!mutex_.try_lock()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  return true;
}

void call_mutex::unlock() noexcept {
  owner_.store(std::thread::id{}, std::memory_order_relaxed);
  mutex_.unlock();
}

namespace {

struct tag_registry {
  call_mutex mutex;
  std::map<std::string, std::unique_ptr<named_tag>, std::less<>> tags;

  // Never destroyed, because destructors of a program may still use handles.
  static tag_registry& shared() {
    static tag_registry& made = *new tag_registry;
    return made;
  }
};

}  // namespace

named_tag& named_tag::of(const std::string& name) {
  if (name.empty()) throw bad_argument{"the tag has no name"};
  tag_registry& registry = tag_registry::shared();
  const std::lock_guard lock{registry.mutex};
  const auto found = registry.tags.find(name);
  if (found != registry.tags.end()) return *found->second;
  return *registry.tags.emplace(name, std::make_unique<named_tag>(name)).first->second;
}

named_tag& named_tag::find(const char* name) {
  if (name == nullptr) throw bad_argument{"tag is null, and is to name one"};
  tag_registry& registry = tag_registry::shared();
  const std::lock_guard lock{registry.mutex};
  const auto found = registry.tags.find(name);
  if (found != registry.tags.end()) return *found->second;
  std::string known;
  for (const auto& each : registry.tags) known += (known.empty() ? "" : ", ") + each.first;
  throw bad_argument{"nothing was made with the tag '" + std::string{name} +
                     "'; tags: " + (known.empty() ? "none" : known)};
}

void named_tag::forget_ended() {
  std::erase_if(objects_, [](const auto& each) { return each.expired(); });
}

std::vector<std::shared_ptr<call_mutex>> named_tag::alive() {
  std::vector<std::shared_ptr<call_mutex>> found;
  for (const auto& each : objects_)
    if (auto object = each.lock()) found.push_back(std::move(object));
  return found;
}

static_assert(static_cast<int>(access_right::read_write) == HIPVMM_RIGHT_READ_WRITE);

access_right right_of(hipvmm_right right) {
  if (static_cast<unsigned>(right) > HIPVMM_RIGHT_READ_WRITE)
    throw bad_argument{"right is " + std::to_string(static_cast<int>(right)) +
                       ", which is no hipvmm_right"};
  return static_cast<access_right>(right);
}

hipvmm_right right_of(access_right right) noexcept { return static_cast<hipvmm_right>(right); }

access_list list_of(const hipvmm_access* access, std::size_t count) {
  if (access == nullptr && count != 0)
    throw bad_argument{"access is null, and is to have " + std::to_string(count) + " entries"};
  std::vector<access_desc> entries;
  for (std::size_t i = 0; i < count; ++i)
    entries.push_back({device_ref{access[i].device}, right_of(access[i].right)});
  return access_list{std::move(entries)};
}

}  // namespace hipvmm::c
