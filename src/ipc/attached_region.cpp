// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/attached_region.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "ipc/imported_block_map.hpp"
#include "ipc/subscription.hpp"
#include "region/chunks/region_chunks.hpp"
#include "strategy/memory_strategy.hpp"

namespace hipvmm::detail {
namespace {

access_list rights_of(const std::vector<device_ref>& devices, const attach_options& options) {
  std::vector<access_desc> all = options.peers.entries();
  for (const device_ref each : devices) all.push_back({each, options.right});
  return access_list{std::move(all)};
}

/// The region makes no chunks: stripes only admit chunks of all `devices`.
chunk_placement placement_on(const std::vector<device_ref>& devices, std::size_t granule) {
  return devices.size() == 1 ? chunk_placement{} : chunk_placement::striped(devices, granule);
}

}  // namespace

class import_session final : private subscription {
 public:
  import_session(const std::string& path, const attach_options& options,
                 const element_identity& elements);

  std::size_t refresh(stream_ref stream);
  bool wait_for(std::size_t bytes, std::chrono::milliseconds timeout, stream_ref stream);
  [[nodiscard]] std::size_t bytes() const noexcept { return readable().end - readable().begin; }
  [[nodiscard]] void* data() const noexcept {
    return static_cast<std::byte*>(memory_->base()) + readable().begin;
  }
  using subscription::is_open;
  [[nodiscard]] const region& memory() const noexcept { return *memory_; }
  [[nodiscard]] region& memory() noexcept { return *memory_; }

 private:
  std::size_t refresh(stream_ref stream, deadline until);
  void add(std::vector<sent_chunk>& fresh) override;
  [[nodiscard]] bool has_users() const override { return !stream_.is_done(); }
  void wait_for_users() override { stream_.synchronize(); }
  void remove(std::uint64_t offset, std::uint64_t bytes) override {
    memory_->decommit(offset, bytes);
  }
  [[nodiscard]] std::uint64_t backed_from(std::uint64_t begin) const override {
    return memory_->committed_from(begin);
  }
  [[nodiscard]] bool refuses_holes() const override;
  [[noreturn]] void let_go(const std::string& why) override;
  [[noreturn]] void unmap_expired();  ///< unmaps all chunks, then throws ipc_error `expired`
  void require_own_process(const char* function) const;
  /// The devices of the memory here, by chunk_record::device.
  [[nodiscard]] std::vector<device_ref> devices_here(const welcome_packet& from) const;

