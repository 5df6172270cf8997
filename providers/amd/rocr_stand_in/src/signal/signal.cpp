// SPDX-License-Identifier: MIT
#include "src/signal/signal.hpp"

#include <array>
#include <deque>
#include <mutex>
#include <new>

#include <sys/mman.h>

#include "src/base/report.hpp"
#include "src/base/text.hpp"

namespace stand_in {
namespace {

constexpr std::size_t slab_bytes = 1 << 18;
constexpr std::size_t slot_bytes = 128;
static_assert(sizeof(signal) <= slot_bytes);

struct signal_memory {
  std::mutex lock;
  std::array<std::atomic<std::uint64_t>, 4096> slabs{};
  std::size_t slab_count = 0;
  std::deque<void*> unused;  // the one unused for longest serves next
};
signal_memory& the_memory() {
  static auto* made = new signal_memory;
  return *made;
}

}  // namespace

hsa_signal_t create_signal(std::int64_t value) {
  signal_memory& memory = the_memory();
  void* slot = nullptr;
  {
    std::lock_guard guard(memory.lock);
    if (memory.unused.size() < 64) {
      void* slab =
          mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (slab == MAP_FAILED || memory.slab_count == memory.slabs.size()) {
        give_up("no memory for more signals");
      }
      memory.slabs[memory.slab_count++] = address_of(slab);
      for (std::size_t at = 0; at < slab_bytes; at += slot_bytes) {
        memory.unused.push_back(static_cast<char*>(slab) + at);
      }
    }
    slot = memory.unused.front();
    memory.unused.pop_front();
  }
  auto* made = new (slot) signal{};
  made->shared.kind = AMD_SIGNAL_KIND_USER;
  made->shared.value = value;
  return {address_of(made)};
}

void destroy_signal(hsa_signal_t handle) {
  signal_of(handle)->shared.kind = AMD_SIGNAL_KIND_INVALID;
  signal_memory& memory = the_memory();
  std::lock_guard guard(memory.lock);
  memory.unused.push_back(pointer_to(handle.handle));
}

bool is_signal_memory(std::uint64_t address) {
  for (const auto& slab : the_memory().slabs) {
    const std::uint64_t start = slab.load(std::memory_order_relaxed);
    if (start == 0) return false;
    if (address >= start && address - start < slab_bytes) return true;
  }
  return false;
}

std::int64_t load_signal(hsa_signal_t handle) {
  return __atomic_load_n(&signal_of(handle)->shared.value, __ATOMIC_SEQ_CST);
}

bool condition_holds(hsa_signal_condition_t condition, std::int64_t value, std::int64_t compare) {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == compare;
    case HSA_SIGNAL_CONDITION_NE:
      return value != compare;
    case HSA_SIGNAL_CONDITION_LT:
      return value < compare;
    case HSA_SIGNAL_CONDITION_GTE:
      return value >= compare;
  }
  return false;
}

}  // namespace stand_in
