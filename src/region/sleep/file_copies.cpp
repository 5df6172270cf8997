// SPDX-License-Identifier: MIT
#include "region/sleep/file_copies.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "core/descriptors.hpp"
#include "region/sleep/parallel_copies.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::size_t piece_of_file = 32 * MiB;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error{error, std::generic_category(), what};
}

int open_unnamed(const std::string& folder) {
  const int made = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  // Some file systems lack O_TMPFILE.
  if (made >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return made;
  std::string name = folder + "/hipvmm-sleep-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

std::string folder_of(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  return name == 0 ? "." : path.substr(0, name);
}

/// posix_fallocate() in parts: a signal ends a call, and Linux before 6 then takes back the room
/// that this call made in a file in memory.
int take_room(int file, std::size_t bytes) {
  constexpr std::size_t least = 64 * KiB;
  std::size_t part = piece_of_file;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t next = std::min(part, bytes - done);
    const int error = ::posix_fallocate(file, static_cast<off_t>(done), static_cast<off_t>(next));
    if (error != 0 && error != EINTR) return error;
    if (error == 0) done += next;
    if (error == EINTR) part = std::max(part / 2, least);
  }
  return 0;
}

}  // namespace

// zlib's crc32 is slower than a disk. Each step is a bijection, so that one changed word shows.
std::uint64_t checksum(const void* bytes, std::size_t count, std::uint64_t before) noexcept {
  std::uint64_t sum = before ^ count;
  const auto add = [&sum](const void* from, std::size_t part) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, part);
    sum = (sum ^ word) * 0x100000001B3;  // FNV's prime
    sum ^= sum >> 32;                    // else two changed highest bits would cancel out
  };
  const auto* const first = static_cast<const std::byte*>(bytes);
  std::size_t done = 0;
  for (; count - done >= sizeof(sum); done += sizeof(sum)) add(first + done, sizeof(sum));
  if (done != count) add(first + done, count - done);
  return sum;
}

template <class Make>
void backup_file::take(const std::string& folder, std::size_t bytes, Make make) {
  const std::string what = format_bytes(bytes) + " of contents; all of the tag stays awake";
  // A write beyond this limit would end the process by SIGXFSZ.
  struct rlimit most {};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes)
    fail(EFBIG, "the process may write files of at most " + format_limit(most.rlim_cur) +
                    " (ulimit -f), and has " + what);
  descriptor_ = make();
  if (descriptor_ < 0) fail(errno, "no file can be made in the folder " + folder);
  bytes_ = bytes;
  if (const int error = take_room(descriptor_, bytes))
    fail(error, "the folder " + folder + " has no room for " + what);
}

backup_file::backup_file(const std::string& folder, std::size_t bytes) {
  if (folder.empty())
    throw std::invalid_argument{
        "suspend: sleep_storage::file needs suspend_options::folder, which is empty: "
        "name a folder with room for the contents"};
  require_file_name(folder);
  if (bytes == 0) return;
  backup_file made;
  made.take(folder, bytes, [&] { return open_unnamed(folder); });
  swap(made);
}

backup_file backup_file::beside(const std::string& path, std::size_t bytes) {
  require_file_name(path);
  backup_file made;
  made.take(folder_of(path), bytes, [&] {
    std::string temporary = path + ".XXXXXX";
    const int opened = ::mkostemp(temporary.data(), O_CLOEXEC);
    if (opened >= 0) made.name_.swap(temporary);
    return opened;
  });
  return made;
}

backup_file backup_file::open(const std::string& path) {
  backup_file made;
  made.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat about {};
  if (made.empty() || ::fstat(made.descriptor_, &about) != 0) fail(errno, path);
  if (!S_ISREG(about.st_mode))
    throw std::invalid_argument{"it is no regular file: name one that save_checkpoint() wrote"};
  if (about.st_uid != ::geteuid())
    throw std::invalid_argument{"it belongs to user " + std::to_string(about.st_uid) +
                                ": name one of user " + std::to_string(::geteuid())};
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw std::invalid_argument{"others may write it: if you trust its contents, `chmod go-w`"};
  made.bytes_ = static_cast<std::size_t>(about.st_size);
  return made;
}

