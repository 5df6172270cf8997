// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/mapping.hpp>

#include <new>
#include <source_location>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "core/error.hpp"
#include "core/observers/memory_events.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "runtime/pointer_memory.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/unmap_range.hpp"

namespace hipvmm {

namespace {

bool has_no_right(const void* address, device_ref device) {
  access_right found{};
  const auto ask = [&] { found = get_access(address, device); };
  return !detail::refusal_of(hipErrorInvalidValue, ask) && found == access_right::none;
}

[[noreturn]] void throw_refused_map(hipError_t result, const void* address,
                                    const physical_chunk& chunk,
                                    std::source_location where = std::source_location::current()) {
  std::string text = "a chunk of " + std::to_string(chunk.bytes()) + " bytes of device " +
                     std::to_string(chunk.device().ordinal()) + " was to be mapped at " +
                     detail::address_text(address);
  const void* const last = static_cast<const char*>(address) + (chunk.bytes() - 1);
  for (const void* each : {address, last}) {
    if (!detail::device_of_memory(each)) continue;
    text += "; " + detail::address_text(each) +
            " is mapped already: unmap what is there first, or use other addresses";
    break;
  }
  detail::throw_failure(result, "hipMemMap", text, where);
}

void report_mapping(memory_event_kind kind, int device, const void* address,
                    std::size_t bytes) noexcept {
  detail::report_event({memory_event_source::mapping, 0, device}, kind,
                       {.address = detail::event_address(address), .bytes = bytes});
}

class refused_mapping final : public detail::refused_end {
 public:
  explicit refused_mapping(mapping&& refused) noexcept
      : first_{static_cast<const char*>(refused.get())},
        bytes_{refused.bytes()},
        map_{std::move(refused)} {}

 private:
  bool end(bool /*reports*/) noexcept override {
    try {
      map_.unmap();
    } catch (...) {
    }
    return map_.empty();
  }
  [[nodiscard]] bool maps(const void* address, std::size_t bytes) const noexcept override {
    const auto* const from = static_cast<const char*>(address);
    return first_ < from + bytes && from < first_ + bytes_;
  }

  // Read by other threads while end() changes the mapping.
  const char* const first_;
  const std::size_t bytes_;
  mapping map_;
};

}  // namespace

class detail::registration {
 public:
  registration(std::shared_ptr<memory_registrar> with, const mapped_memory& what)
      : registrar_{std::move(with)}, memory_{what} {}
  ~registration() { remove(); }
  registration& operator=(registration&&) = delete;

  void add() {
    registrar_->add(memory_);
    is_added_ = true;
  }
  void remove() noexcept {
    if (std::exchange(is_added_, false) && !process_.is_of_parent()) registrar_->remove(memory_);
  }

 private:
  std::shared_ptr<memory_registrar> registrar_;
  mapped_memory memory_;
  bool is_added_ = false;
  owner_process process_;
};

bool detail::is_freshly_mapped(const void* address, device_ref owner) {
  try {
    return has_no_right(address, owner);
  } catch (const hip_error&) {
    // The failure says nothing about the mapping, so HIP is asked once more.
    return has_no_right(address, owner);
  }
}

mapping::mapping(const address_reservation& reservation, std::size_t offset,
                 const physical_chunk& chunk, map_check check) {
  if (chunk.empty())
    throw std::invalid_argument{"a mapping of an empty chunk: create or import one first"};
  chunk.process_.require_own();
  reservation.process_.require_own();
  if (offset > reservation.bytes() || chunk.bytes() > reservation.bytes() - offset)
    throw std::invalid_argument{
        "a mapping of " + std::to_string(chunk.bytes()) + " bytes at offset " +
        std::to_string(offset) + " exceeds its reservation of " +
        std::to_string(reservation.bytes()) + " bytes: map it within, or reserve more"};
  void* const address = static_cast<char*>(reservation.get()) + offset;
  const hipError_t result =
      detail::timed{detail::memory_call::map}(hipMemMap(address, chunk.bytes(), 0, chunk.get(), 0));
  if (result != hipSuccess) throw_refused_map(result, address, chunk);
  // An unmap of a chunk that is not mapped ends the process up to ROCm 6.4. If HIP does not answer,
  // a chunk that may be mapped stays.
  if (check == map_check::verified && !detail::is_freshly_mapped(address, chunk.device())) {
    detail::note_failed_map(reservation);
    throw_refused_map(hipErrorInvalidValue, address, chunk);
  }
  address_ = address;
  bytes_ = chunk.bytes();
  device_ = chunk.device().ordinal();
  is_on_host_ = chunk.location().is_host();
  report_mapping(memory_event_kind::map, device_, address_, bytes_);
}

mapping::~mapping() {
  if (address_ == nullptr || process_.is_of_parent()) return;
  deregister();
  detail::report_exceptions([this] { unmap(); });
  if (address_ == nullptr) return;
  // If the host's memory is short, the chunk stays mapped.
  if (auto* const kept = new (std::nothrow) refused_mapping{std::move(*this)})
    detail::refused_end::keep(std::unique_ptr<detail::refused_end>{kept});
}

mapping& mapping::operator=(mapping&& other) noexcept {
  mapping moved{std::move(other)};
  std::swap(address_, moved.address_);
  std::swap(bytes_, moved.bytes_);
  std::swap(device_, moved.device_);
  std::swap(process_, moved.process_);
  std::swap(is_on_host_, moved.is_on_host_);
  std::swap(registered_, moved.registered_);
  return *this;
}

void mapping::register_with(const std::shared_ptr<memory_registrar>& registrar,
                            const physical_chunk& chunk) {
  auto made = std::make_shared<detail::registration>(
      registrar, mapped_memory{address_, bytes_, chunk.device(), chunk.location(), chunk.get(),
                               chunk.shareable()});
  made->add();
  registered_ = std::move(made);
}

void mapping::unmap() {
  if (address_ == nullptr) return;
  process_.require_own();
  if (registered_) registered_->remove();
  const hipError_t unmapped =
      detail::timed{detail::memory_call::unmap}(hipMemUnmap(address_, bytes_));
  if (unmapped != hipSuccess && registered_)
    detail::report_exceptions([this] { registered_->add(); });
  detail::check(unmapped, "hipMemUnmap");
  report_mapping(memory_event_kind::unmap, device_, address_, bytes_);
  static_cast<void>(release());
}

void detail::unmap_together(mapping* const* run, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (run[i]->registered_) run[i]->registered_->remove();
    bytes += run[i]->bytes_;
  }
  void* const start = run[count - 1]->address_;
  const hipError_t unmapped = timed{memory_call::unmap}(hipMemUnmap(start, bytes));
  for (std::size_t i = 0; i < count; ++i) {
    mapping& each = *run[i];
    // From ROCm 7.14 on a failure may leave only some mapped.
    unsigned long long flags = 0;
    if (unmapped == hipSuccess ||
        query_access(each.address_, each.device(), flags) == hipErrorInvalidValue) {
      report_mapping(memory_event_kind::unmap, each.device_, each.address_, each.bytes_);
      static_cast<void>(each.release());
    } else if (each.registered_) {
      report_exceptions([&] { each.registered_->add(); });
    }
  }
  check(unmapped, "hipMemUnmap");
}

void detail::unmap_range(void* address, std::size_t bytes) {
  check(timed{memory_call::unmap}(hipMemUnmap(address, bytes)), "hipMemUnmap");
}

}  // namespace hipvmm
