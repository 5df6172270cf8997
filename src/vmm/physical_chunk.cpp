// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/physical_chunk.hpp>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "core/error.hpp"
#include "core/hip_compat.hpp"
#include "core/logger.hpp"
#include "core/owner_process.hpp"
#include "runtime/check_resources.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm {

using detail::check;

namespace {

constexpr int posix_kind = hipMemHandleTypePosixFileDescriptor;
constexpr int fabric_kind = hip_compat::fabric_handle_kind;

hipMemAllocationProp properties(device_ref device, handle_type shareable) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = device.ordinal();
  hip_compat::set_handle_kinds(properties,
                               (can_export(shareable, handle_type::posix_fd) ? posix_kind : 0) |
                                   (can_export(shareable, handle_type::fabric) ? fabric_kind : 0));
  return properties;
}

handle_type shareable_of(const hipMemAllocationProp& made) {
  const int kinds = hip_compat::handle_kinds(made);
  const bool posix = (kinds & posix_kind) != 0;
  if ((kinds & fabric_kind) != 0)
    return posix ? handle_type::posix_fd_and_fabric : handle_type::fabric;
  return posix ? handle_type::posix_fd : handle_type::none;
}

class handle_counts {
 public:
  void add(hipMemGenericAllocationHandle_t handle) {
    const std::lock_guard lock{mutex_};
    ++counts_[handle];
    has_some_ = true;
  }
  bool remove(hipMemGenericAllocationHandle_t handle) noexcept {
    if (!has_some_) return false;
    const std::lock_guard lock{mutex_};
    const auto found = counts_.find(handle);
    if (found == counts_.end()) return false;
    if (--found->second == 0) counts_.erase(found);
    has_some_ = !counts_.empty();
    return true;
  }
  [[nodiscard]] std::size_t count(hipMemGenericAllocationHandle_t handle) noexcept {
    if (!has_some_) return 0;
    const std::lock_guard lock{mutex_};
    const auto found = counts_.find(handle);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<hipMemGenericAllocationHandle_t, std::size_t> counts_;
  std::atomic<bool> has_some_{false};
};

struct known_owners {
  handle_counts retained;  // by retain_at()
  handle_counts further;   // by reference_to(), beyond the first owner
};

std::string text_of(memory_location where) {
  if (where.device()) return "device " + std::to_string(where.device()->ordinal());
  return where.node() ? "NUMA node " + std::to_string(*where.node()) + " of the host" : "the host";
}

std::atomic<bool (*)(physical_chunk&)> pinned_chunk_keeper{nullptr};

}  // namespace

allocation_granularity granularity_of(device_ref device) {
  if (!device.supports_virtual_memory())
    throw unsupported{
        "device " + std::to_string(device.ordinal()) +
        " offers no virtual memory management (its HIP attribute says 0): use a vector or "
        "pool, which stand on hipMalloc there, or mr::hip_resource"};
  const hipMemAllocationProp wanted = properties(device, handle_type::none);
  allocation_granularity result{};
  check(
      hipMemGetAllocationGranularity(&result.minimum, &wanted, hipMemAllocationGranularityMinimum),
      "hipMemGetAllocationGranularity");
  check(hipMemGetAllocationGranularity(&result.recommended, &wanted,
                                       hipMemAllocationGranularityRecommended),
        "hipMemGetAllocationGranularity");
  return result;
}

physical_chunk::physical_chunk(device_ref device, std::size_t bytes, handle_type shareable)
    : device_{device}, bytes_{bytes}, shareable_{shareable} {
  create();
}

physical_chunk::physical_chunk(memory_location where, std::size_t bytes, device_ref user)
    : device_{where.device().value_or(user)},
      bytes_{bytes},
      host_{where.is_host() ? std::optional{where} : std::nullopt} {
  create();
}

physical_chunk::physical_chunk(device_ref device, std::size_t bytes, chunk_memory memory,
                               handle_type shareable)
    : device_{device}, bytes_{bytes}, shareable_{shareable}, memory_{memory} {
  create();
}

void physical_chunk::create() {
  std::shared_ptr<detail::chunk_charge> charge;
  if (!host_) charge = std::make_shared<detail::chunk_charge>(device_, bytes_);
  // ROCm 7.2.4 takes the calling thread's device, not that of the properties.
  const scoped_device scope{device_};
  hipMemAllocationProp wanted = properties(device_, shareable_);
  if (host_)
    wanted.location = host_->node() ? hip_compat::place_on_host_node(*host_->node())
                                    : hip_compat::place_on_host();
  if (memory_ == chunk_memory::uncached) hip_compat::set_uncached(wanted);
  hipMemGenericAllocationHandle_t handle = nullptr;
  const hipError_t result =
      detail::timed{detail::memory_call::create}(hipMemCreate(&handle, bytes_, &wanted, 0));
  if (result == hipErrorInvalidValue) {
    detail::clear_last_error();
    const std::size_t unit = granularity_of(device_).minimum;
    if (bytes_ == 0 || bytes_ % unit != 0)
      throw std::invalid_argument{"a chunk of " + std::to_string(bytes_) + " bytes on device " +
                                  std::to_string(device_.ordinal()) +
                                  ": the size must be a multiple of its granularity, " +
                                  std::to_string(unit) + " bytes, and not zero"};
    if (host_)
      detail::throw_failure(
          result, "hipMemCreate",
          "a chunk of " + format_bytes(bytes_) + " was to be memory of " + text_of(*host_) +
              (host_->node() ? ": name a node that the system has"
                             : ": if this release of HIP makes none there, make it on a device"));
  }
  if (!detail::attempt(
          [&] { detail::check_resources(result, "hipMemCreate", device_, bytes_); },
          [this](const shortage& why) { return host_ && why.cause == exhausted::device_memory; }))
    detail::throw_out_of_host_memory(bytes_, "hipMemCreate");
  handle_ = handle;
  // HIP gives handles again; after release() nobody has removed the counts of one.
  while (detail::only<known_owners>().retained.remove(handle)) continue;
  charge_ = std::move(charge);
  if (charge_) charge_->note_creation();
  static std::atomic<std::uint64_t> last_index{0};
  creation_index_ = last_index.fetch_add(1, std::memory_order_relaxed) + 1;
  detail::log<log_level::trace>([&] {
    return "hipMemCreate gave chunk " + std::to_string(creation_index_) + ", " +
           format_bytes(bytes_) + " of " + text_of(location());
  });
}

