// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/compat/nccl_library.hpp>
#include <hipvmm/compat/registration.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

#define HIPVMM_NCCL_DECLARES_REGISTER (NCCL_MAJOR * 100 + NCCL_MINOR >= 219)
#define HIPVMM_NCCL_DECLARES_WINDOWS (NCCL_MAJOR * 100 + NCCL_MINOR >= 227)

namespace hipvmm {

/// A registrar that registers each chunk with communicators (ncclCommRegister, NCCL 2.19), so that
/// NCCL sends and receives without a copy of its own. It also registers ranges of chunks: as
/// buffers or, from NCCL 2.27 on, as windows. NCCL uses a registration only if it contains the
/// whole buffer of a call.
/// - NCCL allows one thread at a time in a communicator, and threads of the library deregister
///   chunks too. So hold lock() around calls of NCCL on the added communicators, but not while
///   memory grows or the thread waits for memory of hipvmm: both take the lock.
/// - NCCL requires that all ranks of a call pass registered buffers, or none.
/// - Memory must not shrink while another rank may still use it. NCCL's calls have ended on all
///   ranks when the streams have passed them and a barrier.
/// - Chunks of another device than the communicator's are left out.
/// - NCCL continues calls for a nonblocking communicator after they return. Each is awaited up to
///   the communicator's limit, also when memory is mapped or unmapped. Beyond it the call fails,
///   and the communicator is not called again: remove_communicator(), then ncclCommAbort.
class nccl_registration final : public library_registrar {
 public:
  /// Throws: unsupported if NCCL is older than 2.19, at run time or when this was compiled, or if
  /// `chunks` cannot be exported: NCCL passes them to other processes by a handle, and on NVIDIA
  /// only exportable chunks are accessible to network cards (gpuDirectRDMACapable).
  explicit nccl_registration(const region_options& chunks) {
    if (const ncclResult_t result = ncclGetVersion(&version_); result != ncclSuccess)
      throw_failed("ncclGetVersion", result, nullptr);
    require_version("nccl_registration", "ncclCommRegister", 21900, HIPVMM_NCCL_DECLARES_REGISTER);
    require_exportable("nccl_registration", chunks);
  }
  /// The same for chunks of a vector on `device`.
  /// Throws: unsupported also if its granules are smaller than the device's recommended
  /// granularity, because NCCL requires multiples of that.
  nccl_registration(device_ref device, const growth_options& growth)
      : nccl_registration{growth.chunks} {
    const std::size_t unit = granularity_of(device).recommended;
    if (growth.granule_bytes % unit != 0)
      throw unsupported{"nccl_registration: growth_options::granule_bytes is " +
                        std::to_string(growth.granule_bytes) +
                        ", and NCCL wants chunks of multiples of " + std::to_string(unit) +
                        " bytes, the recommended granularity of device " +
                        std::to_string(device.ordinal()) + ": set it to one, or to 0"};
  }

  /// Registers all present and future mappings with `ranks`. Not collective. Pre: the caller calls
  /// remove_communicator() before it destroys or aborts `ranks`.
  /// Throws: std::invalid_argument if it was added already, or for a limit of 0; rank_error of
  /// timeout; std::runtime_error with NCCL's text. Then nothing is registered with it.
  void add_communicator(ncclComm_t ranks, const communicator_options& options = {}) {
    const std::chrono::milliseconds limit = detail::checked_limit(options);
    const std::lock_guard held{mutex()};
    if (is_added(ranks))
      throw std::invalid_argument{"nccl_registration: the communicator was added already"};
    int device = -1;
    if (const ncclResult_t result = ncclCommCuDevice(ranks, &device); result != ncclSuccess)
      throw_failed("ncclCommCuDevice", result, ranks);
    ranks_.push_back({ranks, device, limit});
    try {
      for (const auto& [address, memory] : known()) register_chunk(ranks_.back(), memory);
    } catch (...) {
      forget(ranks);
      throw;
    }
  }
  /// Ends all registrations with `ranks`, and its windows. Failures of NCCL are reported to the
  /// error handler. No effect if it was not added.
  void remove_communicator(ncclComm_t ranks) noexcept {
    refusal refused;
    {
      const std::lock_guard held{mutex()};
      refused = forget(ranks);
    }
    if (refused.call != nullptr) warn(refused.call, refused.text());
  }

