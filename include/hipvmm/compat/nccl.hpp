// SPDX-License-Identifier: MIT
#pragma once

// NCCL 2.7 or newer, or RCCL.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/compat/nccl_library.hpp>
#include <hipvmm/container/pinned_array.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {
namespace detail {

/// The stream as cudaStream_t for NCCL, as hipStream_t for RCCL.
struct nccl_stream {
  stream_ref stream;
  template <typename T>
  operator T*() const noexcept {  // NOLINT(google-explicit-constructor): a parameter decides
    return reinterpret_cast<T*>(stream.get());
  }
};

}  // namespace detail

struct nccl_options : communicator_options {
  /// Locked around each call of NCCL, but not during waits. Needed if other threads call NCCL for
  /// the same ncclComm_t, as a registrar does: `[&] { return registration->lock(); }`.
  std::function<std::unique_lock<std::mutex>()> lock = {};
};

/// The ranks of an ncclComm_t. The owner destroys or aborts the ncclComm_t afterwards.
/// - transfer() puts one group of ncclSend and ncclRecv into its stream and does not wait for it.
///   The group waits in the stream for the other ranks without a limit: wait(stream) has one.
/// - Host memory travels through a pinned and a device buffer in a stream of its own.
/// - Pre: if ranks are threads of a process, none frees memory while another's work waits for it,
///   because CUDA's hipFree and hipHostFree wait with a lock that a launch needs.
/// - The limit holds for all calls if the ncclComm_t is nonblocking (ncclConfig_t::blocking = 0,
///   NCCL 2.14). A blocking one may wait inside NCCL, which connects ranks at their first transfer.
/// - NCCL reports neither late ranks nor different functions: both end by the limit, rank() is -1.
/// - After rank_error, call ncclCommAbort, which ends the work that waits in streams. The object's
///   own memory is then kept until the process ends.
class nccl_communicator final : public communicator {
 public:
  /// Collective. Pre: `ranks` is not destroyed or aborted before the last call.
  /// Throws: std::invalid_argument for nullptr, or a limit of 0; unsupported for NCCL before 2.7;
  /// rank_error, also of refused if ranks have another version of hipvmm or another provider; as
  /// stream and event; std::bad_alloc. If one rank lacks host or device memory, or a call of HIP
  /// fails, the others throw rank_error of remote.
  explicit nccl_communicator(ncclComm_t ranks, const nccl_options& options = {})
      : ranks_{required(ranks)},
        limit_{detail::checked_limit(options)},
        lock_{options.lock},
        rank_{asked(ncclCommUserRank, "ncclCommUserRank")},
        size_{asked(ncclCommCount, "ncclCommCount")},
        device_{asked(ncclCommCuDevice, "ncclCommCuDevice")} {
    require(ncclGetVersion(&version_), "ncclGetVersion");
    if (version_ < 2700)
      throw unsupported{"nccl_communicator: the library is NCCL " +
                        detail::nccl_version_text(version_) +
                        ", and ncclSend came with 2.7; install a newer one"};
    std::vector<detail::rank_greeting> all;
    try {
      stream_.emplace(device_);
      done_.emplace(device_);
      reserve_agreement();
      // Enough for the counts of exchange() or a failure's reason; longer messages go in pieces.
      const std::size_t bytes = bytes_for(count(), 64 * KiB);
      on_device_ = device_allocation{device_, bytes};
      on_host_ = pinned_array<std::byte>(bytes);
      all.resize(count());
      const detail::rank_greeting own = detail::own_greeting(0);
      std::memcpy(on_host_.data(), &own, sizeof(own));
      put(sizeof(own));
    } catch (...) {
      decline();
      throw;
    }
    try {
      guarded([&] {
        const std::size_t each = sizeof(all[0]);
        const auto* const came = get(each, all.size() * each, [&](auto* from, auto* to) {
          gather(from, to, each, *stream_);
        });
        std::memcpy(all.data(), came, all.size() * each);
      });
      static_cast<void>(detail::agree(all));
    } catch (...) {
      keep_memory();
      throw;
    }
  }
  ~nccl_communicator() override { keep_memory(); }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] device_ref device() const noexcept override { return device_; }
  [[nodiscard]] std::string describe() const override {
    return std::string{detail::provider_name() == "amd" ? "RCCL " : "NCCL "} +
           detail::nccl_version_text(version_) + ", rank " + std::to_string(rank_) + " of " +
           std::to_string(size_) +
           ", device memory from device to device; transfer() does not wait for its stream";
  }

  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    begin("all_gather()");
    collect(mine, 1, all, bytes, [&](std::byte* from, std::byte* to, std::size_t each) {
      gather(from, to, each, *stream_);
    });
  }
  void all_to_all(const void* mine, void* theirs, std::size_t bytes) override {
    begin("all_to_all()");
    collect(mine, count(), theirs, bytes, [&](std::byte* from, std::byte* to, std::size_t each) {
      group([&] {
        for (int other = 0; other < size_; ++other) {
          const std::size_t at = static_cast<std::size_t>(other) * each;
          send({other, from + at, each}, *stream_);
          receive({other, to + at, each}, *stream_);
        }
      });
    });
  }
  void transfer(const std::vector<outgoing>& out, const std::vector<incoming>& in,
                stream_ref stream) override {
    begin("transfer()");
    guarded([&] {
      detail::check_pieces(out, in, rank_, size_);
      const scoped_device scope{device_};
      const auto goes = [&](const auto& each) { return each.rank != rank_ && each.bytes != 0; };
      if (std::any_of(out.begin(), out.end(), goes) || std::any_of(in.begin(), in.end(), goes)) {
        group([&] {
          for (const outgoing& each : out)
            if (goes(each)) send(each, stream);
          for (const incoming& each : in)
            if (goes(each)) receive(each, stream);
        });
      }
      for (const outgoing& each : out)
        for (const incoming& own : in)
          if (each.rank == rank_ && own.rank == rank_ && each.bytes != 0 && own.data != each.data)
            copy_async(stream, own.data, each.data, each.bytes);
    });
  }

  /// Not collective. Waits for the work now in `stream`, up to the limit, and polls NCCL's errors.
  /// Throws: rank_error; hip_error.
  void wait(stream_ref stream) {
    begin("wait()");
    wait_until([&] { return stream.is_done(); });
  }

 private:
  static ncclComm_t required(ncclComm_t ranks) {
    if (ranks == nullptr)
      throw std::invalid_argument{"nccl_communicator: the ncclComm_t is nullptr; pass one"};
    return ranks;
  }
  template <typename Ask>
  int asked(Ask ask, const char* call) {
    int result = 0;
    require(ask(ranks_, &result), call);
    return result;
  }
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size_); }

  void begin(const char* called) {
    failure_.require_none();
    call_ = called;
  }
  [[noreturn]] void fail(rank_failure reason, const std::string& message) {
    const rank_error error{reason, -1, std::string{call_} + ": " + message};
    failure_.remember(error);
    throw rank_error{error};
  }
  /// Keeps a failure for later calls, because a call that fails in part leaves ranks out of step.
  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const rank_error&) {
      throw;
    } catch (const std::exception& error) {
      failure_.remember({rank_failure::lost, rank_,
                         std::string{call_} + " has failed on rank " + std::to_string(rank_) +
                             " before: " + error.what() +
                             "; call ncclCommAbort on all ranks and make another communicator"});
      throw;
    }
  }
  [[nodiscard]] std::string text_of(ncclResult_t result) const {
    std::string text = ncclGetErrorString(result);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0)
    const char* const last = ncclGetLastError(ranks_);
    if (last != nullptr && *last != '\0') text += std::string{" ("} + last + ')';
