// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/publication.hpp>

#include "ipc/ipc_test.hpp"
#include "runtime/runtime_rules.hpp"

// Memory under a path: processes that come, look, go and die. Each child is a process of its own.
namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t ints_of_a_step = 1'000'000;

growth_options shareable_vector() {
  return growth_options{.max_bytes = 64 * MiB,
                        .past_max = past_max_size::refuse,
                        .chunks = {.shareable = handle_type::posix_fd}};
}

void check_passed(std::future<child_result>& child) {
  const child_result result = child.get();
  CHECK_MESSAGE(passed(result), result.output);
}

bool is_step(const std::vector<int>& numbers, std::size_t step) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != static_cast<int>(i / ints_of_a_step + 1)) return false;
  return numbers.size() == step * ints_of_a_step;
}

std::vector<int> read_all(const attached_vector<int>& vector, stream_ref stream) {
  std::vector<int> result(vector.size());
  copy(stream, result.data(), vector.data(), result.size() * sizeof(int));
  return result;
}

TEST_SUITE_BEGIN("needs virtual memory");

/// A vector and its publication in this process.
struct owner {
  temporary_folder folder;
  std::string path = path_in(folder);
  hipvmm::stream stream;
  growable_device_vector<int> numbers{first_device, shareable_vector()};
  publication published{path, numbers};
  std::size_t steps = 0;

  void grow() {
    ++steps;
    numbers.resize(steps * ints_of_a_step, static_cast<int>(steps), stream);
    published.announce(numbers, stream);
  }
};

TEST_CASE_FIXTURE(owner, "publication: an importer sees what was announced, and only that") {
  attached_vector<int> seen{path};
  CHECK(seen.size() == 0);
  const int* const data = seen.data();
  for (std::size_t step = 1; step <= 3; ++step) {
    grow();
    numbers.resize(numbers.size() + 5, 0, stream);
    REQUIRE(seen.wait_for(step * ints_of_a_step, 10s, stream));
    CHECK(is_step(read_all(seen, stream), step));
    numbers.resize(numbers.size() - 5, 0, stream);
  }
  CHECK(seen.data() == data);
  CHECK(seen.is_open());
  CHECK(published.importers() == 1);
  CHECK(seen.memory().chunks().size() == numbers.chunks().size());
}

TEST_CASE_FIXTURE(owner,
                  "publication: a size is visible after the work before announce, not earlier") {
  grow();
  attached_vector<int> seen{path};
  REQUIRE(seen.wait_for(ints_of_a_step, 10s, stream));
  blocked_stream writing{first_device};
  numbers.resize(2 * ints_of_a_step, 2, writing);
  published.announce(numbers, writing);
  CHECK_FALSE(seen.wait_for(2 * ints_of_a_step, 50ms, stream));
  CHECK(seen.size() == ints_of_a_step);
  writing.release();
  REQUIRE(seen.wait_for(2 * ints_of_a_step, 10s, stream));
  CHECK(is_step(read_all(seen, stream), 2));
}

HIPVMM_CHILD("follows a vector for three steps") {
  const stream stream;
  attached_vector<int> seen{path_of_child()};
  for (std::size_t step = 1; step <= 3; ++step) {
    REQUIRE(seen.wait_for(step * ints_of_a_step, 20s, stream));
    std::vector<int> numbers = read_all(seen, stream);
    numbers.resize(step * ints_of_a_step);
    CHECK(is_step(numbers, step));
  }
}

TEST_CASE_FIXTURE(owner, "publication: two processes follow it while it grows") {
  auto first = start_child("follows a vector for three steps", path);
  auto second = start_child("follows a vector for three steps", path);
  grow();
  REQUIRE(comes_true([&] { return published.importers() == 2; }));
  grow();
  grow();
  check_passed(first);
  check_passed(second);
  CHECK(comes_true([&] { return published.importers() == 0; }));
}

