// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/publication.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hipvmm/ipc/ipc_error.hpp>
#include "core/background_thread.hpp"
#include "core/check.hpp"
#include "ipc/publication_server.hpp"
#include "ipc/subscription.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;

// The state page wakes no reader, so a keeper polls it at this interval.
constexpr std::chrono::milliseconds between_looks = 5ms;
// The longest wait for an owner's answer, and for the end of a keeper; doubled for a late owner.
constexpr std::chrono::milliseconds first_look = 200ms;

}  // namespace

/// Passes on the owner's descriptors until the owner ends, and then leaves everything as it is.
/// Calls HIP only for its version.
class keeper final : private subscription {
 public:
  keeper(const std::string& from, std::chrono::milliseconds timeout);

  /// Publishes at `path`, and follows from then on. The result must outlive this object.
  [[nodiscard]] std::unique_ptr<publication_server> publish(const std::string& path,
                                                            publication_options options);
  using subscription::path;
  [[nodiscard]] bool follows() const noexcept { return follows_; }

 private:
  struct kept_chunk {
    chunk_record place;
    shared_descriptor handle;
  };

  using chunks_by_offset = std::map<std::uint64_t, kept_chunk>;

  void follow(const std::stop_token& stop);
  void follow_once();
  void pass_on();
  void add(std::vector<sent_chunk>& fresh) override;
  void remove(std::uint64_t offset, std::uint64_t bytes) override;
  [[nodiscard]] std::uint64_t backed_from(std::uint64_t begin) const override;
  [[noreturn]] void let_go(const std::string& why) override;

  const std::chrono::milliseconds patience_;
  std::chrono::milliseconds look_ = first_look;
  published_memory memory_;
  chunks_by_offset kept_;
  publication_server* to_ = nullptr;
  bool has_changed_ = true;  // kept_, since pass_on()
  byte_range passed_on_{};
  std::atomic<bool> follows_{false};
  background_thread thread_{[this](const std::stop_token& stop) { follow(stop); }};
};

keeper::keeper(const std::string& from, std::chrono::milliseconds timeout)
    : subscription{from, {}, timeout}, patience_{timeout} {
  deadline until = deadline_in(timeout);
  welcome_packet welcome = connect({}, until);
  memory_ = {welcome.shape, std::move(welcome.other_devices), {}};
  refresh(until);
}

std::unique_ptr<publication_server> keeper::publish(const std::string& path,
                                                    publication_options options) {
  auto made = std::make_unique<publication_server>(path, memory_, std::move(options));
  to_ = made.get();
  pass_on();
  made->start();
  follows_ = true;
  if (!thread_.start())
    throw ipc_error{ipc_failure::system, "no thread can be started that follows " + this->path() +
                                             ": the process is exiting, or has too many"};
  return made;
}

void keeper::follow(const std::stop_token& stop) {
  while (is_open() && !stop.stop_requested()) {
    try {
      follow_once();
    } catch (const ipc_error& error) {
      // A late owner may still answer. One that breaks the protocol is followed no longer.
      if (error.reason() == ipc_failure::timeout) {
        look_ = std::min(2 * look_, std::max(patience_, first_look));
        continue;
      }
      report_caught();
      disconnect();
    } catch (const std::exception&) {
      // Memory or descriptors may come back.
      std::this_thread::sleep_for(between_looks);
    }
  }
  follows_ = false;
}

void keeper::follow_once() {
  // Passes on changes that came before a timeout.
  pass_on();
  if (has_news()) refresh(deadline_in(look_));
  pass_on();
  listen(deadline_in(between_looks));
  if (is_open()) return;
  // The page has the owner's last range, which holds if all chunks are here.
  refresh(deadline_in(look_));
  pass_on();
}

void keeper::pass_on() {
  if (!has_changed_ && readable() == passed_on_) return;
  publication_server::device_by_serial present;
  publication_server::chunk_map all;
  for (const auto& [offset, each] : kept_) {
    present.emplace(each.place.serial, each.place.device);
    all.emplace(each.place.serial, publication_server::published_chunk{each.place, 0, each.handle});
  }
  const byte_range range = readable();
  to_->set_range(to_->replace_chunks(present, std::move(all), range.begin), range);
  passed_on_ = range;
  has_changed_ = false;
}

