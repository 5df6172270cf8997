// SPDX-License-Identifier: MIT
#include "ipc/publication_server.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <stdexcept>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "ipc/fault_point.hpp"
#include "ipc/identity.hpp"
#include "runtime/host_function.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;

// Past this length, and that of the list of published chunks, old withdrawals are forgotten:
// importers that lack them get the list of published chunks instead.
constexpr std::size_t short_list = 256;

std::vector<device_ref> devices_of(device_ref device, const std::vector<device_ref>& others) {
  std::vector<device_ref> result{device};
  for (const device_ref each : others) {
    if (std::find(result.begin(), result.end(), each) != result.end())
      throw std::invalid_argument{"publication_options::other_devices names device " +
                                  std::to_string(each.ordinal()) +
                                  " twice, or the publication's: name each other one once"};
    result.push_back(each);
  }
  if (result.size() > max_published_devices)
    throw std::invalid_argument{"publication: memory of " + std::to_string(result.size()) +
                                " devices; it may be of " + std::to_string(max_published_devices) +
                                ": publish several parts"};
  for (const device_ref each : result) require_device(each);
  return result;
}

/// Zeros if the runtime reports none: importers then have to name the device.
std::array<unsigned char, 16> uuid_of(device_ref device) {
  try {
    return device.uuid().bytes;
  } catch (const unsupported&) {
    return {};
  }
}

owned_descriptor make_wake() {
  const int planned = fault_point("eventfd");
  owned_descriptor result{planned != 0 ? -1 : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (result.empty()) throw_system(planned != 0 ? planned : errno, "eventfd", "a publication");
  return result;
}

std::size_t backed_bytes(const std::vector<chunk_view>& chunks, std::size_t start) {
  std::size_t end = start;
  for (const chunk_view& each : chunks) {
    if (each.offset > end) break;
    end = std::max(end, each.offset + each.bytes);
  }
  return end - start;
}

}  // namespace

published_memory describe(device_ref device, const std::vector<device_ref>& others,
                          std::size_t max_bytes, const element_identity& elements) {
  published_memory result{{}, {}, devices_of(device, others)};
  std::size_t granule = 0;
  for (const device_ref each : result.devices)
    granule = std::max(granule, granularity_of(each).minimum);
  if (max_bytes == 0)
    throw std::invalid_argument{
        "publication: max_bytes is 0: give the bytes of addresses that importers reserve, such as "
        "region::max_bytes()"};
  const bool has_align = elements.align != 0 && (elements.align & (elements.align - 1)) == 0;
  if (elements.size != 0 && (!has_align || elements.size % elements.align != 0))
    throw std::invalid_argument{"publication: elements of " + std::to_string(elements.size) +
                                " bytes cannot be aligned to " + std::to_string(elements.align) +
                                ": give a power of two that divides the size"};
  publication_header& shape = result.shape;
  shape.device = uuid_of(device);
  shape.granularity = granule;
  shape.max_bytes = align_up(max_bytes, granule);
  shape.element_size = elements.size;
  shape.element_align = elements.align;
  shape.element_tag = elements.tag;
  for (const device_ref each : others) result.other_uuids.push_back(uuid_of(each));
  return result;
}

publication_server::publication_server(const std::string& path, published_memory memory,
                                       publication_options options)
    : options_{std::move(options)},
      path_{path, options_.other_users.empty() ? who_connects::same_user : who_connects::everybody},
      memory_{std::move(memory)},
      identity_{own_identity()},
      state_{std::make_shared<publication_page>()},
      wake_{make_wake()} {}

void publication_server::start() {
  if (!thread_.start())
    throw ipc_error{ipc_failure::system, "no thread can be started that serves " + path_.path() +
                                             ": the process is exiting, or has too many"};
}

publication_server::~publication_server() {
  // Before wake(), because the thread takes that only once.
  ends_ = true;
  wake();
  thread_.stop();
  // A child of fork() may have the connections too, which would keep them open.
  for (const importer& each : importers_) ::shutdown(each.socket.get(), SHUT_RDWR);
}

