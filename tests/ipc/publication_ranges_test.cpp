// SPDX-License-Identifier: MIT
// Publications of which not the first byte is the first that may be read, and those of memory of
// several devices.
#include <sys/mman.h>

#include "ipc/ipc_test.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE(
    "publication_page: what is withdrawn limits what may be read until it is announced again") {
  detail::publication_page page;
  const detail::state_view view{page.descriptor()};
  const auto readable = [&view] {
    const std::optional<detail::byte_range> found = view.readable();
    REQUIRE(found.has_value());
    return std::pair{found->begin, found->end};
  };
  const auto range = [](std::uint64_t begin, std::uint64_t end) { return std::pair{begin, end}; };
  page.set_range(1, {0, 100});
  CHECK(readable() == range(0, 100));
  // Announcement 2 is still under way when 3 replaces the chunk at 60, and 4 erases the front.
  page.cut(3, 0, 60);
  CHECK(readable() == range(0, 60));
  page.cut(4, 20, 1000);
  CHECK(readable() == range(20, 60));
  page.set_range(2, {0, 200});
  CHECK(readable() == range(20, 60));
  page.set_range(4, {20, 300});
  CHECK(readable() == range(20, 300));
  page.set_range(3, {0, 50});
  CHECK(readable() == range(20, 300));
  // All of it goes.
  page.cut(5, 0, 20);
  const auto nothing = readable();
  CHECK(nothing.first == nothing.second);
}