void keeper::add(std::vector<sent_chunk>& fresh) {
  chunks_by_offset made;
  for (sent_chunk& each : fresh) {
    const chunk_record place = each.place;
    for (const chunks_by_offset* const there : {&kept_, &made}) {
      const auto behind = there->lower_bound(place.offset + place.bytes);
      if (behind == there->begin()) continue;
      const auto& [offset, before] = *std::prev(behind);
      if (offset + before.place.bytes > place.offset)
        throw std::invalid_argument{"two chunks have the byte at offset " +
                                    std::to_string(std::max(offset, place.offset))};
    }
    made.emplace(
        place.offset,
        kept_chunk{place, std::make_shared<const shareable_handle>(std::move(each.handle))});
  }
  kept_.merge(made);
  has_changed_ = true;
}

void keeper::remove(std::uint64_t offset, std::uint64_t bytes) {
  kept_.erase(kept_.lower_bound(offset), kept_.lower_bound(offset + bytes));
  has_changed_ = true;
}

std::uint64_t keeper::backed_from(std::uint64_t begin) const {
  std::uint64_t end = begin;
  for (const auto& [offset, each] : kept_) {
    if (offset > end) break;
    end = std::max(end, offset + each.place.bytes);
  }
  return end - begin;
}

void keeper::let_go(const std::string& why) { throw ipc_error{ipc_failure::expired, why}; }

}  // namespace hipvmm::detail

namespace hipvmm {

publication::publication(const std::string& path, device_ref device, std::size_t max_bytes,
                         element_identity elements, publication_options options)
    : publisher_{std::make_unique<detail::publication_server>(
          path, detail::describe(device, options.other_devices, max_bytes, elements),
          std::move(options))} {
  publisher_->start();
}

publication::publication(std::unique_ptr<detail::publication_server> made,
                         std::unique_ptr<detail::keeper> keeper) noexcept
    : publisher_{std::move(made)}, keeper_{std::move(keeper)} {}

publication publication::keep(const std::string& from, const std::string& path,
                              publication_options options) {
  if (!options.other_devices.empty())
    throw std::invalid_argument{
        "publication::keep: publication_options::other_devices: the devices are those of the "
        "publication at " +
        from + ", so name none"};
  auto keeper = std::make_unique<detail::keeper>(from, options.patience);
  auto made = keeper->publish(path, std::move(options));
  return {std::move(made), std::move(keeper)};
}

bool publication::follows() const noexcept { return keeper_ && keeper_->follows(); }

publication::~publication() {
  if (publisher_ == nullptr || !publisher_->is_of_parent()) return;
  publisher_->abandon();
  // Their destructors could wait for threads, which only the parent has.
  static_cast<void>(keeper_.release());
  static_cast<void>(publisher_.release());
}

publication::publication(publication&& other) noexcept = default;

publication& publication::operator=(publication&& other) noexcept {
  publication moved{std::move(other)};
  std::swap(publisher_, moved.publisher_);
  std::swap(keeper_, moved.keeper_);
  return *this;
}

detail::publication_server& publication::live() const {
  if (publisher_ == nullptr)
    throw std::invalid_argument{"the publication is empty: it was moved from"};
  return *publisher_;
}

void publication::announce(region& memory, std::size_t bytes, stream_ref stream) {
  announce(memory, 0, bytes, stream);
}

void publication::announce(region& memory, std::size_t offset, std::size_t bytes,
                           stream_ref stream) {
  if (offset > memory.max_bytes())
    throw std::invalid_argument{"publication::announce: offset " + std::to_string(offset) +
                                " is behind the " + std::to_string(memory.max_bytes()) +
                                " bytes of the region"};
  announce_chunks(
      memory.chunks(), static_cast<const char*>(memory.base()) + offset, bytes,
      [&memory](std::uint64_t since) { return memory.export_chunks(since); }, stream);
}

void publication::announce_chunks(const std::vector<chunk_view>& chunks, const void* start,
                                  std::size_t bytes, const exporter& export_since,
                                  stream_ref stream) {
  live().require_own_process("announce");
  if (keeper_)
    throw std::invalid_argument{"publication::announce: " + path() + " keeps the memory of " +
                                keeper_->path() + ": announce there"};
  live().announce(chunks, start, bytes, export_since, stream);
}

bool publication::wait_until_withdrawn(std::chrono::milliseconds timeout) {
  live().require_own_process("wait_until_withdrawn");
  return live().wait_until_withdrawn(timeout);
}

const std::string& publication::path() const noexcept {
  static const std::string none;
  return publisher_ ? publisher_->path() : none;
}
std::size_t publication::max_bytes() const noexcept {
  return publisher_ ? publisher_->max_bytes() : 0;
}

std::size_t publication::importers() const {
  live().require_own_process("importers");
  return live().importers();
}

}  // namespace hipvmm