  /// Registers [address, address + bytes), which may span chunks, as one buffer of `ranks`, until
  /// the first of its chunks is unmapped or the communicator removed.
  /// Throws: std::out_of_range unless all of it is mapped; std::invalid_argument for 0 bytes or a
  /// communicator that was not added; rank_error of timeout; std::runtime_error with NCCL's text.
  void register_range(ncclComm_t ranks, void* address, std::size_t bytes) {
    const std::lock_guard held{mutex()};
    register_with(require_mapped(ranks, address, bytes), address, bytes);
  }

#if HIPVMM_NCCL_DECLARES_WINDOWS
  /// Collective: every rank registers a window of as many bytes (ncclCommWindowRegister), with
  /// NCCL's flags. It ends, in this rank alone, when the first of its chunks is unmapped or the
  /// communicator removed: all ranks must have stopped using it before.
  /// Pre: the caller does not hold lock(), and is in no ncclGroupStart(). Ranks that are threads of
  /// one process have an nccl_registration each, because lock() is held until all ranks have come,
  /// even with a nonblocking communicator.
  /// Throws: as register_range(); unsupported if NCCL is older than 2.27 at run time, or offers no
  /// windows on this machine.
  ncclWindow_t register_window(ncclComm_t ranks, void* address, std::size_t bytes, int flags = 0) {
    require_version("nccl_registration::register_window", "ncclCommWindowRegister", 22700, true);
    const std::lock_guard held{mutex()};
    rank& with = require_mapped(ranks, address, bytes);
    void* const made =
        make(with, "ncclCommWindowRegister", address, bytes, true, [&](void** written) {
          return ncclCommWindowRegister(ranks, address, bytes,
                                        reinterpret_cast<ncclWindow_t*>(written), flags);
        });
    if (made == nullptr) {
      entries_.pop_back();
      throw unsupported{
          "nccl_registration::register_window: NCCL offers no windows here: it made none and "
          "reported success, as it does if the ranks do not reach each other's memory"};
    }
    return static_cast<ncclWindow_t>(made);
  }
#endif

  [[nodiscard]] std::unique_lock<std::mutex> lock() const { return std::unique_lock{mutex()}; }
  /// Counts the registrations of chunks, ranges and windows with all communicators.
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard held{mutex()};
    return entries_.size();
  }
  /// NCCL's at run time, such as 22803 for 2.28.3.
  [[nodiscard]] int version() const noexcept { return version_; }

 private:
  struct rank {
    ncclComm_t communicator;
    int device;
    std::chrono::milliseconds limit;
    bool is_stuck = false;  // a call has not ended within the limit
  };
  struct entry {
    ncclComm_t communicator;
    char* begin;
    std::size_t bytes;
    bool is_window;
    void* made = nullptr;  // null too if NCCL_LOCAL_REGISTER=0 turns registration off
  };

  void require_version(const char* who, const char* function, int needed, bool is_declared) const {
    if (version_ < needed)
      throw unsupported{std::string{who} + ": NCCL " + detail::nccl_version_text(version_) +
                        " was found, and " + function + " came with " +
                        detail::nccl_version_text(needed) + ": use a newer one"};
    if (!is_declared)
      throw unsupported{std::string{who} + ": this was compiled with the header of NCCL " +
                        std::to_string(NCCL_MAJOR) + '.' + std::to_string(NCCL_MINOR) + ", and " +
                        function + " came with " + detail::nccl_version_text(needed) +
                        ": compile it with the header of the NCCL that was found, " +
                        detail::nccl_version_text(version_)};
  }
  [[noreturn]] static void throw_failed(const char* call, ncclResult_t result,
                                        [[maybe_unused]] ncclComm_t ranks) {
    std::string text = std::string{call} + ": " + ncclGetErrorString(result);
#if NCCL_MAJOR * 100 + NCCL_MINOR >= 213
    if (const char* const more = ncclGetLastError(ranks); more != nullptr && *more != '\0')
      text += std::string{": "} + more;
#endif
    throw std::runtime_error{text};
  }
  static std::string timeout_text(const char* what, std::chrono::milliseconds limit) {
    return std::string{"NCCL had not ended "} + what + " within " + std::to_string(limit.count()) +
           " ms (communicator_options::limit); see whether all ranks make the same calls, and call "
           "remove_communicator() and ncclCommAbort() on all of them";
  }
  static constexpr const char* earlier = "an earlier call";

  /// The final result of a call, which a nonblocking communicator continues after it returned;
  /// nccl_in_progress if it has not ended within the limit.
  static ncclResult_t result_of(rank& with, ncclResult_t returned) noexcept {
    detail::rank_wait wait{with.limit};
    while (returned == detail::nccl_in_progress) {
      if (wait.is_over()) {
        with.is_stuck = true;
        break;
      }
      wait.pause();
      const ncclResult_t asked = ncclCommGetAsyncError(with.communicator, &returned);
      if (asked != ncclSuccess) return asked;
    }
    return returned;
  }