HIPVMM_CHILD("publishes and is killed") {
  const stream stream;
  growable_device_vector<int> numbers{first_device, shareable_vector()};
  publication published{path_of_child(), numbers};
  numbers.resize(ints_of_a_step, 1, stream);
  published.announce(numbers, stream);
  stream.synchronize();
  REQUIRE(comes_true([] { return std::filesystem::exists(path_of_child() + ".seen"); }));
  std::raise(SIGKILL);
}

TEST_CASE("attached_region: keeps what it has when the owner is killed, and the path is free") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const stream stream;
  auto killed = start_child("publishes and is killed", path);
  auto seen = attach_when_published<attached_vector<int>>(path);
  REQUIRE(seen.wait_for(ints_of_a_step, 10s, stream));
  std::ofstream{path + ".seen"};
  CHECK(killed.get().status == 128 + SIGKILL);
  CHECK(comes_true([&] {
    seen.refresh(stream);
    return !seen.is_open() || !seen.wait_for(2 * ints_of_a_step, 10ms, stream);
  }));
  CHECK(is_step(read_all(seen, stream), 1));
  CHECK(std::filesystem::exists(path));
  check_ipc_error(ipc_failure::closed, [&] { attached_region again{path}; });
  const growable_device_vector<int> numbers{first_device, shareable_vector()};
  { const publication next{path, numbers}; }
  std::filesystem::remove(path + ".seen");
  CHECK(std::filesystem::is_empty(folder.path()));
}

HIPVMM_CHILD("attaches and is killed") {
  const stream stream;
  attached_vector<int> seen{path_of_child()};
  REQUIRE(seen.wait_for(ints_of_a_step, 10s, stream));
  std::raise(SIGKILL);
}

TEST_CASE_FIXTURE(owner, "publication: an importer that is killed leaves nothing") {
  grow();
  const std::size_t before = open_descriptors();
  auto child = start_child("attaches and is killed", path);
  CHECK(child.get().status == 128 + SIGKILL);
  CHECK(comes_true([&] { return published.importers() == 0; }));
  CHECK(comes_true([&] { return open_descriptors() == before; }));
  CHECK(published.wait_until_withdrawn(20s));
}

struct region_owner {
  temporary_folder folder;
  std::string path = path_in(folder);
  hipvmm::stream stream;
  region owned{first_device, 16 * granule(), shareable_chunks()};
  publication published{path, first_device, 16 * granule()};

  region_owner() {
    for (std::size_t i = 0; i < 4; ++i) owned.commit(i * granule(), granule());
    write_tags(owned, 0, 4, 1, stream);
    published.announce(owned, 4 * granule(), stream);
    stream.synchronize();
  }
};

TEST_CASE_FIXTURE(region_owner, "publication: withdrawn chunks go when the importer looks") {
  attached_region seen{path};
  CHECK(seen.bytes() == 4 * granule());
  owned.trim(2 * granule(), stream);
  published.announce(owned, 2 * granule(), stream);
  CHECK_FALSE(published.wait_until_withdrawn(20ms));
  CHECK(seen.chunks().size() == 4);
  CHECK(seen.refresh(stream) <= 2 * granule());
  CHECK(seen.chunks().size() == 2);
  CHECK(published.wait_until_withdrawn(20s));
}

TEST_CASE("publication: importers that keep withdrawn chunks are cut off after the lease") {
  published_region memory{with_lease(50ms)};
  attached_region looks{memory.path};
  attached_region waits{memory.path};
  memory.owned.trim(granule(), memory.stream);
  memory.announce(1);
  CHECK(memory.published.wait_until_withdrawn(20s));
  CHECK(memory.published.importers() == 0);
  // Nobody can unmap in another process: the chunks may be read until it looks.
  CHECK(looks.chunks().size() == 2);
  CHECK_NOTHROW(static_cast<void>(read_bytes(memory.stream, looks.data(), tag_bytes)));
  const std::string why =
      check_ipc_error(ipc_failure::expired, [&] { looks.refresh(memory.stream); });
  CHECK(why.find("50 ms") != std::string::npos);
  check_ipc_error(ipc_failure::expired, [&] { waits.wait_for(2 * granule(), 10s, memory.stream); });
  for (attached_region* const each : {&looks, &waits}) {
    CHECK(each->bytes() == 0);
    CHECK(each->chunks().empty());
    CHECK_FALSE(each->is_open());
    CHECK(each->refresh(memory.stream) == 0);
    CHECK_FALSE(each->wait_for(1, 10s, memory.stream));
  }
  CHECK(attached_region{memory.path}.bytes() == granule());
}

