// SPDX-License-Identifier: MIT
#include "ipc/publication_page.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <new>  // IWYU pragma: keep

#include <hipvmm/ipc/ipc_error.hpp>
#include "core/write_signals.hpp"
#include "ipc/fault_point.hpp"

// Older C libraries lack it; Linux has it from 5.1 on.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace hipvmm::detail {
namespace {

constexpr const char* subject = "the state page of a publication";
constexpr int owner_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;

void* map_page(int descriptor, int protection) {
  const int planned = fault_point("mmap");
  void* const mapped =
      planned != 0 ? MAP_FAILED
                   : ::mmap(nullptr, state_page_bytes, protection, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) throw_system(planned != 0 ? planned : errno, "mmap", subject);
  return mapped;
}

}  // namespace

publication_page::publication_page()
    : descriptor_{::memfd_create("hipvmm publication", MFD_CLOEXEC | MFD_ALLOW_SEALING)} {
  if (const int code = failure_of("memfd_create", descriptor_.get()); code != 0)
    throw_system(code, "memfd_create", subject);
  const without_write_signals failing;
  const int sized = failure_of("ftruncate", ::ftruncate(descriptor_.get(), state_page_bytes));
  if (sized != 0) throw_system(sized, "ftruncate", subject);
  void* const mapped = map_page(descriptor_.get(), PROT_READ | PROT_WRITE);
  // This mapping stays writable; later ones cannot be.
  if (const int code = failure_of("fcntl", ::fcntl(descriptor_.get(), F_ADD_SEALS, owner_seals));
      code != 0) {
    ::munmap(mapped, state_page_bytes);
    throw_system(code, "fcntl(F_ADD_SEALS)", subject);
  }
  state_ = new (mapped) publication_counters{};
}

publication_page::~publication_page() { ::munmap(state_, state_page_bytes); }

void publication_page::set_range(std::uint64_t number, byte_range readable) noexcept {
  const std::lock_guard lock{mutex_};
  if (number <= last_number_) return;
  last_number_ = number;
  store(number < cut_number_ ? readable.within(cut_.begin, cut_.end) : readable);
}

void publication_page::cut(std::uint64_t number, std::uint64_t low, std::uint64_t high) noexcept {
  const std::lock_guard lock{mutex_};
  // An earlier cut may be waiting for its announcement: the smaller range serves for both.
  cut_ = last_number_ < cut_number_ ? cut_.within(low, high) : byte_range{low, high};
  cut_number_ = number;
  store(readable_.within(low, high));
}

void publication_page::store(byte_range readable) noexcept {
  readable_ = readable;
  // Sequentially consistent: a reader of the same even number before and after has one change.
  ++state_->changes;
  state_->begin = readable.begin;
  state_->end = readable.end;
  ++state_->changes;
}

std::optional<byte_range> state_view::readable() const noexcept {
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint64_t before = state_->changes;
    const byte_range found{state_->begin, state_->end};
    // The owner may write anything there.
    if (before % 2 == 0 && state_->changes == before && found.begin <= found.end) return found;
  }
  return std::nullopt;
}

state_view::state_view(int descriptor) {
  struct stat about {};
  struct statfs system {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  // Otherwise a read could end this process: the owner could shrink the page, or take it out of a
  // file of huge pages.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0 || ::fstatfs(descriptor, &system) != 0 ||
      system.f_type != TMPFS_MAGIC || ::fstat(descriptor, &about) != 0 ||
      about.st_size < static_cast<off_t>(state_page_bytes))
    throw ipc_error{ipc_failure::malformed,
                    "the state page of the publication can still be cut off: its owner does not "
                    "keep to hipvmm's protocol"};
  state_ = static_cast<const publication_counters*>(map_page(descriptor, PROT_READ));
}

state_view::~state_view() { ::munmap(const_cast<publication_counters*>(state_), state_page_bytes); }

}  // namespace hipvmm::detail
