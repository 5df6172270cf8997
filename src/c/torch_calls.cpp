// SPDX-License-Identifier: MIT
// The functions that PyTorch calls, by the names in torch.h.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/hipvmm.h>
#include <hipvmm/torch.h>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/access.hpp>
#include "c/configured_budget.hpp"
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"
#include "c/torch_error.hpp"
#include "c/torch_pool.hpp"
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"

namespace hipvmm::c {
namespace {

// As many as PyTorch has room for (C10_COMPILE_TIME_MAX_GPUS).
constexpr std::size_t most_devices = 120;
constexpr std::size_t most_tags = 8;

/// The pools live as long as the process, because tensors of static objects end last.
struct torch_pools {
  std::array<std::atomic<torch_pool*>, most_devices> made{};
  std::mutex mutex;
  std::atomic<bool> is_used{false};
  // A child of fork() has no memory of its parent, and locks may belong to threads it lacks.
  std::atomic<bool> is_in_child{false};
  std::atomic<named_tag*> tag{nullptr};

  using numbered = std::array<torch_pools, 1 + most_tags>;

  /// The first has no tag. The index of each other one is the number of its tag.
  static numbered& all() {
    static numbered& made = []() -> numbered& {
      auto& pools = *new numbered;
      static_cast<void>(::pthread_atfork(nullptr, nullptr, [] {
        for (torch_pools& each : all()) each.leave();
      }));
      return pools;
    }();
    return made;
  }
  /// A child of a process that has not used its pools may have its own.
  void leave() noexcept {
    if (is_used) is_in_child = true;
  }
  [[nodiscard]] torch_pool* find(int device) const noexcept {
    if (is_in_child.load(std::memory_order_relaxed)) return nullptr;
    if (device < 0 || static_cast<std::size_t>(device) >= most_devices) return nullptr;
    return made[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  }
  [[nodiscard]] torch_pool& get(int device) {
    if (torch_pool* const found = find(device)) return *found;
    if (is_in_child)
      throw std::runtime_error{
          "hipvmm as PyTorch's allocator: this is a child of fork() of a process that has used it, "
          "and cannot use devices; start it by spawn or forkserver"};
    const device_ref owner = c::device_of(device);
    std::atomic<torch_pool*>& entry = made.at(static_cast<std::size_t>(device));
    is_used = true;
    const detail::callbacks_wait until_unlocked;  // callbacks may allocate
    const std::lock_guard lock{mutex};
    if (torch_pool* const found = entry) return *found;
    mr::pool_options options = pool_settings(owner, nullptr);
    if (options.access.entries().empty()) options.access = all_reachable_peers(owner);
    if (const named_tag* const chosen = tag) options.tag = chosen->get();
    join_configured_budget(owner, configured_budget(owner));
    entry = std::make_unique<torch_pool>(owner, options).release();
    return *entry;
  }
  /// Null for memory of no pool. PyTorch names no device when it records a stream.
  [[nodiscard]] torch_pool* owner_of(const void* pointer) {
    torch_pool* owner = nullptr;
    for_each([&](torch_pool& each) {
      if (each.pool().contains(pointer)) owner = &each;
    });
    return owner;
  }
  template <typename Body>
  void for_each(Body body) {
    if (is_in_child) return;
    for (const std::atomic<torch_pool*>& each : made)
      if (torch_pool* const found = each) body(*found);
  }
};

torch_pools& pools(std::size_t number = 0) { return torch_pools::all()[number]; }

void* allocate(torch_pools& from, std::size_t bytes, int device, void* stream) {
  if (bytes == 0) return nullptr;
  torch_pool& pool = from.get(device);
  try {
    return pool.allocate(bytes, stream_of(stream));
  } catch (const out_of_memory& full) {
    throw_torch_out_of_memory(std::string{full.what()} + "\n" + pool.pool().report());
    throw;
  }
}

void deallocate(torch_pools& to, void* pointer, std::size_t bytes, int device, void* stream) {
  if (pointer == nullptr) return;
  if (torch_pool* const owner = to.find(device)) {
    detail::report_exceptions([&] { owner->deallocate(pointer, bytes, stream_of(stream)); });
  } else if (!to.is_in_child) {
    detail::warn("hipvmm_torch_free", "an allocation of device " + std::to_string(device) +
                                          " is freed, and none was made there: nothing was done");
  }
}

void* allocate_tagged(std::size_t number, std::size_t bytes, int device, void* stream) {
  if (pools(number).tag == nullptr)
    throw std::logic_error{"hipvmm_torch_alloc_" + std::to_string(number) +
                           ": no tag has this number: call hipvmm_torch_tag first"};
  return allocate(pools(number), bytes, device, stream);
}

}  // namespace
}  // namespace hipvmm::c

using namespace hipvmm;
using namespace hipvmm::c;

extern "C" {

void* hipvmm_torch_alloc(size_t bytes, int device, void* stream) {
  return allocate(pools(), bytes, device, stream);
}

void hipvmm_torch_free(void* pointer, size_t bytes, int device, void* stream) {
  deallocate(pools(), pointer, bytes, device, stream);
}

hipvmm_status hipvmm_torch_tag(const char* tag, int* number) {
  return guarded(__func__, [&] {
    int& result = out(number, "number");
    if (tag == nullptr) throw bad_argument{"tag is null, and is to name one"};
    named_tag& chosen = named_tag::of(tag);
    for (std::size_t each = 1; each <= most_tags; ++each) {
      named_tag* taken = nullptr;
      if (!pools(each).tag.compare_exchange_strong(taken, &chosen) && taken != &chosen) continue;
      result = static_cast<int>(each);
      return;
    }
    throw std::out_of_range{"hipvmm_torch_tag: " + std::to_string(most_tags) +
                            " other tags have pools already: use one of these, not '" +
                            std::string{tag} + "'"};
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): it defines functions
#define HIPVMM_TAGGED(number)                                                              \
  void* hipvmm_torch_alloc_##number(size_t bytes, int device, void* stream) {              \
    return allocate_tagged(number, bytes, device, stream);                                 \
  }                                                                                        \
  void hipvmm_torch_free_##number(void* pointer, size_t bytes, int device, void* stream) { \
    deallocate(pools(number), pointer, bytes, device, stream);                             \
  }
// NOLINTEND(bugprone-macro-parentheses)
HIPVMM_TAGGED(1)
HIPVMM_TAGGED(2)
HIPVMM_TAGGED(3)
HIPVMM_TAGGED(4)
HIPVMM_TAGGED(5)
HIPVMM_TAGGED(6)
HIPVMM_TAGGED(7)
HIPVMM_TAGGED(8)
#undef HIPVMM_TAGGED

void hipvmm_torch_record_stream(void* pointer, void* stream) {
  if (pointer == nullptr) return;
  if (torch_pool* const owner = pools().owner_of(pointer))
    owner->record_stream(pointer, stream_of(stream));
}

void hipvmm_torch_erase_stream(void* pointer, void* stream) {
  if (pointer == nullptr) return;
  if (torch_pool* const owner = pools().owner_of(pointer))
    detail::report_exceptions([&] { owner->erase_stream(pointer, stream_of(stream)); });
}

void hipvmm_torch_reset(void) {
  for (torch_pools& each : torch_pools::all())
    each.for_each(
        [](torch_pool& pool) { detail::report_exceptions([&] { pool.release_idle(); }); });
}

void hipvmm_torch_memory_fraction(double fraction, int device) {
  if (!(fraction >= 0))
    throw bad_argument{"hipvmm_torch_memory_fraction: the fraction " + std::to_string(fraction) +
                       " is not allowed; pass at least 0"};
  const double total = static_cast<double>(c::device_of(device).total_memory());
  // The greatest factor only keeps the product within a size: it limits nothing.
  pools().get(device).set_limit(static_cast<std::size_t>(std::min(fraction, 1000.0) * total));
}

hipvmm_status hipvmm_torch_pool(int device, hipvmm_resource* pool) {
  return create(__func__, pool, "pool", [&] {
    return std::make_shared<resource_object>("pool", pools().get(device).pool());
  });
}

hipvmm_status hipvmm_torch_get_statistics(int device, hipvmm_torch_statistics* statistics) {
  return guarded(__func__, [&] {
    static_cast<void>(c::device_of(device));
    const torch_pool* const found = pools().find(device);
    copy_struct(statistics, found == nullptr ? hipvmm_torch_statistics{} : found->statistics(),
                "statistics");
  });
}

hipvmm_status hipvmm_torch_reset_peaks(int device) {
  return guarded(__func__, [&] {
    static_cast<void>(c::device_of(device));
    if (torch_pool* const found = pools().find(device)) found->reset_peaks();
  });
}

void hipvmm_torch_begin_allocate_to_pool(int device,
                                         std::pair<unsigned long long, unsigned long long> id,
                                         std::function<bool(ihipStream_t*)> filter) {
  pools().get(device).begin_graphs(id, std::move(filter));
}

void hipvmm_torch_end_allocate_to_pool(int device,
                                       std::pair<unsigned long long, unsigned long long> id) {
  if (torch_pool* const owner = pools().find(device)) owner->end_graphs(id);
}

void hipvmm_torch_release_pool(int device, std::pair<unsigned long long, unsigned long long> id) {
  if (torch_pool* const owner = pools().find(device)) owner->release_graphs(id);
}
}