physical_chunk detail::retain_at(const void* address, device_ref device, std::size_t bytes) {
  hipMemGenericAllocationHandle_t handle = nullptr;
  if (const hipError_t failed = hipMemRetainAllocationHandle(&handle, const_cast<void*>(address));
      failed != hipSuccess)
    throw_failure(failed, "hipMemRetainAllocationHandle",
                  "the chunk at " + address_text(address) + " was to be retained");
  physical_chunk result{handle, device, bytes};
  result.shared_ = false;  // end() must not look for it before it is added
  detail::only<known_owners>().retained.add(handle);
  result.shared_ = true;
  hipMemAllocationProp made{};
  check(hipMemGetAllocationPropertiesFromHandle(&made, handle),
        "hipMemGetAllocationPropertiesFromHandle");
  result.shareable_ = shareable_of(made);
  if (hip_compat::is_uncached(made)) result.memory_ = chunk_memory::uncached;
  if (hip_compat::is_on_host_node(made.location)) {
    result.host_ = memory_location::host_node(made.location.id);
  } else if (hip_compat::is_on_host(made.location)) {
    result.host_ = memory_location::host();
  }
  return result;
}

physical_chunk detail::reference_to(const physical_chunk& chunk) {
  detail::only<known_owners>().further.add(chunk.get());
  physical_chunk result{chunk.get(), chunk.device(), chunk.bytes()};
  result.shareable_ = chunk.shareable();
  result.shared_ = chunk.shared_;
  result.memory_ = chunk.memory();
  result.host_ = chunk.host_;
  result.charge_ = chunk.charge_;
  result.creation_index_ = chunk.creation_index_;
  return result;
}

void detail::withdraw_export(physical_chunk& chunk) noexcept { chunk.shared_ = false; }

std::size_t detail::owners_of(const physical_chunk& chunk) noexcept {
  return 1 + detail::only<known_owners>().further.count(chunk.get());
}

bool detail::is_retained_by_address(const physical_chunk& chunk) noexcept {
  return detail::only<known_owners>().retained.count(chunk.get()) != 0;
}

void detail::set_pinned_chunk_keeper(bool (*keep)(physical_chunk&)) noexcept {
  pinned_chunk_keeper = keep;
}

bool detail::is_pinned(const physical_chunk& chunk) noexcept {
  return chunk.charge_ && chunk.charge_->pins != 0;
}

bool detail::is_retained(const physical_chunk& chunk) noexcept {
  return is_retained_by_address(chunk) || owners_of(chunk) > 1;
}

physical_chunk::~physical_chunk() {
  // Pinned memory does not return: the keeper counts it and may reuse it.
  if (process_.is_of_parent() || !detail::is_pinned(*this) || !pinned_chunk_keeper.load()(*this))
    end();
}

void physical_chunk::end() noexcept {
  if (handle_ == nullptr || process_.is_of_parent()) return;
  // A reference by retain_at() has the owners' handle and no charge.
  const bool is_by_address =
      shared_ && !charge_ && detail::only<known_owners>().retained.remove(handle_);
  if (!is_by_address && detail::only<known_owners>().further.remove(handle_)) return;
  const bool is_noted = detail::release_or_keep(
      [handle = handle_, charge = charge_, index = creation_index_, bytes = bytes_,
       where = location()] {
        const hipError_t result =
            detail::timed{detail::memory_call::release}(hipMemRelease(handle));
        if (detail::is_released(result))
          detail::log<log_level::trace>([&] {
            return "hipMemRelease took chunk " + std::to_string(index) + ", " +
                   format_bytes(bytes) + " of " + text_of(where) + ", back";
          });
        return result;
      },
      "hipMemRelease", false);
  if (!is_noted && charge_) charge_->stay();
  handle_ = nullptr;
  charge_.reset();
}

ihipMemGenericAllocationHandle* physical_chunk::release() noexcept {
  charge_.reset();
  bytes_ = 0;
  return std::exchange(handle_, nullptr);
}

physical_chunk& physical_chunk::operator=(physical_chunk&& other) noexcept {
  physical_chunk moved{std::move(other)};
  std::swap(handle_, moved.handle_);
  std::swap(device_, moved.device_);
  std::swap(process_, moved.process_);
  std::swap(bytes_, moved.bytes_);
  std::swap(creation_index_, moved.creation_index_);
  std::swap(shareable_, moved.shareable_);
  std::swap(memory_, moved.memory_);
  std::swap(shared_, moved.shared_);
  std::swap(charge_, moved.charge_);
  std::swap(host_, moved.host_);
  return *this;
}

}  // namespace hipvmm
