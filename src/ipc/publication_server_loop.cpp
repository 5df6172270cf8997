// SPDX-License-Identifier: MIT
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <utility>

#include <hipvmm/ipc/ipc_error.hpp>
#include "core/descriptors.hpp"
#include "core/error.hpp"
#include "ipc/fault_point.hpp"
#include "ipc/identity.hpp"
#include "ipc/publication_server.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;

// The most connections that have not said hello, or are being refused.
constexpr std::size_t most_strangers = 64;

bool has_unread(const owned_descriptor& socket) {
  int bytes = 0;
  return ::ioctl(socket.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

/// The system's smallest limit of unread bytes, or one with room for a last sentence.
void set_room(const owned_descriptor& socket, int bytes) {
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes));
}
constexpr int least_room = 0;
constexpr int last_room = 1 << 15;
}  // namespace

void publication_server::serve() {
  while (!ends_) {
    try {
      serve_once();
    } catch (const std::bad_alloc&) {
      ::usleep(1000);  // importers wait, or connect again
    }
  }
}

void publication_server::serve_once() {
  std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
  // Without descriptors the connection stays in the queue, and poll() would return at once.
  waits.push_back({lacks_descriptors_ ? -1 : path_.listener(), POLLIN, 0});
  int limit = lacks_descriptors_ ? 10 : -1;
  const auto wake_within = [&limit](int ms) { limit = limit < 0 ? ms : std::min(limit, ms); };
  const auto now = std::chrono::steady_clock::now();
  if (const auto next = next_lease_end(now); next)
    wake_within(static_cast<int>(std::clamp<std::int64_t>(next->count(), 0, 60'000)));
  for (const importer& each : importers_) {
    const bool has_more = !each.queue.empty();
    // So that an importer that does not read, or is silent, is noticed.
    if (has_more || !each.is_known) wake_within(50);
    if (each.is_stalled) wake_within(1);
    int events = each.is_dropped ? 0 : POLLIN;
    if (has_more && !each.is_stalled) events |= POLLOUT;
    waits.push_back({each.socket.get(), static_cast<short>(events), 0});
  }
  // No event reports that the peer of a dropped connection has read or closed.
  forget_left();
  if (!leaving_.empty()) wake_within(50);
  lacks_descriptors_ = false;
  if (::poll(waits.data(), waits.size(), limit) < 0 && errno != EINTR) ::usleep(1000);
  if ((waits[0].revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
  }
  auto each = importers_.begin();
  for (std::size_t i = 2; i < waits.size(); ++i) {
    const auto one = each++;
    bool stays = false;
    try {
      stays = attend(*one, waits[i].revents, now);
    } catch (const std::bad_alloc&) {
      // The importer may connect again.
    }
    if (!stays) drop(one);
  }
  // Behind the reads: an acknowledgement that came in time counts even if this thread was late.
  end_leases(now);
  if ((waits[1].revents & POLLIN) != 0) accept_importers();
}

void publication_server::accept_importers() {
  // At most 8 at a time: the other importers wait meanwhile.
  for (int i = 0; i < 8; ++i) {
    const int planned = fault_point("accept4");
    owned_descriptor socket{
        planned != 0 ? -1
                     : ::accept4(path_.listener(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket.empty()) {
      const int code = planned != 0 ? planned : errno;
      lacks_descriptors_ = code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
      return;
    }
    set_room(socket, least_room);
    admit(std::move(socket));
  }
}

void publication_server::admit(owned_descriptor socket) {
  // In the list only after the check, which may throw.
  std::list<importer> made(1);
  importer& one = made.front();
  one.socket = std::move(socket);
  one.since = std::chrono::steady_clock::now();
  try {
    require_user(credentials_of(one.socket.get()), options_.other_users);
  } catch (const ipc_error& error) {
    refuse(one, error.what());
  }
  {
    const std::lock_guard lock{mutex_};
    importers_.splice(importers_.end(), made);
  }
  drop_oldest_stranger();
}

bool publication_server::is_full() const {
  const auto served = std::ranges::count_if(importers_, &importer::is_served);
  return static_cast<std::size_t>(served) + leaving_.size() >= options_.max_importers;
}

std::size_t publication_server::descriptors_in_packet(const importer& one) const noexcept {
  std::size_t in_packets = max_packet_descriptors * (leaving_.size() + 1);
  for (const importer& each : importers_)
    if (&each != &one && (!each.queue.empty() || has_unread(each.socket)))
      in_packets += each.in_packet;
  // Two packets may be on their way to each importer.
  return 2 * in_packets <= descriptor_limit() / 2 ? max_packet_descriptors : 1;
}

void publication_server::forget_left() {
  for (auto at = leaving_.begin(); at != leaving_.end();)
    at = has_unread(*at) ? std::next(at) : leaving_.erase(at);
}

void publication_server::drop_oldest_stranger() {
  const auto is_stranger = [](const importer& each) { return !each.is_served(); };
  const auto strangers = std::ranges::count_if(importers_, is_stranger);
  if (static_cast<std::size_t>(strangers) > most_strangers)
    drop(std::ranges::find_if(importers_, is_stranger));
}

bool publication_server::attend(importer& one, short events, deadline polled) {
  one.is_stalled = false;
  // A connection without input needs no memory, and stays even if there is none.
  if (!one.is_dropped && (events & ~POLLOUT) != 0 && !receive_from(one)) return false;
  if (!send_to(one, (events & POLLOUT) != 0)) return false;
  if (one.queue.empty()) {
    if (one.is_dropped) return false;
    if (one.is_known) one.since = std::chrono::steady_clock::now();
  }
  // Compared with the poll(): the next one notices reads since then, even if this thread is late.
  return polled < deadline_in(options_.patience, one.since);
}

bool publication_server::receive_from(importer& one) {
  received_packet next;
  try {
    transfer_result received{};
    if (!detail::attempt(
            [&] { received = receive_packet(one.socket.get(), next, peer_descriptors::refused); }))
      return false;
    switch (received) {
      case transfer_result::would_block:
        return true;
      case transfer_result::closed:
        return false;
      case transfer_result::done:
        break;
    }
  } catch (const ipc_error& error) {
    // Not reported, because any process could fill the error handler so. The peer gets the reason.
    refuse(one, error.what());
    return true;
  }
  if (one.queue.empty()) one.since = std::chrono::steady_clock::now();
  forget_left();
  one.in_packet = descriptors_in_packet(one);
  const auto* const request = std::get_if<request_packet>(&next.content);
  // The answer under way is sent to its end; others, of abandoned requests, are dropped.
  if (request != nullptr) {
    const auto end_of_first = std::ranges::find_if(one.queue, [](const outgoing& each) {
      return std::holds_alternative<complete_packet>(each.content);
    });
    if (end_of_first != one.queue.end()) one.queue.erase(std::next(end_of_first), one.queue.end());
  }
  {
    const std::lock_guard lock{mutex_};
    if (const auto* const hello = std::get_if<hello_packet>(&next.content);
        hello && !one.is_known) {
      answer(one, *hello);
      return true;
    }
    if (request != nullptr && one.is_known && request->epoch <= epoch_) {
      answer(one, *request);
      return true;
    }
  }
  refuse(one, "the packet is none that an importer sends at this point");
  return true;
}

bool publication_server::send_to(importer& one, bool is_writable) const {
  while (!one.queue.empty()) {
    const outgoing& next = one.queue.front();
    // A peer that does not read has two packets of descriptors at most: the buffer is the smallest.
    if (!next.handles.empty() && !is_writable) return true;
    std::vector<int> descriptors;
    for (const shared_descriptor& each : next.handles) descriptors.push_back(each->get());
    if (next.has_state_page) descriptors.push_back(state_->descriptor());
    try {
      switch (send_packet(one.socket.get(), next.content, descriptors)) {
        case transfer_result::would_block:
          // As many descriptors are on their way as there may be: poll() would return at once.
          one.is_stalled = is_writable;
          return true;
        case transfer_result::closed:
          return false;
        case transfer_result::done:
          break;
      }
    } catch (const ipc_error&) {
      return false;
    }
    is_writable = false;
    one.may_owe_reads |= !descriptors.empty();
    one.queue.pop_front();
    one.since = std::chrono::steady_clock::now();
  }
  return true;
}

void publication_server::answer(importer& one, const hello_packet& hello) {
  if (std::string why = why_refused(identity_, hello.identity); !why.empty())
    return refuse(one, std::move(why));
  if (is_full())
    return refuse(one, "the publication serves " + std::to_string(options_.max_importers) +
                           " importers, its limit: raise max_importers");
  one.is_known = true;
  one.queue.push_back(
      {welcome_packet{identity_, memory_.shape, epoch_, memory_.other_uuids}, {}, true});
}

void publication_server::answer(importer& one, const request_packet& request) {
  // An importer without chunks has no withdrawn one.
  one.applied = one.has_chunks ? std::max(one.applied, request.epoch) : epoch_;
  if (one.owes && one.applied >= one.owes->epoch) start_lease(one);
  // The importer learns of the withdrawal now: it gets a new lease, but only once.
  if (one.owes && !std::exchange(one.was_told, true)) one.lease_end = deadline_in(options_.lease);
  changed_.notify_all();
  forget_applied();
  one.queue.push_back({answer_packet{request.ticket, epoch_}, {}});
  if (one.has_chunks) {
    if (request.epoch < forgotten_)
      queue_present(one);
    else
      queue_withdrawn(one, request.epoch);
  }
  outgoing next{chunk_packet{}, {}};
  const auto send_chunks = [&] {
    if (next.handles.empty()) return;
    one.has_chunks = true;
    one.queue.push_back(std::exchange(next, outgoing{chunk_packet{}, {}}));
  };
  // By offset: ROCm 7.0 to 7.2 may refuse a chunk beside a hole.
  std::vector<const published_chunk*> fresh;
  for (const auto& [serial, each] : chunks_)
    if (each.epoch > request.epoch) fresh.push_back(&each);
  std::ranges::sort(fresh, {}, [](const published_chunk* each) { return each->place.offset; });
  for (const published_chunk* const each : fresh) {
    std::get<chunk_packet>(next.content).chunks.push_back(each->place);
    next.handles.push_back(each->handle);
    if (next.handles.size() == one.in_packet) send_chunks();
  }
  send_chunks();
  one.queue.push_back({complete_packet{request.ticket, epoch_}, {}});
}

void publication_server::queue_withdrawn(importer& one, std::uint64_t since) const {
  retired_packet next;
  const auto queue_next = [&] { one.queue.push_back({std::exchange(next, {}), {}}); };
  for (const withdrawn_chunk& each : withdrawn_) {
    if (each.went.epoch <= since) continue;
    next.chunks.push_back(each.place);
    if (next.chunks.size() == max_places_in_packet) queue_next();
  }
  if (!next.chunks.empty()) queue_next();
}

void publication_server::queue_present(importer& one) const {
  present_packet next;
  for (const auto& [serial, each] : chunks_) {
    if (next.chunks.size() == max_places_in_packet)
      one.queue.push_back({std::exchange(next, {}), {}});
    next.chunks.push_back(each.place);
  }
  // One packet at least, though it may be empty.
  one.queue.push_back({std::move(next), {}});
}

void publication_server::refuse(importer& one, std::string why) const {
  if (why.size() > max_packet_text) why.resize(max_packet_text);
  one.queue.clear();
  one.queue.push_back({refusal_packet{std::move(why)}, {}});
  one.is_dropped = true;
  set_room(one.socket, last_room);
}

void publication_server::start_lease(importer& one) const {
  one.owes = std::nullopt;
  one.was_told = false;
  if (options_.lease <= 0ms) return;
  const auto first = std::ranges::find_if(
      withdrawn_, [&one](const withdrawn_chunk& each) { return each.went.epoch > one.applied; });
  if (first == withdrawn_.end()) return;
  one.owes = first->went;
  one.lease_end = deadline_in(options_.lease, first->went.when);
}

std::optional<std::chrono::milliseconds> publication_server::next_lease_end(deadline now) const {
  std::optional<deadline> next;
  const std::lock_guard lock{mutex_};
  for (const importer& each : importers_)
    if (each.owes) next = next ? std::min(*next, each.lease_end) : each.lease_end;
  if (!next) return std::nullopt;
  return std::chrono::ceil<std::chrono::milliseconds>(*next - now);
}

void publication_server::end_leases(deadline now) {
  for (auto at = importers_.begin(); at != importers_.end();) {
    const auto one = at++;
    {
      const std::lock_guard lock{mutex_};
      if (!one->owes || now < one->lease_end) continue;
    }
    if (!has_unread(one->socket)) one->may_owe_reads = false;
    set_room(one->socket, last_room);
    // The importer finds the sentence at its next refresh. If its socket is full, only the end.
    try {
      static_cast<void>(send_packet(
          one->socket.get(),
          expired_packet{"this process has kept withdrawn memory for longer than " +
                         std::to_string(options_.lease.count()) +
                         " ms, the lease: refresh() more often, or publish with a longer one"}));
    } catch (const ipc_error&) {
    }
    drop(one);
  }
}

void publication_server::drop(std::list<importer>::iterator one) {
  std::list<importer> dropped;  // closed without the lock
  {
    const std::lock_guard lock{mutex_};
    dropped.splice(dropped.end(), importers_, one);
    changed_.notify_all();
    forget_applied();
  }
  owned_descriptor& socket = dropped.front().socket;
  // Closed, it would count no longer, but its descriptors would.
  const bool leaves = dropped.front().may_owe_reads && has_unread(socket);
  ::shutdown(socket.get(), SHUT_RDWR);
  if (leaves) leaving_.push_back(std::move(socket));
}

}  // namespace hipvmm::detail
