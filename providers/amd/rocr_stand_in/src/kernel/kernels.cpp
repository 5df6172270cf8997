// SPDX-License-Identifier: MIT
#include "src/kernel/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace stand_in {
namespace {

struct state {
  std::mutex lock;
  std::map<std::uint64_t, std::shared_ptr<const kernel>> kernels;
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

}  // namespace

const kernel_argument* kernel::find(const char* argument) const {
  for (const kernel_argument& each : arguments) {
    if (each.name == argument) return &each;
  }
  return nullptr;
}

void add_kernel(std::uint64_t object, std::shared_ptr<const kernel> made) {
  std::lock_guard guard(the_state().lock);
  the_state().kernels[object] = std::move(made);
}

void remove_kernel(std::uint64_t object) {
  std::lock_guard guard(the_state().lock);
  the_state().kernels.erase(object);
}

std::shared_ptr<const kernel> kernel_of(std::uint64_t object) {
  std::lock_guard guard(the_state().lock);
  const auto at = the_state().kernels.find(object);
  return at == the_state().kernels.end() ? nullptr : at->second;
}

std::uint64_t argument_values::bytes_of(const kernel& of) {
  std::uint64_t end = 0;
  for (const kernel_argument& each : of.arguments) end = std::max(end, each.offset + each.bytes);
  return end;
}

std::uint64_t argument_values::number(const char* name) const {
  const kernel_argument* const found = of_.find(name);
  std::uint64_t value = 0;
  if (found == nullptr || found->offset + found->bytes > bytes_.size()) return value;
  std::memcpy(&value, bytes_.data() + found->offset,
              std::min<std::uint64_t>(found->bytes, sizeof value));
  return value;
}

std::uint64_t argument_values::number(const char* name, const char* other) const {
  return has(name) ? number(name) : number(other);
}

std::array<std::uint64_t, 4> argument_values::vector(const char* name) const {
  std::array<std::uint64_t, 4> value{};
  const kernel_argument* const found = of_.find(name);
  if (found == nullptr || found->bytes != sizeof value) return value;
  if (found->offset + found->bytes > bytes_.size()) return value;
  std::memcpy(value.data(), bytes_.data() + found->offset, sizeof value);
  return value;
}

}  // namespace stand_in
