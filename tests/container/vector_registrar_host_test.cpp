// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "support/host/recording_registrar.hpp"
#include "support/region/assumed_capability.hpp"
#include "support/region/held_memory.hpp"

// Vectors and arenas of slots whose memory is registered.
namespace hipvmm::test {
namespace {

growth_options registered_growth(const registrar_ptr& registrar) {
  return growth_options{.max_bytes = 8 * granule(),
                        .step_limit = 0,
                        .granule_bytes = granule(),
                        .chunks = {.registrar = registrar}};
}

std::string refusal_of(const growth_options& options) {
  return text_thrown_by<unsupported>([&] {
    const growable_device_vector<int> refused{first_device, options};
  });
}

TEST_SUITE_BEGIN("needs virtual memory");

/// The registrar knows the memory of `vector`, and no other.
void check_knows_vector(const recording_registrar& registrar,
                        const growable_device_vector<char>& vector) {
  const auto known = registrar.known();
  const std::vector<chunk_view> chunks = vector.chunks();
  CHECK(known.size() == chunks.size());
  for (const chunk_view& chunk : chunks) CHECK(known.count(chunk.address) == 1);
  CHECK(registrar.mistakes() == 0);
}

void grow_shrink_and_erase() {
  const auto registrar = std::make_shared<recording_registrar>();
  {
    const hipvmm::stream stream{first_device};
    growable_device_vector<char> vector{first_device, registered_growth(registrar)};
    for (std::size_t size = 1; size <= 6; ++size) {
      vector.resize_uninitialized(size * granule());
      check_knows_vector(*registrar, vector);
    }
    vector.erase_front(2 * granule(), stream);
    drain_retired_memory();
    check_knows_vector(*registrar, vector);
    // Past the reservation: to other addresses, without those in front.
    vector.resize_uninitialized(9 * granule());
    drain_retired_memory();
    check_knows_vector(*registrar, vector);
    vector.resize_uninitialized(granule());
    vector.shrink_to_fit(stream);
    drain_retired_memory();
    check_knows_vector(*registrar, vector);
    vector.clear();
    vector.shrink_to_fit(stream);
    drain_retired_memory();
    CHECK(registrar->known().empty());
    vector.resize_uninitialized(granule());
  }
  drain_retired_memory();
  CHECK(registrar->known().empty());
  CHECK(registrar->mistakes() == 0);
}

TEST_CASE("registrar: a vector's chunks are known as it grows, shrinks and moves") {
  grow_shrink_and_erase();
}

TEST_CASE("registrar: so they are where memory returns with the addresses only") {
  const assumed_capability assumed{kept_memory};
  grow_shrink_and_erase();
}

TEST_CASE("registrar: a growth whose registration fails leaves the vector as it was") {
  const auto registrar = std::make_shared<recording_registrar>();
  growable_device_vector<char> vector{first_device, registered_growth(registrar)};
  const hipvmm::stream stream{first_device};
  vector.resize(granule(), 'a', stream);
  registrar->fail_at(1);
  CHECK_THROWS_WITH_AS(vector.resize(2 * granule(), 'b', stream),
                       doctest::Contains("the registration of "), std::runtime_error);
  CHECK(vector.size() == granule());
  CHECK(vector.element(granule() - 1, stream) == 'a');
  registrar->fail_at(0);
  check_knows_vector(*registrar, vector);
  vector.resize(2 * granule(), 'b', stream);
  check_knows_vector(*registrar, vector);
}

TEST_CASE("registrar: memory that comes in no chunks takes none") {
  const auto registrar = std::make_shared<recording_registrar>();
  growth_options options = registered_growth(registrar);
  options.fallback = without_vmm::always;
  CHECK(refusal_of(options).find("growth_options::chunks.registrar") != std::string::npos);
  options.fallback = without_vmm::use_hip_malloc;
  mr::hip_resource upstream{first_device};
  options.granule_bytes = 0;
  options.resource = &upstream;
  CHECK(refusal_of(options).find("leave the registrar out") != std::string::npos);
}

TEST_CASE("registrar: blocks of slots are known, shared ones at each address") {
  const auto registrar = std::make_shared<recording_registrar>();
  {
    const hipvmm::stream stream{first_device};
    memory_tag tag;
    slot_arena arena{first_device,
                     {.slots = 3,
                      .bytes_per_slot = 4 * granule(),
                      .block_bytes = granule(),
                      .prefetch_blocks = 0,
                      .tag = tag,
                      .registrar = registrar}};
    arena.commit(std::vector<std::size_t>{0}, std::vector<std::size_t>{2 * granule()}, stream);
    CHECK(registrar->known().size() == 2);
    arena.share_prefix(0, std::vector<std::size_t>{1}, granule(), stream);
    CHECK(registrar->known().size() == 3);
    suspend(tag, keep::contents);
    CHECK(registrar->known().empty());
    resume(tag);
    CHECK(registrar->known().size() == 3);
    arena.make_writable(1, 0, granule(), stream);
    CHECK(registrar->known().size() == 3);
  }
  drain_retired_memory();
  CHECK(registrar->known().empty());
  CHECK(registrar->mistakes() == 0);
}

TEST_CASE("registrar: a commit of slots whose registration fails changes none") {
  for (std::size_t nth = 1; nth <= 4; ++nth) {
    CAPTURE(nth);
    const auto registrar = std::make_shared<recording_registrar>();
    const hipvmm::stream stream{first_device};
    slot_arena arena{first_device,
                     {.slots = 2,
                      .bytes_per_slot = 2 * granule(),
                      .planes = 2,
                      .block_bytes = granule(),
                      .prefetch_blocks = 0,
                      .registrar = registrar}};
    arena.commit(std::vector<std::size_t>{0}, std::vector<std::size_t>{granule()}, stream);
    const std::vector<std::size_t> both{0, 1};
    registrar->fail_at(nth);
    CHECK_THROWS_AS(arena.commit(both, std::vector<std::size_t>{2 * granule(), granule()}, stream),
                    std::runtime_error);
    registrar->fail_at(0);
    CHECK(arena.length(0) == granule());
    CHECK(arena.length(1) == 0);
    const slot_arena_statistics now = arena.statistics();
    CHECK(registrar->known_bytes() == now.needed_bytes + now.spare_bytes);
    CHECK(registrar->mistakes() == 0);
    arena.commit(both, std::vector<std::size_t>{2 * granule(), granule()}, stream);
    CHECK(registrar->known_bytes() == 6 * granule());
  }
}

TEST_CASE("registrar: blocks prefetched whose registration fails are counted") {
  const auto registrar = std::make_shared<recording_registrar>();
  const hipvmm::stream stream{first_device};
  slot_arena arena{first_device,
                   {.slots = 1,
                    .bytes_per_slot = 4 * granule(),
                    .block_bytes = granule(),
                    .prefetch_blocks = 1,
                    .registrar = registrar}};
  // The commit's own is the first.
  registrar->fail_at(2);
  arena.commit(std::vector<std::size_t>{0}, std::vector<std::size_t>{granule()}, stream);
  detail::wait_for_background_tasks();
  CHECK(arena.statistics().failed_prefetches == 1);
  CHECK(registrar->known_bytes() == granule());
  arena.commit(std::vector<std::size_t>{0}, std::vector<std::size_t>{2 * granule()}, stream);
  detail::wait_for_background_tasks();
  CHECK(registrar->known_bytes() >= 2 * granule());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