void publication_server::wake() noexcept {
  const std::uint64_t one = 1;
  // Cannot fail: the counter is far from its end.
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

void publication_server::require_own_process(const char* function) const {
  if (process_.is_of_parent())
    throw unsupported{std::string{"publication::"} + function +
                      " in a child of fork(): the thread that serves importers is in the parent; "
                      "publish there"};
}

std::size_t publication_server::importers() const {
  const std::lock_guard lock{mutex_};
  return static_cast<std::size_t>(std::ranges::count(importers_, true, &importer::is_known));
}

void publication_server::announce(
    const std::vector<chunk_view>& chunks, const void* start, std::size_t bytes,
    const std::function<std::vector<exported_chunk>(std::uint64_t)>& export_since,
    stream_ref stream) {
  std::uint64_t begin = 0;
  if (!chunks.empty()) {
    const chunk_view& first = chunks.front();
    const chunk_view& last = chunks.back();
    const auto* const base = static_cast<const char*>(first.address) - first.offset;
    if (bytes != 0) begin = static_cast<std::uint64_t>(static_cast<const char*>(start) - base);
    if (last.offset + last.bytes > memory_.shape.max_bytes)
      throw std::invalid_argument{"publication::announce: the memory reaches to " +
                                  format_bytes(last.offset + last.bytes) + ", past the " +
                                  format_bytes(memory_.shape.max_bytes) +
                                  " that importers have reserved: publish with a larger max_bytes"};
  }
  if (const std::size_t backed = backed_bytes(chunks, begin); bytes > backed)
    throw std::invalid_argument{"publication::announce: " + std::to_string(bytes) +
                                " bytes are to be read, and " + std::to_string(backed) +
                                " are backed from offset " + std::to_string(begin) +
                                " on: announce no more, or commit first"};
  const std::vector<device_ref>& devices = memory_.devices;
  device_by_serial present;
  for (const chunk_view& each : chunks) {
    const auto found = std::find(devices.begin(), devices.end(), each.device);
    if (found == devices.end())
      throw std::invalid_argument{"publication::announce: the chunk at offset " +
                                  std::to_string(each.offset) + " is memory of device " +
                                  std::to_string(each.device.ordinal()) +
                                  ": name it in publication_options::other_devices"};
    present.emplace(each.serial, static_cast<std::uint64_t>(found - devices.begin()));
  }
  std::uint64_t since = std::numeric_limits<std::uint64_t>::max();
  {
    const std::lock_guard lock{mutex_};
    for (const chunk_view& each : chunks) {
      // A new chunk may be older than known ones, if other memory was announced before.
      if (chunks_.count(each.serial) == 0) since = std::min(since, each.serial - 1);
    }
  }
  chunk_map fresh;
  if (since != std::numeric_limits<std::uint64_t>::max())
    for (exported_chunk& each : export_since(since)) {
      const auto listed = present.find(each.serial);
      if (listed == present.end()) continue;
      const chunk_record place{each.offset, each.handle.bytes(), each.serial, listed->second};
      fresh.emplace(
          each.serial,
          published_chunk{place, 0,
                          std::make_shared<const shareable_handle>(std::move(each.handle))});
    }
  const std::uint64_t number = replace_chunks(present, std::move(fresh), begin);
  // After the chunks are known, so that an importer that sees the size finds them.
  add_host_function(stream, [state = state_, number, begin, bytes](bool succeeded) {
    if (succeeded) state->set_range(number, {begin, begin + bytes});
  });
}

std::uint64_t publication_server::replace_chunks(const device_by_serial& present, chunk_map fresh,
                                                 std::uint64_t begin) {
  std::uint64_t number = 0;
  bool starts_leases = false;
  // Closed without the lock.
  std::vector<chunk_map::node_type> ended;
  {
    const std::lock_guard lock{mutex_};
    const bool has_fresh = std::ranges::any_of(
        fresh, [this](const auto& each) { return chunks_.count(each.first) == 0; });
    std::vector<chunk_map::iterator> gone;
    for (auto at = chunks_.begin(); at != chunks_.end(); ++at)
      if (present.count(at->first) == 0) gone.push_back(at);
    withdrawn_.reserve(withdrawn_.size() + gone.size());
    ended.reserve(gone.size());
    // Nothing from here on throws.
    number = ++announcements_;
    if (!gone.empty() || has_fresh) {
      const removal_notice next{epoch_ + 1, std::chrono::steady_clock::now()};
      std::uint64_t low = 0;
      std::uint64_t high = std::numeric_limits<std::uint64_t>::max();
      for (const auto at : gone) {
        const chunk_record& place = at->second.place;
        // Erased bytes at the front leave the rest unchanged.
        if (place.offset + place.bytes <= begin)
          low = begin;
        else
          high = std::min(high, place.offset);
        withdrawn_.push_back({at->second.place, next});
        ended.push_back(chunks_.extract(at));
      }
      for (auto& [serial, each] : fresh) each.epoch = next.epoch;
      chunks_.merge(fresh);
      epoch_ = next.epoch;
      // The replacement of a removed chunk is not written yet.
      if (!gone.empty()) state_->cut(number, low, high);
      state_->set_epoch(epoch_);
      if (!gone.empty()) {
        last_withdrawal_ = epoch_;
        for (importer& each : importers_)
          if (each.has_chunks && !each.owes) start_lease(each);
        starts_leases = options_.lease > 0ms;
      }
      forget_applied();
    }
  }
  if (starts_leases) wake();
  return number;
}

bool publication_server::wait_until_withdrawn(std::chrono::milliseconds timeout) {
  std::unique_lock lock{mutex_};
  const std::uint64_t epoch = last_withdrawal_;
  return changed_.wait_until(lock, deadline_in(timeout), [&] {
    return std::none_of(importers_.begin(), importers_.end(),
                        [&](const importer& one) { return one.has_chunks && one.applied < epoch; });
  });
}

void publication_server::forget_applied() {
  std::uint64_t least = epoch_;
  for (const importer& each : importers_)
    if (each.has_chunks) least = std::min(least, each.applied);
  std::erase_if(withdrawn_,
                [least](const withdrawn_chunk& each) { return each.went.epoch <= least; });
  // An importer that never refreshes must not let the list grow.
  const std::size_t most = std::max(short_list, chunks_.size());
  if (withdrawn_.size() <= most) return;
  const auto kept = withdrawn_.end() - static_cast<std::ptrdiff_t>(most);
  forgotten_ = std::prev(kept)->went.epoch;
  withdrawn_.erase(withdrawn_.begin(), kept);
}

}  // namespace hipvmm::detail