backup_file::~backup_file() {
  if (!name_.empty()) ::unlink(name_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void backup_file::take_name(const std::string& path) {
  // EINVAL: the file system has nothing to flush.
  const auto is_on_disk = [](int file) { return ::fsync(file) == 0 || errno == EINVAL; };
  backup_file folder;
  folder.descriptor_ = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool is_readable = !folder.empty();
  if ((!is_readable && errno != EACCES) || !is_on_disk(descriptor_) ||
      ::rename(name_.c_str(), path.c_str()) != 0)
    fail(errno, "the file cannot get the name " + path);
  name_.clear();
  // A folder that is not readable cannot be flushed.
  if (is_readable && !is_on_disk(folder.descriptor_))
    fail(errno, "a crash may lose the name of " + path);
}

void backup_file::write(const void* from, std::size_t bytes, std::size_t offset) const {
  const auto* at = static_cast<const char*>(from);
  while (bytes != 0) {
    const ssize_t written = ::pwrite(descriptor_, at, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO, "contents cannot be written to a file");
    at += written;
    offset += static_cast<std::size_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
}

void backup_file::read(void* to, std::size_t bytes, std::size_t offset) const {
  auto* at = static_cast<char*>(to);
  while (bytes != 0) {
    const ssize_t got = ::pread(descriptor_, at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(got < 0 ? errno : EIO, "contents cannot be read from a file");
    at += got;
    offset += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

file_copies::buffer::buffer(device_ref device, std::size_t most)
    : owner{device}, size{most}, memory{most}, stream{device} {}

file_copies::~file_copies() {
  if (drain()) return;
  for (std::optional<buffer>& each : buffers_)
    if (each && each->is_busy) each->memory.abandon();
}

void file_copies::add(const buffer& one, std::size_t bytes) const noexcept {
  if (sum_ != nullptr) *sum_ = checksum(one.memory.get(), bytes, *sum_);
}

void file_copies::finish(buffer& one) {
  if (!one.is_busy) return;
  one.stream.synchronize();
  one.is_busy = false;
  const backup_file* const to = std::exchange(one.file, nullptr);
  if (to == nullptr) return;
  add(one, one.bytes);
  to->write(one.memory.get(), one.bytes, one.offset);
}

file_copies::buffer& file_copies::next_buffer(device_ref device, std::size_t bytes) {
  std::optional<buffer>& next = buffers_[next_++ % 2];
  if (next) finish(*next);
  if (!next || next->owner != device || next->size < bytes) {
    // In a new thread device 0 is current, and CUDA would make a context there.
    const scoped_device scope{device};
    next.reset();
    next.emplace(device, bytes);
  }
  return *next;
}

void file_copies::save(device_ref device, const void* from, std::size_t bytes,
                       const backup_file& file, std::size_t offset) {
  for (std::size_t done = 0; done < bytes; done += piece_of_file) {
    const std::size_t part = std::min(piece_of_file, bytes - done);
    buffer& one = next_buffer(device, part);
    one.bytes = part;
    one.offset = offset + done;
    one.is_busy = true;
    copy_async(one.stream, one.memory.get(), static_cast<const std::byte*>(from) + done, part);
    one.file = &file;
  }
}

void file_copies::load(device_ref device, void* to, std::size_t bytes, const backup_file& file,
                       std::size_t offset) {
  for (std::size_t done = 0; done < bytes; done += piece_of_file) {
    const std::size_t part = std::min(piece_of_file, bytes - done);
    buffer& one = next_buffer(device, part);
    file.read(one.memory.get(), part, offset + done);
    add(one, part);
    one.is_busy = true;
    copy_async(one.stream, static_cast<std::byte*>(to) + done, one.memory.get(), part);
  }
}

void file_copies::finish() {
  for (std::size_t i = 0; i < 2; ++i)  // the older first
    if (std::optional<buffer>& each = buffers_[(next_ + i) % 2]) finish(*each);
}

bool file_copies::drain() noexcept {
  bool drained = true;
  for (std::optional<buffer>& each : buffers_) {
    if (!each || !each->is_busy) continue;
    each->is_busy = !waits_for(each->stream);
    drained = drained && !each->is_busy;
  }
  return drained;
}

}  // namespace hipvmm::detail