  attach_options options_;
  std::vector<device_ref> devices_;
  std::optional<region> memory_;
  stream_ref stream_ = stream_ref::legacy_default();  // of the call that runs
  std::string why_expired_;  // the owner has cut this process off; until the program was told
};

import_session::import_session(const std::string& path, const attach_options& options,
                               const element_identity& elements)
    : subscription{path, options.other_users, options.timeout}, options_{options} {
  deadline until = deadline_in(options_.timeout);
  const welcome_packet welcome = connect(elements, until);
  const auto began = std::chrono::steady_clock::now();
  devices_ = devices_here(welcome);
  const device_ref device = devices_.front();
  memory_.emplace(reserve_mirror(device, shape().max_bytes, rights_of(devices_, options_),
                                 "an importer reserves all addresses that the owner of " + path +
                                     " may fill: let it publish with a smaller max_bytes",
                                 placement_on(devices_, shape().granularity)));
  const stream own{device};
  stream_ = own;
  subscription::refresh(until + (std::chrono::steady_clock::now() - began));
}

std::vector<device_ref> import_session::devices_here(const welcome_packet& from) const {
  const std::vector<device_ref>& chosen = options_.other_devices;
  if (!chosen.empty() && chosen.size() != from.other_devices.size())
    throw std::invalid_argument{"attach_options::other_devices names " +
                                std::to_string(chosen.size()) + " devices, and the memory at " +
                                path() + " is of " + std::to_string(from.other_devices.size()) +
                                " besides the first: name one for each"};
  const auto find = [this](const std::optional<device_ref>& named, const device_uuid& uuid) {
    if (named) {
      require_device(*named);
      return *named;
    }
    if (const std::optional<device_ref> found = device_with_uuid(uuid); found) return *found;
    throw std::invalid_argument{
        "the memory at " + path() + " is of device " + to_string(uuid) +
        ", which this process does not see: make it visible (HIP_VISIBLE_DEVICES), or, if HIP "
        "reports no UUIDs, name it by attach_options::device and other_devices"};
  };
  std::vector<device_ref> result{find(options_.device, device_uuid{from.shape.device})};
  for (std::size_t i = 0; i < from.other_devices.size(); ++i)
    result.push_back(find(chosen.empty() ? std::nullopt : std::optional{chosen[i]},
                          device_uuid{from.other_devices[i]}));
  return result;
}

void import_session::let_go(const std::string& why) {
  why_expired_ = why;
  disconnect();
  set_unreadable();
  unmap_expired();
}

void import_session::unmap_expired() {
  withdraw_all();
  throw ipc_error{ipc_failure::expired, std::exchange(why_expired_, {})};
}

void import_session::add(std::vector<sent_chunk>& fresh) {
  std::map<std::size_t, physical_chunk> chunks;
  for (sent_chunk& each : fresh) {
    physical_chunk chunk = import_chunk(each.handle, devices_[each.place.device]);
    each.handle = {};
    if (!chunks.try_emplace(each.place.offset, std::move(chunk)).second)
      throw std::invalid_argument{"two chunks begin at offset " +
                                  std::to_string(each.place.offset)};
  }
  adopt_chunks(*memory_, chunks);
}

bool import_session::refuses_holes() const {
  return std::ranges::any_of(
      devices_, [](device_ref each) { return !memory_strategy{each}.rights.takes_any_mapping; });
}

void import_session::require_own_process(const char* function) const {
  if (process().is_of_parent())
    throw unsupported{std::string{"attached_region::"} + function +
                      " in a child of fork(): the connection is the parent's; attach anew in a "
                      "process that was started by exec"};
}

std::size_t import_session::refresh(stream_ref stream) {
  require_own_process("refresh");
  return refresh(stream, deadline_in(options_.timeout));
}

std::size_t import_session::refresh(stream_ref stream, deadline until) {
  stream_ = stream;
  // An earlier try failed to unmap.
  if (!why_expired_.empty()) unmap_expired();
  subscription::refresh(until);
  return bytes();
}

bool import_session::wait_for(std::size_t bytes, std::chrono::milliseconds timeout,
                              stream_ref stream) {
  require_own_process("wait_for");
  const deadline until = deadline_in(timeout);
  auto pause = std::chrono::microseconds{10};
  // An answer that has begun gets the time that the options give the owner.
  while (refresh(stream, std::max(until, deadline_in(options_.timeout))) < bytes) {
    if (!is_open() || std::chrono::steady_clock::now() >= until) return false;
    // The state page wakes no reader, so it is polled.
    const deadline next = std::min<deadline>(until, std::chrono::steady_clock::now() + pause);
    if (pause < std::chrono::milliseconds{1}) {
      std::this_thread::sleep_until(next);
    } else {
      listen(next);
    }
    pause = std::min<std::chrono::microseconds>(2 * pause, std::chrono::milliseconds{1});
  }
  return true;
}

}  // namespace hipvmm::detail

namespace hipvmm {

attached_region::attached_region(const std::string& path, const attach_options& options,
                                 element_identity elements)
    : session_{std::make_unique<detail::import_session>(path, options, elements)} {}
attached_region::~attached_region() = default;
attached_region::attached_region(attached_region&& other) noexcept = default;
attached_region& attached_region::operator=(attached_region&& other) noexcept = default;

detail::import_session& attached_region::live() const {
  if (session_ == nullptr)
    throw std::invalid_argument{"the attached_region is empty: it was moved from"};
  return *session_;
}

std::size_t attached_region::refresh(stream_ref stream) { return live().refresh(stream); }
bool attached_region::wait_for(std::size_t bytes, std::chrono::milliseconds timeout,
                               stream_ref stream) {
  return live().wait_for(bytes, timeout, stream);
}

std::size_t attached_region::bytes() const noexcept { return session_ ? session_->bytes() : 0; }
void* attached_region::data() const noexcept { return session_ ? session_->data() : nullptr; }
std::size_t attached_region::max_bytes() const noexcept {
  return session_ ? session_->memory().max_bytes() : 0;
}
device_ref attached_region::device() const { return live().memory().device(); }
bool attached_region::is_open() const noexcept { return session_ && session_->is_open(); }
std::vector<chunk_view> attached_region::chunks() const {
  return session_ ? session_->memory().chunks() : std::vector<chunk_view>{};
}

}  // namespace hipvmm