  [[nodiscard]] bool is_added(ncclComm_t ranks) const noexcept {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [ranks](const rank& each) { return each.communicator == ranks; });
  }
  [[nodiscard]] rank& rank_of(ncclComm_t ranks) noexcept {
    return *std::find_if(ranks_.begin(), ranks_.end(),
                         [ranks](const rank& each) { return each.communicator == ranks; });
  }
  [[nodiscard]] rank& require_mapped(ncclComm_t ranks, void* address, std::size_t bytes) {
    if (!is_added(ranks))
      throw std::invalid_argument{
          "nccl_registration: the communicator was not added: add_communicator() first"};
    if (bytes == 0)
      throw std::invalid_argument{
          "nccl_registration: a range or window of 0 bytes would end with none of the chunks: give "
          "the bytes to register"};
    std::vector<registered_bytes> all;
    for (const auto& [start, memory] : known())
      all.push_back({reinterpret_cast<std::uintptr_t>(start), memory.bytes, all.size()});
    static_cast<void>(cut_by_chunk(all, reinterpret_cast<std::uintptr_t>(address), bytes));
    return rank_of(ranks);
  }

  template <typename Call>
  void* make(rank& with, const char* name, void* address, std::size_t bytes, bool is_window,
             Call call) {
    if (with.is_stuck)
      throw rank_error{rank_failure::timeout, -1,
                       std::string{name} + ": " + timeout_text(earlier, with.limit)};
    // On the heap, because NCCL may write it after the wait has ended.
    auto made = std::make_unique<void*>(nullptr);
    entries_.push_back({with.communicator, static_cast<char*>(address), bytes, is_window});
    const ncclResult_t result = result_of(with, call(made.get()));
    if (result == ncclSuccess) return entries_.back().made = *made;
    entries_.pop_back();
    if (result != detail::nccl_in_progress) throw_failed(name, result, with.communicator);
    detail::keep_until_exit(std::move(made));
    throw rank_error{rank_failure::timeout, -1,
                     std::string{name} + ": " + timeout_text("it", with.limit)};
  }
  void register_with([[maybe_unused]] rank& with, [[maybe_unused]] void* address,
                     [[maybe_unused]] std::size_t bytes) {
#if HIPVMM_NCCL_DECLARES_REGISTER
    make(with, "ncclCommRegister", address, bytes, false, [&](void** written) {
      return ncclCommRegister(with.communicator, address, bytes, written);
    });
#endif
  }
  void register_chunk(rank& with, const mapped_memory& memory) {
    if (memory.device.ordinal() == with.device && !memory.location.is_host())
      register_with(with, memory.address, memory.bytes);
  }
  struct refusal {
    const char* call = nullptr;
    ncclResult_t result = ncclSuccess;
    const char* unended = nullptr;
    std::chrono::milliseconds limit{0};
    [[nodiscard]] std::string text() const {
      return (unended != nullptr ? timeout_text(unended, limit) : ncclGetErrorString(result)) +
             ": the memory is unmapped all the same, and NCCL may still hold it";
    }
  };
  template <typename Predicate>
  refusal end(Predicate matches) noexcept {
    refusal first;
    for (std::size_t at = entries_.size(); at-- > 0;) {
      if (!matches(entries_[at])) continue;
      const refusal one = end_one(entries_[at]);
      if (first.call == nullptr) first = one;
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return first;
  }
  refusal end_one(const entry& one) noexcept {
    if (one.made == nullptr) return {};
    rank& with = rank_of(one.communicator);
    refusal result{one.is_window ? "ncclCommWindowDeregister" : "ncclCommDeregister",
                   detail::nccl_in_progress, with.is_stuck ? earlier : "it", with.limit};
    if (!with.is_stuck) result.result = result_of(with, deregister(one));
    if (result.result == ncclSuccess) return {};
    if (result.result != detail::nccl_in_progress) result.unended = nullptr;
    return result;
  }
  static ncclResult_t deregister([[maybe_unused]] const entry& one) noexcept {
#if HIPVMM_NCCL_DECLARES_WINDOWS
    if (one.is_window)
      return ncclCommWindowDeregister(one.communicator, static_cast<ncclWindow_t>(one.made));
#endif
#if HIPVMM_NCCL_DECLARES_REGISTER
    return ncclCommDeregister(one.communicator, one.made);
#else
    return ncclSuccess;
#endif
  }
  refusal forget(ncclComm_t ranks) noexcept {
    const refusal result = end([ranks](const entry& each) { return each.communicator == ranks; });
    ranks_.erase(std::remove_if(ranks_.begin(), ranks_.end(),
                                [ranks](const rank& each) { return each.communicator == ranks; }),
                 ranks_.end());
    return result;
  }

  void enter(const mapped_memory& memory) override {
    const std::size_t before = entries_.size();
    try {
      for (rank& each : ranks_) register_chunk(each, memory);
    } catch (...) {
      while (entries_.size() > before) {
        end_one(entries_.back());
        entries_.pop_back();
      }
      throw;
    }
  }
  void leave(const mapped_memory& memory) override {
    char* const begin = static_cast<char*>(memory.address);
    const refusal refused = end([&](const entry& each) {
      return each.begin < begin + memory.bytes && begin < each.begin + each.bytes;
    });
    if (refused.call != nullptr)
      throw std::runtime_error{std::string{refused.call} + ": " + refused.text()};
  }

  int version_ = 0;
  std::vector<rank> ranks_;
  std::vector<entry> entries_;
};

}  // namespace hipvmm
