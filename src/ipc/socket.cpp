// SPDX-License-Identifier: MIT
#include "ipc/socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include "core/descriptors.hpp"
#include "ipc/fault_point.hpp"
#include "vmm/descriptor_closer.hpp"

namespace hipvmm::detail {
namespace {

/// SCM_MAX_FD, the most that the system passes at once.
constexpr std::size_t most_descriptors_sent = 253;

template <std::size_t Count>
struct control_buffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * Count)> bytes{};
};

template <typename Call>
ssize_t system_call(const char* step, Call call) {
  if (const int planned = fault_point(step); planned != 0) {
    errno = planned;
    return -1;
  }
  for (;;) {
    const ssize_t result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

bool is_gone(int code) {
  return code == EPIPE || code == ECONNRESET || code == ENOTCONN || code == ECONNREFUSED;
}

/// Pre: `result` has room for most_descriptors_sent.
void take_descriptors(msghdr& message, std::vector<owned_descriptor>& result) {
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(each) + i * sizeof(int), sizeof descriptor);
      result.emplace_back(descriptor);
    }
  }
}

/// Takes a packet without its descriptors, which take_descriptors() has: the system closes none.
void discard_packet(int socket) {
  while (::recv(socket, nullptr, 0, MSG_DONTWAIT) < 0 && (errno == EINTR || errno == ECONNRESET)) {
  }
}

[[noreturn]] void throw_too_few(std::size_t got, std::size_t promised) {
  throw out_of_memory{
      exhausted::descriptors, -1, 0, 0,
      "of the descriptors of a packet, which says that it has " + std::to_string(promised) + ", " +
          std::to_string(got) + " could be received, and this process may have " +
          std::to_string(descriptor_limit()) + " (RLIMIT_NOFILE): receive it again then"};
}

[[noreturn]] void throw_malformed(const std::string& what) {
  throw ipc_error{ipc_failure::malformed, what + "; the peer does not speak hipvmm's protocol"};
}

/// The user as whom the system shows users that this namespace lacks.
::uid_t overflow_user() {
  static const ::uid_t found = [] {
    ::uid_t number = 65534;
    std::ifstream{"/proc/sys/kernel/overflowuid"} >> number;
    return number;
  }();
  return found;
}

bool wait_for(int socket, short what, deadline until) {
  for (;;) {
    pollfd waits{socket, what, 0};
    const ssize_t ready = system_call("poll", [&] {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      return ::poll(&waits, 1, static_cast<int>(std::clamp<long long>(left.count(), 0, 60'000)));
    });
    if (ready > 0) return true;
    if (ready < 0) throw_system(errno, "poll", "a connection");
    if (std::chrono::steady_clock::now() >= until) return false;
  }
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  return address;
}

}  // namespace

owned_descriptor::~owned_descriptor() { close_foreign(release()); }

void throw_system(int code, const char* call, const std::string& subject) {
  const std::string reason = std::generic_category().message(code);
  if (code == EMFILE || code == ENFILE)
    throw out_of_memory{exhausted::descriptors, -1, 0, 0,
                        std::string{call} + " for " + subject + ": " + reason};
  throw ipc_error{ipc_failure::system,
                  std::string{call} + " failed for " + subject + ": " + reason};
}

int failure_of(const char* step, int result) {
  if (const int planned = fault_point(step); planned != 0) return planned;
  return result < 0 ? errno : 0;
}

peer_credentials credentials_of(int socket) {
  ucred found{};
  socklen_t bytes = sizeof found;
  if (system_call("getsockopt", [&] {
        return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &bytes);
      }) != 0)
    throw_system(errno, "getsockopt(SO_PEERCRED)", "a connection");
  return {found.pid, found.uid};
}

void require_user(const peer_credentials& peer, const std::vector<unsigned>& others) {
  const ::uid_t own = ::geteuid();
  // All users of other namespaces show as this one.
  if (peer.user == overflow_user())
    throw ipc_error{ipc_failure::refused,
                    "process " + std::to_string(peer.process) + " runs as user " +
                        std::to_string(peer.user) +
                        " (/proc/sys/kernel/overflowuid), by which the system shows any user of "
                        "another namespace: run it as a user that this one's namespace has"};
  if (peer.user == own || std::ranges::find(others, peer.user) != others.end()) return;
  throw ipc_error{ipc_failure::refused,
                  "process " + std::to_string(peer.process) + " runs as user " +
                      std::to_string(peer.user) + ", this one as " + std::to_string(own) +
                      ": name that user in other_users if it may use this memory"};
}

transfer_result send_packet(int socket, const packet& content,
                            const std::vector<int>& descriptors) {
  std::vector<unsigned char> bytes = encode(content, descriptors.size());
  iovec data{bytes.data(), bytes.size()};
  control_buffer<max_packet_descriptors> control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  }
  if (system_call("sendmsg",
                  [&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT); }) >= 0)
    return transfer_result::done;
  const int code = errno;
  // ETOOMANYREFS: as many descriptors of this user are on their way as it may have open.
  if (code == EAGAIN || code == EWOULDBLOCK || code == ENOBUFS || code == ETOOMANYREFS)
    return transfer_result::would_block;
  if (is_gone(code)) return transfer_result::closed;
  throw_system(code, "sendmsg", "a connection");
}