TEST_CASE("publication: importers that have looked, or from which nothing went, keep their lease") {
  published_region memory{with_lease(1ms)};
  attached_region idle{memory.path};
  memory.owned.commit(2 * granule(), granule());
  memory.announce(3);
  std::this_thread::sleep_for(20ms);
  CHECK(idle.refresh(memory.stream) == 3 * granule());
  published_region other{with_lease(60s)};
  attached_region looks{other.path};
  other.owned.trim(granule(), other.stream);
  other.announce(1);
  CHECK_FALSE(other.published.wait_until_withdrawn(0ms));
  CHECK(looks.refresh(other.stream) == granule());
  CHECK(other.published.wait_until_withdrawn(20s));
  CHECK(looks.is_open());
}

TEST_CASE_FIXTURE(region_owner, "publication: a chunk in place of another is mapped instead") {
  attached_region seen{path};
  owned.decommit(granule(), granule());
  owned.commit(granule(), granule());
  write_tags(owned, 1, 2, 7, stream);
  published.announce(owned, 4 * granule(), stream);
  stream.synchronize();
  CHECK(seen.refresh(stream) == 4 * granule());
  CHECK(read_bytes(stream, advance(seen.data(), granule()), tag_bytes) ==
        read_bytes(stream, advance(owned.base(), granule()), tag_bytes));
  CHECK(published.wait_until_withdrawn(20s));
}

TEST_CASE_FIXTURE(region_owner,
                  "publication: nobody may read what replaced a chunk before it is written") {
  if (detail::rules_of_runtime().unmap_waits) {
    MESSAGE("skipped: an unmap waits for the stream that this test holds");
    return;
  }
  attached_region seen{path};
  REQUIRE(seen.bytes() == 4 * granule());
  owned.decommit(granule(), granule());
  owned.commit(granule(), granule());
  blocked_stream writing{first_device};
  fill_async(writing, advance(owned.base(), granule()), 7, granule());
  published.announce(owned, 4 * granule(), writing);
  CHECK(seen.refresh(stream) == granule());
  CHECK(seen.refresh(stream) == granule());
  writing.release();
  REQUIRE(seen.wait_for(4 * granule(), 10s, stream));
  CHECK(read_bytes(stream, advance(seen.data(), granule()), 16) == byte_vector(16, 7));
}

TEST_CASE_FIXTURE(region_owner, "publication: memory with older chunks may be announced instead") {
  region older{first_device, 16 * granule(), shareable_chunks()};
  older.commit(0, granule());
  fill_async(stream, older.base(), 1, granule());
  owned.commit(4 * granule(), granule());
  published.announce(owned, 5 * granule(), stream);
  attached_region seen{path};
  published.announce(older, granule(), stream);
  stream.synchronize();
  CHECK(seen.refresh(stream) == granule());
  CHECK(read_bytes(stream, seen.data(), 16) == byte_vector(16, 1));
  CHECK(published.wait_until_withdrawn(20s));
  published.announce(owned, 5 * granule(), stream);
  CHECK(seen.wait_for(5 * granule(), 10s, stream));
}

TEST_CASE_FIXTURE(region_owner, "attached_region: reads only, unless more is asked for") {
  attached_region reader{path};
  CHECK(get_access(reader.data(), first_device) == access_right::read);
  attached_region writer{path, {.right = access_right::read_write}};
  fill_async(stream, writer.data(), 0x42, granule());
  CHECK(read_bytes(stream, owned.base(), 16) == byte_vector(16, 0x42));
}

TEST_CASE_FIXTURE(region_owner,
                  "attached_region: outlives the publication and the memory's owner") {
  attached_region seen{path};
  { const publication ended{std::move(published)}; }
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(seen.refresh(stream) == 4 * granule());
  CHECK_FALSE(seen.wait_for(5 * granule(), 10s, stream));
  CHECK_FALSE(seen.is_open());
}

