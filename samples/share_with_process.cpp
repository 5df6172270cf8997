// SPDX-License-Identifier: MIT
// A second process reads a vector of the first while it grows: the chunks behind it are exported as
// file descriptors, which a Unix socket carries over, and the second process maps each at its place
// in the vector. Old chunks stay mapped; only new chunks are sent.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace {

[[noreturn]] void throw_errno(const char* call) {
  throw std::system_error{errno, std::generic_category(), call};
}

constexpr std::size_t max_bytes = 64 * hipvmm::MiB;  // of addresses, in both processes
constexpr std::size_t steps = 3;
constexpr std::size_t step_size = 3'000'000;

/// The message that carries a chunk, as a descriptor beside its place, or says how many elements
/// may be read.
struct letter {
  struct content {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    std::size_t size = 0;
  };
  content what;
  iovec data = {&what, sizeof what};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {nullptr, 0, &data, 1, control, sizeof control, 0};
};

void send_chunk(int socket, const hipvmm::exported_chunk& chunk) {
  letter message;
  message.what = {chunk.offset, chunk.handle.bytes(), 0};
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = chunk.handle.get();
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  if (::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0) throw_errno("sendmsg");
}

void send_size(int socket, std::size_t size) {
  letter message;
  message.what.size = size;
  message.header.msg_controllen = 0;
  if (::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0) throw_errno("sendmsg");
}

/// A message, and its chunk if it has one; nothing if the other side has gone away.
struct received {
  std::optional<letter::content> what;
  hipvmm::shareable_handle chunk;
};

received receive(int socket) {
  letter message;
  const ssize_t got = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  if (got < 0) throw_errno("recvmsg");
  received result;
  if (const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header)) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
    result.chunk = {descriptor, message.what.bytes};
  }
  if (got == sizeof message.what) result.what = message.what;
  return result;
}

/// Sends the chunks that `numbers` got behind the one of serial `last`, and returns the last
/// serial.
std::uint64_t send_new_chunks(int socket, hipvmm::growable_device_vector<int>& numbers,
                              std::uint64_t last) {
  for (const hipvmm::exported_chunk& chunk : numbers.export_chunks(last)) {
    send_chunk(socket, chunk);
    last = chunk.serial;
  }
  return last;
}

/// The refusal by a vector that was not made to be shared.
void export_plain_vector(hipvmm::device_ref device) {
  hipvmm::growable_device_vector<int> plain{device};
  plain.reserve(1);
  try {
    static_cast<void>(plain.export_chunks());
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
}

void grow_and_send(int socket) {
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::growth_options options;
  options.max_bytes = max_bytes;
  options.past_max = hipvmm::past_max_size::refuse;
  options.chunks.shareable = hipvmm::handle_type::posix_fd;
  hipvmm::growable_device_vector<int> numbers{device, options};
  std::uint64_t last = 0;
  for (std::size_t step = 1; step <= steps; ++step) {
    numbers.resize(step * step_size, static_cast<int>(step), stream);
    last = send_new_chunks(socket, numbers, last);
    stream.synchronize();  // before the other process hears of the elements
    send_size(socket, numbers.size());
  }
  export_plain_vector(device);
}

/// Whether `numbers` has a step of ones, then one of twos, and so on.
bool is_as_written(const std::vector<int>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != static_cast<int>(i / step_size + 1)) return false;
  return true;
}

bool receive_and_read(int socket) {
  received next = receive(socket);
  if (!next.what) return false;  // the sender says why
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::region mirror{device, max_bytes};
  std::size_t seen = 0;
  for (; next.what; next = receive(socket)) {
    if (!next.chunk.empty()) {
      mirror.adopt(next.what->offset, hipvmm::import_chunk(next.chunk, device));
      continue;
    }
    std::vector<int> numbers(next.what->size);
    hipvmm::copy(stream, numbers.data(), mirror.base(), numbers.size() * sizeof(int));
    if (!is_as_written(numbers)) throw std::runtime_error{"read other numbers than were written"};
    seen = numbers.size();
  }
  if (seen != steps * step_size) return false;
  std::printf("process %d read %zu ints in %zu chunks that process %d wrote on device %d\n",
              ::getpid(), seen, mirror.chunk_count(), ::getppid(), device.ordinal());
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
    grow_and_send(socket);
    return true;
  });
  ::close(socket);
  int status = 0;
  const bool read = ::waitpid(reader, &status, 0) == reader && status == 0;
  return sent && read ? 0 : 1;
}