// Its owner could let a read of it end the importer.
TEST_CASE("state_view: refuses a page that can lose its memory") {
  const auto check_malformed = [](unsigned flags, int seals) {
    const detail::owned_descriptor file{
        ::memfd_create("state_view test", flags | MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    constexpr ::off_t huge_page = 2 << 20;
    if (file.empty() || ::ftruncate(file.get(), huge_page) != 0) return;
    REQUIRE(::fcntl(file.get(), F_ADD_SEALS, seals) == 0);
    check_ipc_error(ipc_failure::malformed, [&] { const detail::state_view view{file.get()}; });
  };
  check_malformed(0, F_SEAL_SHRINK);
  check_malformed(0, F_SEAL_WRITE);
  check_malformed(MFD_HUGETLB, F_SEAL_SHRINK | F_SEAL_WRITE);
}

TEST_SUITE_BEGIN("needs virtual memory");

struct four_chunks : published_region {
  four_chunks() {
    for (std::size_t i = 2; i < 4; ++i) owned.commit(i * granule(), granule());
    write_tags(owned, 2, 4, 1, stream);
    announce(4);
  }
};

// ROCm 7.0 to 7.2 grant no chunk beside a hole and chunks of other sizes, so that the order in
// which an importer maps them matters.
TEST_CASE_FIXTURE(published_region,
                  "publication: attached when a chunk in the middle is the newest") {
  owned.commit(2 * granule(), 2 * granule());
  owned.decommit(granule(), granule());
  owned.commit(granule(), granule());
  write_tags(owned, 1, 4, 1, stream);
  announce(4);
  attached_region seen{path};
  CHECK(seen.refresh(stream) == 4 * granule());
  CHECK(seen.chunks().size() == 3);
}

TEST_CASE_FIXTURE(four_chunks, "publication: memory whose first chunks are gone") {
  attached_region seen{path};
  void* const base = seen.data();
  owned.decommit(0, 2 * granule());
  published.announce(owned, 2 * granule(), 2 * granule(), stream);
  stream.synchronize();
  CHECK(seen.refresh(stream) == 2 * granule());
  CHECK(seen.chunks().size() == 2);
  CHECK(seen.data() == advance(base, 2 * granule()));
  CHECK(read_bytes(stream, seen.data(), tag_bytes) ==
        read_bytes(stream, advance(owned.base(), 2 * granule()), tag_bytes));
  CHECK(attached_region{path}.bytes() == 2 * granule());
  // A range that begins in the middle of a chunk, and one that is not backed.
  published.announce(owned, 2 * granule() + 64, granule(), stream);
  stream.synchronize();
  CHECK(seen.refresh(stream) == granule());
  CHECK(seen.data() == advance(base, 2 * granule() + 64));
  CHECK_THROWS_AS(published.announce(owned, granule(), granule(), stream), std::invalid_argument);
  CHECK_THROWS_AS(published.announce(owned, 17 * granule(), 0, stream), std::invalid_argument);
}

TEST_CASE_FIXTURE(four_chunks,
                  "publication: what is erased at the front leaves the rest readable") {
  if (detail::rules_of_runtime().unmap_waits) {
    MESSAGE("skipped: an unmap waits for the stream that this test holds");
    return;
  }
  attached_region seen{path};
  void* const base = seen.data();
  owned.decommit(0, granule());
  owned.commit(4 * granule(), granule());
  blocked_stream writing{first_device};
  published.announce(owned, granule(), 4 * granule(), writing);
  CHECK(seen.refresh(stream) == 3 * granule());
  CHECK(seen.data() == advance(base, granule()));
  writing.release();
  CHECK(seen.wait_for(4 * granule(), 10s, stream));
  CHECK(seen.data() == advance(base, granule()));
}

TEST_CASE("attached_vector: follows a vector that is erased at the front") {
  constexpr std::size_t step = 500'000;
  const growth_options options{.max_bytes = 16 * MiB,
                               .chunks = {.shareable = handle_type::posix_fd}};
  const temporary_folder folder;
  const stream stream;
  growable_device_vector<int> numbers{first_device, options};
  publication published{path_in(folder), first_device, 64 * MiB, elements_of<int>()};
  attached_vector<int> seen{path_in(folder)};
  std::size_t erased = 0;
  std::size_t moves = 0;
  std::size_t last = 0;
  // More in all than the vector has addresses: its offsets change meanwhile.
  for (std::size_t round = 1; round <= 20; ++round) {
    const std::size_t count = round < 3 ? 0 : step - step / 64 + round;
    numbers.erase_front(count, stream);
    erased += count;
    numbers.resize(round * step - erased, static_cast<int>(round), stream);
    moves += numbers.chunks().front().offset < last ? 1 : 0;
    last = numbers.chunks().front().offset;
    published.announce(numbers, stream);
    stream.synchronize();
    REQUIRE(seen.refresh(stream) == numbers.size());
    std::vector<int> there(seen.size());
    copy(stream, there.data(), seen.data(), there.size() * sizeof(int));
    bool is_same = true;
    for (std::size_t i = 0; i < there.size(); ++i)
      is_same &= there[i] == static_cast<int>((erased + i) / step + 1);
    CHECK(is_same);
  }
  CHECK(moves > 0);
  CHECK(seen.memory().chunks().size() == numbers.chunks().size());
  CHECK(published.wait_until_withdrawn(10s));
}

region_options striped_chunks(device_ref peer) {
  region_options options = shareable_chunks();
  options.placement = chunk_placement::striped({first_device, peer}, granule());
  return options;
}

publication_options also_of(std::vector<device_ref> devices) {
  return publication_options{.other_devices = std::move(devices)};
}

// If a chunk beside a hole and chunks of other sizes is refused, as the first of two that take
// others' places would be, all is mapped anew at the same addresses.
TEST_CASE("attached_region: several chunks in the middle are replaced at once") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach");
  published_region memory{also_of({peer})};
  memory.owned.grant(peer);
  memory.owned.commit(2 * granule(), 2 * granule());
  memory.owned.commit(4 * granule(), granule());
  memory.owned.commit(5 * granule(), granule());
  write_tags(memory.owned, 0, 6, 1, memory.stream);
  memory.announce(6);
  attached_region seen{memory.path};
  const void* const base = seen.data();
  REQUIRE(seen.bytes() == 6 * granule());
  REQUIRE(memory.owned.move_range(2 * granule(), 3 * granule(), peer, memory.stream) ==
          3 * granule());
  memory.announce(6);
  for (int looks = 0; looks < 2; ++looks) {
    CHECK(seen.refresh(memory.stream) == 6 * granule());
    CHECK(seen.data() == base);
    REQUIRE(seen.chunks().size() == 5);
    CHECK(seen.chunks()[2].device == peer);
    CHECK(seen.chunks()[3].device == peer);
    for (std::size_t index = 0; index < 6; ++index)
      CHECK(has_tag(memory.owned, index, 1, memory.stream));
    CHECK(read_bytes(memory.stream, advance(seen.data(), 4 * granule()), tag_bytes) ==
          pattern(tag_bytes, 1004));
  }
  CHECK(memory.published.wait_until_withdrawn(10s));
}

HIPVMM_CHILD("follows memory of two devices") {
  const stream stream;
  attached_region seen{path_of_child()};
  REQUIRE(seen.wait_for(4 * granule(), 20s, stream));
  const std::vector<chunk_view> chunks = seen.chunks();
  REQUIRE(chunks.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK((chunks[i].device == first_device) == (i % 2 == 0));
    CHECK(read_bytes(stream, chunks[i].address, tag_bytes) ==
          pattern(tag_bytes, 1000 + static_cast<std::uint32_t>(i)));
  }
}

TEST_CASE("publication: striped memory is on the same devices in other processes") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach");
  const temporary_folder folder;
  const stream stream;
  region owned{first_device, 8 * granule(), striped_chunks(peer)};
  owned.commit(0, 4 * granule());
  write_tags(owned, 0, 4, 1, stream);
  stream.synchronize();
  {
    publication of_one{path_in(folder), first_device, 8 * granule()};
    CHECK_THROWS_WITH_AS(of_one.announce(owned, 4 * granule(), stream),
                         doctest::Contains("other_devices"), std::invalid_argument);
  }
  publication published{path_in(folder), first_device, 8 * granule(), {}, also_of({peer})};
  published.announce(owned, 4 * granule(), stream);
  check_child("follows memory of two devices", with_path(path_in(folder)));
  attached_region seen{path_in(folder)};
  CHECK(seen.device() == first_device);
  CHECK(get_access(seen.data(), first_device) == access_right::read);
  CHECK(get_access(seen.data(), peer) == access_right::read);
  CHECK(get_access(advance(seen.data(), granule()), first_device) == access_right::read);
  attach_options named{.device = first_device, .other_devices = {peer}};
  CHECK(attached_region{path_in(folder), named}.bytes() == 4 * granule());
  named.other_devices = {peer, peer};
  CHECK_THROWS_AS((attached_region{path_in(folder), named}), std::invalid_argument);
}

TEST_CASE("publication: a chunk that moves to another device is mapped there") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach");
  published_region memory{also_of({peer})};
  attached_region seen{memory.path};
  memory.owned.grant(peer);
  memory.owned.move_range(granule(), granule(), peer, memory.stream);
  memory.announce(2);
  CHECK(seen.refresh(memory.stream) == 2 * granule());
  CHECK(seen.chunks().at(0).device == first_device);
  CHECK(seen.chunks().at(1).device == peer);
  CHECK(read_bytes(memory.stream, advance(seen.data(), granule()), tag_bytes) ==
        read_bytes(memory.stream, advance(memory.owned.base(), granule()), tag_bytes));
}

TEST_CASE("publication: devices of the memory that do not reach each other are refused") {
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "devices that do not reach");
  const temporary_folder folder;
  const publication published{path_in(folder), first_device, granule(), {}, also_of({stranger})};
  CHECK_THROWS_AS((attached_region{path_in(folder)}), unsupported);
  CHECK_THROWS_AS(
      (publication{path_in(folder) + "2", first_device, granule(), {}, also_of({first_device})}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      (publication{path_in(folder) + "2", first_device, granule(), {}, also_of({device_ref{99}})}),
      std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