TEST_CASE_FIXTURE(region_owner, "publication, attached_region: one that was moved from is empty") {
  attached_region from{path};
  const attached_region seen{std::move(from)};
  CHECK(from.bytes() == 0);  // NOLINT(bugprone-use-after-move)
  CHECK(from.data() == nullptr);
  CHECK(from.max_bytes() == 0);
  CHECK_FALSE(from.is_open());
  CHECK(from.chunks().empty());
  CHECK_THROWS_AS(static_cast<void>(from.device()), std::invalid_argument);
  CHECK_THROWS_AS(from.refresh(stream), std::invalid_argument);
  CHECK(seen.bytes() == 4 * granule());
  const publication now{std::move(published)};
  CHECK(published.path().empty());  // NOLINT(bugprone-use-after-move)
  CHECK(published.max_bytes() == 0);
  CHECK_THROWS_AS(static_cast<void>(published.importers()), std::invalid_argument);
  CHECK_THROWS_AS(published.announce(owned, 0, stream), std::invalid_argument);
  CHECK_THROWS_AS(published.wait_until_withdrawn(0ms), std::invalid_argument);
  CHECK(now.path() == path);
}

TEST_CASE_FIXTURE(region_owner, "publication: a path is published once") {
  const std::string why = check_ipc_error(ipc_failure::refused, [&] {
    publication other{path, first_device, 1};
  });
  CHECK(why.find("published already") != std::string::npos);
  attached_region still{path};
  CHECK(still.bytes() == 4 * granule());
}

TEST_CASE("publication: what is no socket of a dead owner stays") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  std::ofstream{path} << "a file";
  check_ipc_error(ipc_failure::refused, [&] { publication one{path, first_device, 1}; });
  CHECK(content_of(path) == "a file");
  CHECK_FALSE(std::filesystem::exists(path + ".lock"));
  CHECK_THROWS_AS((publication{std::string(200, 'x'), first_device, 1}), std::invalid_argument);
  CHECK_THROWS_AS((publication{"", first_device, 1}), std::invalid_argument);
  CHECK_THROWS_AS((publication{path_in(folder) + "2", first_device, 0}), std::invalid_argument);
  CHECK_THROWS_AS((publication{path_in(folder) + "2", device_ref{99}, 1}), std::invalid_argument);
}

TEST_CASE_FIXTURE(owner, "publication: refuses what importers could not find") {
  grow();
  growable_device_vector<int> plain{first_device};
  plain.resize(10, 0, stream);
  CHECK_THROWS_AS(published.announce(plain, stream), std::invalid_argument);
  region larger{first_device, 256 * MiB, shareable_chunks()};
  larger.commit(128 * MiB, granule());
  CHECK_THROWS_AS(published.announce(larger, 0, stream), std::invalid_argument);
  region gap{first_device, 4 * granule(), shareable_chunks()};
  gap.commit(granule(), granule());
  CHECK_THROWS_AS(published.announce(gap, granule(), stream), std::invalid_argument);
  attached_vector<int> seen{path};
  CHECK(seen.wait_for(ints_of_a_step, 10s, stream));
}

TEST_CASE_FIXTURE(owner, "attached_vector: elements of another type are refused") {
  const std::string why =
      check_ipc_error(ipc_failure::refused, [&] { attached_vector<double> wrong{path}; });
  CHECK(why.find("elements of 4 bytes") != std::string::npos);
  CHECK_NOTHROW(attached_region{path});
}

TEST_CASE_FIXTURE(owner, "publication: in a child of fork() it only closes") {
  grow();
  std::optional<publication> published_there{std::move(published)};
  CHECK(succeeds_in_forked_child([&] {
    bool refused = false;
    try {
      static_cast<void>(published_there->importers());
    } catch (const unsupported&) {
      refused = true;
    }
    published_there.reset();
    return refused;
  }));
  CHECK(std::filesystem::exists(path));
  CHECK_NOTHROW(attached_region{path});
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