transfer_result send_until(int socket, const packet& content, const std::vector<int>& descriptors,
                           deadline until) {
  for (;;) {
    const transfer_result result = send_packet(socket, content, descriptors);
    if (result != transfer_result::would_block || !wait_writable(socket, until) ||
        std::chrono::steady_clock::now() >= until)
      return result;
    // The socket may be writable though buffers lack, or too many descriptors are on their way.
    ::usleep(100);
  }
}

transfer_result receive_packet(int socket, received_packet& into, peer_descriptors which) {
  // One byte more than any packet has, or a longer one would seem whole.
  std::array<unsigned char, max_packet_bytes + 1> bytes;
  iovec data{bytes.data(), bytes.size()};
  control_buffer<most_descriptors_sent> control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  std::vector<owned_descriptor> descriptors;
  if (which == peer_descriptors::accepted) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    // Now, because it may throw: the system has made no descriptors yet.
    descriptors.reserve(most_descriptors_sent);
  }
  // Peeks: while the socket has the packet, the system closes none of its descriptors.
  const auto look = [&] {
    return ::recvmsg(socket, &message, MSG_PEEK | MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  };
  ssize_t got = system_call("recvmsg", look);
  // If a peer closed without having read all, its earlier packets come next.
  if (got < 0 && errno == ECONNRESET) got = look();
  if (got < 0) {
    const int code = errno;
    if (code == EAGAIN || code == EWOULDBLOCK) return transfer_result::would_block;
    if (is_gone(code)) return transfer_result::closed;
    throw_system(code, "recvmsg", "a connection");
  }
  take_descriptors(message, descriptors);
  // An empty packet and the end of the connection are the same to the system.
  if (got == 0) return transfer_result::closed;
  const auto length = static_cast<std::size_t>(got);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    if (which == peer_descriptors::refused)
      throw_malformed("a packet came with descriptors, and none may be sent");
    const std::size_t promised = promised_descriptors(bytes.data(), length);
    if (descriptors.size() >= promised)
      throw_malformed("a packet came with more descriptors than it says");
    throw_too_few(descriptors.size(), promised);
  }
  discard_packet(socket);
  if ((message.msg_flags & MSG_TRUNC) != 0)
    throw_malformed("a packet was cut off: it is longer than 1024 bytes");
  if (descriptors.size() > max_packet_descriptors)
    throw_malformed("a packet came with more than 16 descriptors");
  decoded_packet decoded = decode(bytes.data(), length, descriptors.size());
  if (!decoded.content)
    throw ipc_error{ipc_failure::malformed, "a packet of " + std::to_string(length) +
                                                " bytes with " +
                                                std::to_string(descriptors.size()) +
                                                " descriptors was refused: " + decoded.wrong};
  into = {std::move(*decoded.content), std::move(descriptors)};
  return transfer_result::done;
}

bool wait_readable(int socket, deadline until) { return wait_for(socket, POLLIN, until); }
bool wait_writable(int socket, deadline until) { return wait_for(socket, POLLOUT, until); }

owned_descriptor make_socket() {
  owned_descriptor result{static_cast<int>(system_call("socket", [] {
    return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }))};
  if (result.empty()) throw_system(errno, "socket", "a connection");
  return result;
}

void require_socket_path(const std::string& path, std::size_t extra) {
  const std::size_t most = sizeof(sockaddr_un::sun_path) - 1 - extra;
  if (path.empty() || path.size() > most || path.find('\0') != std::string::npos)
    throw std::invalid_argument{"the path of a socket has 1 to " + std::to_string(most) +
                                " characters (the system's limit), this one " +
                                std::to_string(path.size()) + ": \"" + path + "\""};
}

connection connect_to(const std::string& path) {
  require_socket_path(path, 0);
  owned_descriptor socket = make_socket();
  const sockaddr_un address = address_of(path);
  if (system_call("connect", [&] {
        return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
      }) == 0)
    return {listener_state::answered, std::move(socket)};
  const int code = errno;
  if (code == ENOENT || code == ECONNREFUSED) return {listener_state::absent, {}};
  if (code == EAGAIN) return {listener_state::busy, {}};
  throw_system(code, "connect", path);
}

connection connect_until(const std::string& path, deadline until) {
  for (;;) {
    connection made = connect_to(path);
    if (made.state != listener_state::busy || std::chrono::steady_clock::now() >= until)
      return made;
    ::usleep(1000);  // no call waits for room in the listener's queue
  }
}

void bind_to(int socket, const std::string& path, who_connects who) {
  // The file is made with this mode: others can connect at no moment.
  if (::fchmod(socket, who == who_connects::everybody ? 0666 : 0600) != 0)
    throw_system(errno, "fchmod", path);
  const sockaddr_un address = address_of(path);
  if (system_call("bind", [&] {
        return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
      }) != 0)
    throw_system(errno, "bind", path);
  if (who == who_connects::same_user) return;
  // Undoes the umask, which all threads share; by a descriptor, because the name may be another's.
  const int planned = fault_point("open");
  const owned_descriptor made{planned != 0 ? -1
                                           : ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)};
  if (made.empty()) throw_system(planned != 0 ? planned : errno, "open", path);
  struct stat about {};
  if (::fstat(made.get(), &about) != 0 || !S_ISSOCK(about.st_mode) || about.st_uid != ::geteuid())
    throw_system(ESTALE, "bind", path);
  if (::chmod(("/proc/self/fd/" + std::to_string(made.get())).c_str(), 0666) != 0)
    throw_system(errno, "chmod", path);
}

}  // namespace hipvmm::detail