#endif
    return text;
  }
  void require(ncclResult_t result, const char* call) {
    if (result == detail::nccl_in_progress) {
      wait_until([&] {
        result = state();
        return result != detail::nccl_in_progress;
      });
    }
    require_state(result, call);
  }
  void require_state(ncclResult_t result, const char* call) {
    if (result == ncclSuccess) return;
    fail(rank_failure::lost, std::string{call} + " failed: " + text_of(result) +
                                 "; call ncclCommAbort on all ranks and make another communicator");
  }
  template <typename IsDone>
  void wait_until(IsDone is_done) {
    detail::rank_wait wait{limit_};
    for (int looks = 1; !is_done(); ++looks) {
      if (looks % 16 == 0) {
        const ncclResult_t now = state();
        if (now != detail::nccl_in_progress) require_state(now, "ncclCommGetAsyncError");
      }
      if (wait.is_over())
        fail(rank_failure::timeout,
             "not all ranks took part within " + std::to_string(limit_.count()) +
                 " ms; see whether one failed or waits elsewhere, and call ncclCommAbort");
      wait.pause();
    }
  }

  void send(const outgoing& piece, stream_ref stream) {
    note(ncclSend(piece.data, piece.bytes, ncclInt8, piece.rank, ranks_,
                  detail::nccl_stream{stream}),
         "ncclSend");
  }
  void receive(const incoming& piece, stream_ref stream) {
    note(ncclRecv(piece.data, piece.bytes, ncclInt8, piece.rank, ranks_,
                  detail::nccl_stream{stream}),
         "ncclRecv");
  }
  /// Keeps the first failure for group(), because a group must be ended even after one.
  void note(ncclResult_t result, const char* call) noexcept {
    if (result == ncclSuccess || result == detail::nccl_in_progress || failed_call_ != nullptr)
      return;
    failed_call_ = call;
    failed_result_ = result;
  }
  template <typename Add>
  void group(Add add) {
    auto held = lock();
    require_state(ncclGroupStart(), "ncclGroupStart");
    add();
    const ncclResult_t result = ncclGroupEnd();
    held = {};
    if (failed_call_ != nullptr)
      require_state(failed_result_, std::exchange(failed_call_, nullptr));
    require(result, "ncclGroupEnd");
  }
  [[nodiscard]] std::unique_lock<std::mutex> lock() const {
    return lock_ ? lock_() : std::unique_lock<std::mutex>{};
  }
  [[nodiscard]] ncclResult_t state() {
    const auto held = lock();
    ncclResult_t result = ncclSuccess;
    const ncclResult_t call = ncclCommGetAsyncError(ranks_, &result);
    return call == ncclSuccess ? result : call;
  }

  void gather(const void* from, void* to, std::size_t bytes, stream_ref stream) {
    auto held = lock();
    const ncclResult_t result =
        ncclAllGather(from, to, bytes, ncclInt8, ranks_, detail::nccl_stream{stream});
    held = {};
    require(result, "ncclAllGather");
  }
  /// Copies `sent` blocks of `bytes` bytes to the device, has `move` exchange them there, and
  /// copies a block of every rank to `theirs`. Long blocks go in pieces: the buffers never grow,
  /// because CUDA's free waits with a lock that a launch needs.
  template <typename Move>
  void collect(const void* mine, std::size_t sent, void* theirs, std::size_t bytes, Move move) {
    guarded([&] {
      const std::size_t longest = (on_host_.size() - alignment) / (sent + count());
      for (std::size_t at = 0; at < bytes;) {
        const std::size_t each = std::min(longest, bytes - at);
        for (std::size_t i = 0; i < sent; ++i)
          std::memcpy(on_host_.data() + i * each,
                      static_cast<const std::byte*>(mine) + i * bytes + at, each);
        put(sent * each);
        const std::byte* const came =
            get(sent * each, count() * each, [&](auto* from, auto* to) { move(from, to, each); });
        for (std::size_t i = 0; i < count(); ++i)
          std::memcpy(static_cast<std::byte*>(theirs) + i * bytes + at, came + i * each, each);
        at += each;
      }
    });
  }
  void put(std::size_t bytes) {
    const scoped_device scope{device_};
    copy_async(*stream_, on_device_.get(), on_host_.data(), bytes);
  }
  template <typename Move>
  const std::byte* get(std::size_t sent, std::size_t received, Move move) {
    const scoped_device scope{device_};
    const std::size_t at = align_up(sent, alignment);
    auto* const device_memory = static_cast<std::byte*>(on_device_.get());
    move(device_memory, device_memory + at);
    copy_async(*stream_, on_host_.data() + at, device_memory + at, received);
    done_->record(*stream_);
    wait_until([&] { return done_->is_done(); });
    return on_host_.data() + at;
  }
  /// Tells the other ranks that this one cannot make its communicator. Needs little memory.
  void decline() noexcept {
    device_allocation memory;
    try {
      const scoped_device scope{device_};
      const stream_ref used = stream_ref::per_thread_default();
      detail::rank_greeting own;
      own.piece_bytes = detail::rank_greeting::cannot;
      const std::size_t at = align_up(sizeof(own), alignment);
      memory = device_allocation{device_, at + count() * sizeof(own)};
      copy_async(used, memory.get(), &own, sizeof(own));
      used.synchronize();
      gather(memory.get(), static_cast<std::byte*>(memory.get()) + at, sizeof(own), used);
      wait_until([&] { return used.is_done(); });
    } catch (...) {
      // The others wait up to the limit. NCCL may still use the memory.
      static_cast<void>(memory.release());
    }
  }
  /// Frees nothing after a failure, because a wait for the stream might not end.
  void keep_memory() noexcept {
    if (!failure_.happened()) return;
    if (stream_) static_cast<void>(stream_->release());
    if (done_) static_cast<void>(done_->release());
    static_cast<void>(on_device_.release());
    detail::keep_until_exit(std::move(on_host_));
  }
  static constexpr std::size_t alignment = 256;

  ncclComm_t ranks_;
  std::chrono::milliseconds limit_;
  std::function<std::unique_lock<std::mutex>()> lock_;
  const char* call_ = "nccl_communicator";
  const char* failed_call_ = nullptr;
  ncclResult_t failed_result_ = ncclSuccess;
  detail::last_failure failure_;
  int rank_;
  int size_;
  device_ref device_;
  int version_ = 0;
  std::optional<stream> stream_;
  std::optional<event> done_;
  device_allocation on_device_;
  pinned_array<std::byte> on_host_;
};

}  // namespace hipvmm
