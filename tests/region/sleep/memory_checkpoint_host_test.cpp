// SPDX-License-Identifier: MIT
// Memory of a tag that another process has at the same addresses, and files that are refused.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/region/memory_checkpoint.hpp>
#include "container/slot_arena/arenas.hpp"
#include "mr/pool/pool_limit.hpp"
#include "region/chunks/region_chunks.hpp"
#include "region/region_test.hpp"
#include "region/sleep/file_copies.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/host/host_test.hpp"
#include "support/process/temporary_folder.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace {
std::atomic<int> flushed_folders{0};
}  // namespace

/// In place of the C library's.
extern "C" int fsync(int file) {
  struct stat about {};
  if (::fstat(file, &about) == 0 && S_ISDIR(about.st_mode)) ++flushed_folders;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace hipvmm::test {
namespace {

constexpr const char* path_variable = "HIPVMM_TEST_PATH";

std::string path_of_child() {
  const char* const value = std::getenv(path_variable);
  REQUIRE(value != nullptr);
  return value;
}

struct saved_file {
  temporary_folder folder{"/dev/shm"};  // where no file waits for a disk
  std::string path = (folder.path() / "memory").string();

  [[nodiscard]] std::vector<std::string> environment() const {
    return {path_variable + ("=" + path)};
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream in{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  void write(const std::string& text) const {
    std::ofstream{path, std::ios::binary | std::ios::trunc} << text;
  }
  [[nodiscard]] std::size_t count() const {
    const std::filesystem::directory_iterator all{folder.path()};
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
};

/// The text of a refusal, after which nothing is reserved that was not before.
template <typename Error>
std::string refusal_of_load(const std::string& path, const region_options& options = {}) {
  const hipvmm_host_counters before = live_objects();
  const std::string text =
      text_thrown_by<Error>([&] { return load_checkpoint(path, first_device, options); });
  CHECK(text != "");
  CHECK(live_objects() == before);
  return text;
}

/// One chunk of one region.
struct saved_chunk {
  memory_tag tag;
  region memory{first_device, granule(), tagged(tag)};
  saved_chunk() {
    memory.commit(0, granule());
    const stream stream{first_device};
    write_tag(memory, 0, 1, stream);
  }
  [[nodiscard]] bool has_contents() const {
    const stream stream{first_device};
    return has_tag(memory, 0, 1, stream);
  }
};

std::vector<unsigned char> block_bytes(unsigned char value) {
  return std::vector<unsigned char>(5000, value);
}

TEST_SUITE_BEGIN("needs virtual memory");

HIPVMM_CHILD("saves a checkpoint of regions and a pool") {
  const sleeping_regions subject;
  mr::pool_options options = at_most(64 * MiB);
  options.tag = subject.tag;
  mr::vmm_pool_resource pool{first_device, options};
  std::vector<void*> blocks;
  std::string notes;
  for (unsigned char i = 0; i < 3; ++i) {
    blocks.push_back(pool.allocate(subject.stream, 5000));
    write_bytes(subject.stream, blocks.back(), block_bytes(i));
    notes += std::to_string(reinterpret_cast<std::uintptr_t>(blocks.back())) + ' ';
  }
  pool.deallocate(subject.stream, blocks[1], 5000);
  for (void* const each : {subject.base, subject.second_base})
    notes += std::to_string(reinterpret_cast<std::uintptr_t>(each)) + ' ';
  CHECK(save_checkpoint(subject.tag, path_of_child(), notes, subject.stream) >=
        4 * subject.unit + 10000);
  subject.check_awake();
  for (const std::size_t i : {0U, 2U}) pool.deallocate(subject.stream, blocks[i], 5000);
}

HIPVMM_CHILD("loads it twice, and saves it again in between") {
  const stream stream{first_device};
  const std::size_t unit = granule();
  const memory_tag tag;
  for (const bool sleeps : {true, false}) {
    const memory_checkpoint loaded = load_checkpoint(path_of_child(), first_device, tagged(tag));
    std::vector<std::byte*> at;
    const char* next = loaded.notes.c_str();
    for (char* end = nullptr; *next != '\0'; next = end + 1)
      at.push_back(reinterpret_cast<std::byte*>(std::strtoull(next, &end, 10)));
    REQUIRE(at.size() == 5);
    REQUIRE(loaded.regions.size() == 3);
    const region& first = loaded.regions[0];
    CHECK(first.base() == at[3]);
    CHECK(first.max_bytes() == 16 * unit);
    CHECK(first.committed_bytes() == 3 * unit);
    CHECK(first.chunk_bytes_at(4 * unit) == unit);
    CHECK(loaded.regions[1].base() == at[4]);
    const auto check = [&] {
      CHECK(has_tag(first, 0, 1, stream));
      CHECK(has_tag(first, 1, 1, stream));
      CHECK(has_tag(first, 4, 1, stream));
      CHECK(has_tag(loaded.regions[1], 0, 2, stream));
      CHECK(read_bytes(stream, at[0], 5000) == block_bytes(0));
      CHECK(read_bytes(stream, at[2], 5000) == block_bytes(2));
    };
    check();
    if (!sleeps) break;
    suspend(tag, keep::contents);
    resume(tag);
    check();
    save_checkpoint(tag, path_of_child(), loaded.notes);
  }
}

TEST_CASE("memory_checkpoint: another process has the bytes at the same addresses") {
  const saved_file file;
  check_child("saves a checkpoint of regions and a pool", file.environment());
  struct stat about {};
  REQUIRE(::stat(file.path.c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0600);
  CHECK(file.count() == 1);
  check_child("loads it twice, and saves it again in between", file.environment());
}

TEST_CASE("memory_checkpoint: addresses that others have are named, and those before are freed") {
  const sleeping_regions subject;
  const saved_file file;
  save_checkpoint(subject.tag, file.path);
  const std::string text = refusal_of_load<out_of_memory>(file.path);
  std::ostringstream address;
  address << subject.base;
  CHECK(text.find(address.str()) != std::string::npos);
  CHECK(text.find("ask for them before other memory is made") != std::string::npos);
}

TEST_CASE_FIXTURE(saved_file, "memory_checkpoint: hints that HIP ignores are a refusal") {
  save_checkpoint(sleeping_regions{}.tag, path);
  drain_retired_memory();
  const planned_faults rule{"hints=ignored"};
  CHECK(refusal_of_load<out_of_memory>(path).find("ignores") != std::string::npos);
}

TEST_CASE_FIXTURE(saved_file,
                  "memory_checkpoint: a damaged file is refused before anything is reserved") {
  save_checkpoint(saved_chunk{}.tag, path, "notes");
  drain_retired_memory();
  const std::string good = bytes();
  const call_counter reserves{"hipMemAddressReserve"};
  const std::size_t contents = good.size() - granule();
  std::fstream one{path, std::ios::binary | std::ios::in | std::ios::out};
  const auto put = [&](std::size_t at, char value) {
    one.seekp(static_cast<std::streamoff>(at)).put(value).flush();
  };
  for (std::size_t at = 0; at < contents; ++at) {
    CAPTURE(at);
    put(at, static_cast<char>(good[at] ^ 0x10));
    CHECK_THROWS_AS(static_cast<void>(load_checkpoint(path, first_device)), std::invalid_argument);
    put(at, good[at]);
  }
  const auto cut = [&](std::size_t size) {
    CAPTURE(size);
    std::filesystem::resize_file(path, size);
    CHECK_THROWS_AS(static_cast<void>(load_checkpoint(path, first_device)), std::invalid_argument);
  };
  for (const std::size_t size : {good.size() + 1, good.size() - 1}) cut(size);
  for (std::size_t size = contents + 1; size-- != 0;) cut(size);
  CHECK(reserves.count() == 0);
}

#ifndef __SANITIZE_THREAD__
TEST_CASE("memory_checkpoint: damaged contents are refused, and nothing stays reserved") {
  const saved_file file;
  save_checkpoint(sleeping_regions{}.tag, file.path, "notes");
  drain_retired_memory();
  const std::string good = file.bytes();
  CHECK(load_checkpoint(file.path, first_device).notes == "notes");
  // The last byte, one in the middle, and one of a chunk before it.
  for (const std::size_t back : {std::size_t{1}, granule() / 2, 3 * granule()}) {
    CAPTURE(back);
    std::string damaged = good;
    damaged[good.size() - back] ^= 1;
    file.write(damaged);
    drain_retired_memory();
    CHECK(refusal_of_load<std::invalid_argument>(file.path).find("contents are damaged") !=
          std::string::npos);
  }
}
#endif

TEST_CASE_FIXTURE(saved_file, "memory_checkpoint: the name of a file is on the disk as well") {
  const int before = flushed_folders;
  save_checkpoint(memory_tag{}, path);
  CHECK(flushed_folders == before + 1);
}

TEST_CASE_FIXTURE(saved_file, "memory_checkpoint: files of other versions and byte orders say so") {
  save_checkpoint(memory_tag{}, path);
  const std::string good = bytes();
  for (const std::size_t at : {14U, 16U, 23U}) {
    std::string other = good;
    ++other[at];
    write(other);
    CHECK(refusal_of_load<std::invalid_argument>(path).find("version and byte order") !=
          std::string::npos);
  }
}

TEST_CASE("memory_checkpoint: a head with a right sum and wrong ranges is refused as well") {
  const saved_file file;
  save_checkpoint(saved_chunk{}.tag, file.path, "notes");
  drain_retired_memory();
  const std::string good = file.bytes();
  const std::size_t end = good.size() - granule();
  // The last words of the head: addresses, a count of chunks, and one of contents, with one each.
  const auto refuse = [&](std::size_t word, std::uint64_t value) {
    CAPTURE(word);
    CAPTURE(value);
    std::string bad = good;
    std::memcpy(&bad[end - 64 + 8 * word], &value, sizeof(value));
    const std::uint64_t sum = detail::checksum(&bad[40], end - 40, end - 40);
    std::memcpy(&bad[24], &sum, sizeof(sum));
    file.write(bad);
    refusal_of_load<std::invalid_argument>(file.path);
  };
  for (const std::size_t address : {0U, 3U, 6U})
    for (const std::uint64_t value : {std::uint64_t{0}, ~std::uint64_t{0} - granule() + 1})
      refuse(address, value);
  for (const std::size_t bytes : {2U, 4U, 5U, 7U})
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1} << 63})
      refuse(bytes, value);
  refuse(1, 0);
  refuse(1, ~std::uint64_t{0});
}

// ThreadSanitizer leaves a process no addresses there, and takes others that were free.
#ifndef __SANITIZE_THREAD__
TEST_CASE("memory_checkpoint: memory that is made later keeps away from loaded addresses") {
  auto* const loaded_at = static_cast<std::byte*>(detail::next_aside(1)) + 2 * GiB;
  const region loaded = detail::region_at(loaded_at, first_device, granule(), {});
  const memory_tag tag;
  const region own{first_device, granule(), tagged(tag)};
  CHECK(own.base() == loaded_at + 2 * GiB);
}
#endif

TEST_CASE(
    "memory_checkpoint: a region is whole where HIP refuses an address that it is asked for") {
  const planned_fault fault{"hipMemAddressReserve", 1, hipErrorOutOfMemory};
  const memory_tag tag;
  const region one{first_device, 16 * granule(), tagged(tag)};
  CHECK(fault.struck());
  CHECK(one.max_bytes() == 16 * granule());
}

TEST_CASE_FIXTURE(saved_file, "memory_checkpoint: files that others may have written are refused") {
  save_checkpoint(memory_tag{}, path);
  CHECK(load_checkpoint(path, first_device).regions.empty());
  REQUIRE(::chmod(path.c_str(), 0620) == 0);
  CHECK(refusal_of_load<std::invalid_argument>(path).find("chmod go-w") != std::string::npos);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  const std::string link = path + "-link";
  std::filesystem::create_symlink(path, link);
  refusal_of_load<std::system_error>(link);
  refusal_of_load<std::system_error>(path + "-missing");
  refusal_of_load<std::invalid_argument>(folder.path().string());
  // The link is replaced, and its target stays.
  save_checkpoint(memory_tag{}, link, "new");
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(link)));
  CHECK(load_checkpoint(path, first_device).notes.empty());
  CHECK(load_checkpoint(link, first_device).notes == "new");
  region_options reads;
  reads.access = {{first_device, access_right::read}};
  save_checkpoint(memory_tag{}, link);
  refusal_of_load<std::invalid_argument>(link, reads);
}

TEST_CASE_FIXTURE(sleeping_regions, "memory_checkpoint: a save that fails leaves no file") {
  const saved_file file;
  CHECK_THROWS_AS(save_checkpoint(tag, file.path + "/missing"), std::system_error);
  CHECK_THROWS_AS(save_checkpoint(tag, file.folder.path().string()), std::system_error);
  for (const std::string& name : {std::string{}, file.path + '\0' + "cut"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(save_checkpoint(tag, name), doctest::Contains("is no file name"),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(static_cast<void>(load_checkpoint(name, first_device)),
                         doctest::Contains("is no file name"), std::invalid_argument);
  }
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 2 * unit;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THROWS_AS(save_checkpoint(tag, file.path), std::system_error);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  suspend(tag, keep::contents);
  CHECK_THROWS_AS(save_checkpoint(tag, file.path), std::logic_error);
  resume(tag);
  CHECK(std::filesystem::is_empty(file.folder.path()));
  check_awake();
}

TEST_CASE("memory_checkpoint: a save whose HIP calls fail leaves the memory, and no file") {
  const saved_chunk subject;
  const saved_file file;
  fault_sweep{"save_checkpoint"}.run([] { return 0; },
                                     [&](int) { save_checkpoint(subject.tag, file.path); },
                                     [&](int) { CHECK(file.count() == 0); },
                                     [&](int) { CHECK(std::filesystem::remove(file.path)); });
  CHECK(subject.has_contents());
}

TEST_CASE_FIXTURE(saved_file, "memory_checkpoint: a load whose HIP calls fail leaves nothing") {
  fault_sweep{"load_checkpoint", nothing_but_pinned()}.run(
      [&] {
        // At other addresses each time: HIP may have refused to free the last ones, and ROCm 6
        // keeps the start of some.
        save_checkpoint(saved_chunk{}.tag, path);
        drain_retired_memory();
        return 0;
      },
      [&](int) { static_cast<void>(load_checkpoint(path, first_device)); }, [](int) {}, [](int) {});
}

TEST_CASE("memory_checkpoint: slots that share memory are refused") {
  if (capability_of(first_device).needs(quirk::no_aliases)) return;
  const memory_tag tag;
  slot_arena_options options = small_slots();
  options.tag = tag;
  slot_arena arena{first_device, options};
  const stream stream{first_device};
  arena.commit(sizes{1}, sizes{2 * granule()}, stream);
  const saved_file file;
  CHECK(save_checkpoint(tag, file.path) >= 2 * granule());
  CHECK(std::filesystem::remove(file.path));
  arena.share_prefix(1, sizes{2}, granule(), stream);
  CHECK_THROWS_AS(save_checkpoint(tag, file.path), unsupported);
  CHECK(file.count() == 0);
}

TEST_CASE("memory_checkpoint: nobody takes idle memory of an arena while it is read") {
  const memory_tag tag;
  slot_arena_options options = small_slots();
  options.tag = tag;
  slot_arena arena{first_device, options};
  const stream stream{first_device};
  arena.commit(sizes{0}, sizes{granule()}, stream);
  arena.commit(sizes{1}, sizes{granule()}, stream);
  arena.release(1, stream);
  stream.synchronize();
  const saved_file file;
  held_streams held;
  const call_counter copies{"hipMemcpyAsync"};
  std::size_t saved = 0;
  std::thread saver{[&] { saved = save_checkpoint(tag, file.path, {}, stream_ref{stream}); }};
  while (copies.count() == 0) std::this_thread::yield();
  const out_of_memory shortage{exhausted::device_memory, first_device.ordinal(), granule(), 0, ""};
  CHECK_FALSE(detail::ask_idle_holders(shortage, {}));
  held.release();
  saver.join();
  CHECK(saved == row());
}

TEST_CASE_FIXTURE(saved_file, "memory_checkpoint: memory that no file can have is refused") {
  const memory_tag tag;
  region one{first_device, 4 * granule(), tagged(tag)};
  one.commit(0, granule());
  const auto refused = [&](const char* text) {
    CAPTURE(text);
    CHECK_THROWS_WITH(save_checkpoint(tag, path), doctest::Contains(text));
    CHECK(count() == 0);
  };
  one.revoke(first_device);
  refused("no right to read");
  one.grant(first_device);
  if (one.can_move_chunks()) {
    one.move_chunk(0, granule());
    refused("end_move() there first");
    one.end_move(0);
  }
  HIPVMM_REQUIRE_TWO_DEVICES();
  const region other{device_ref{1}, granule(), tagged(tag)};
  refused("devices 0 and 1");
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
