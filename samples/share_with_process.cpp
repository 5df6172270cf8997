// SPDX-License-Identifier: MIT
// A second process reads device memory of the first: the chunk behind it is exported as a file
// descriptor, which a Unix socket carries over and the second process imports and maps.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace {

[[noreturn]] void throw_errno(const char* call) {
  throw std::system_error{errno, std::generic_category(), call};
}

std::vector<unsigned char> pattern(std::size_t bytes) {
  std::vector<unsigned char> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<unsigned char>(i * 7 + i / 251);
  return result;
}

/// The message that carries a chunk: its size as data, its descriptor beside it.
struct letter {
  std::size_t bytes = 0;
  iovec data = {&bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {nullptr, 0, &data, 1, control, sizeof control, 0};
};

void send_chunk(int socket, const hipvmm::shareable_handle& handle) {
  letter message;
  message.bytes = handle.bytes();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = handle.get();
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  if (::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0) throw_errno("sendmsg");
}

/// Empty when the other side went away without sending anything.
hipvmm::shareable_handle receive_chunk(int socket) {
  letter message;
  const ssize_t got = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  if (got < 0) throw_errno("recvmsg");
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  if (got != sizeof message.bytes || rights == nullptr) return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
  return {descriptor, message.bytes};
}

/// A chunk at an address, accessible to its device.
struct mapped_chunk {
  explicit mapped_chunk(const hipvmm::physical_chunk& chunk)
      : addresses{chunk.bytes()}, mapped{addresses, 0, chunk} {
    hipvmm::set_access(mapped.get(), mapped.bytes(),
                       {chunk.device(), hipvmm::access_right::read_write});
  }
  hipvmm::address_reservation addresses;
  hipvmm::mapping mapped;
};

/// What a chunk says that was not made to be shared.
void export_plain_chunk(hipvmm::device_ref device) {
  hipvmm::physical_chunk plain{device, hipvmm::granularity_of(device).recommended};
  try {
    const hipvmm::shareable_handle handle{plain};
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
}

void write_and_send(int socket) {
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::physical_chunk chunk{device, hipvmm::granularity_of(device).recommended,
                               hipvmm::handle_type::posix_fd};
  const mapped_chunk memory{chunk};
  hipvmm::copy(stream, memory.mapped.get(), pattern(chunk.bytes()).data(), chunk.bytes());
  send_chunk(socket, hipvmm::shareable_handle{chunk});
  export_plain_chunk(device);
}

bool receive_and_read(int socket) {
  const hipvmm::shareable_handle handle = receive_chunk(socket);
  if (handle.empty()) return false;  // the sender says why
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  const hipvmm::physical_chunk chunk = hipvmm::import_chunk(handle, device);
  const mapped_chunk memory{chunk};
  std::vector<unsigned char> host(chunk.bytes());
  hipvmm::copy(stream, host.data(), memory.mapped.get(), host.size());
  if (host != pattern(host.size())) throw std::runtime_error{"read other bytes than were written"};
  std::printf("process %d read %zu bytes that process %d wrote on device %d\n", ::getpid(),
              host.size(), ::getppid(), device.ordinal());
  return true;
}

/// Runs one side and turns its exceptions into a sentence.
template <typename Side>
bool succeeds(const char* side, Side run) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "share_with_process: %s: %s\n", side, error.what());
    return false;
  }
}

}  // namespace

int main() {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    std::perror("share_with_process: socketpair");
    return 1;
  }
  // Before the first HIP call: a runtime that is already running does not survive fork.
  const pid_t reader = ::fork();
  if (reader < 0) {
    std::perror("share_with_process: fork");
    return 1;
  }
  ::close(sockets[reader == 0 ? 0 : 1]);
  const int socket = sockets[reader == 0 ? 1 : 0];
  if (reader == 0) return succeeds("reader", [&] { return receive_and_read(socket); }) ? 0 : 1;

  const bool sent = succeeds("writer", [&] {
    write_and_send(socket);
    return true;
  });
  ::close(socket);
  int status = 0;
  const bool read = ::waitpid(reader, &status, 0) == reader && status == 0;
  return sent && read ? 0 : 1;
}
