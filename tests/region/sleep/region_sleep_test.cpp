// SPDX-License-Identifier: MIT
#include <hipvmm/region/retained_chunk.hpp>
#include "region/region_test.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/device_use.hpp"

// Tagged memory sleeps and wakes at the same addresses.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(sleeping_regions, "sleep: contents come back at the same addresses") {
  for (const sleep_storage where : {sleep_storage::pinned, sleep_storage::pageable}) {
    CHECK(suspend(tag, keep::contents, stream, where) == 4 * unit);
    check_asleep();
    CHECK(tag.statistics().bytes_on_host == 4 * unit);
    CHECK(suspend(tag, keep::contents) == 0);
    CHECK(resume(tag) == 4 * unit);
    check_awake();
    CHECK(resume(tag) == 0);
  }
  first.commit(2 * unit, unit);
  CHECK(first.committed_from(0) == 3 * unit);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: memory goes back to the device meanwhile") {
  const std::size_t awake = bytes_in_use();
  suspend(tag, keep::contents);
  CHECK(bytes_in_use() + 4 * unit <= awake);
  resume(tag);
  CHECK(bytes_in_use() >= awake);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: suspend waits for the stream that it is given") {
  blocked_stream work{first_device};
  std::atomic<bool> has_returned{false};
  std::thread other{[&] {
    suspend(tag, keep::nothing, work);
    has_returned = true;
  }};
  CHECK_FALSE(happens([&] { return has_returned.load(); }));
  work.release();
  other.join();
  CHECK(tag.is_asleep());
  resume(tag);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: what is dropped costs the host nothing") {
  CHECK(suspend(tag, keep::nothing) == 4 * unit);
  CHECK(tag.statistics().bytes_on_host == 0);
  CHECK(tag.statistics().regions == 2);
  CHECK(resume(tag) == 4 * unit);
  CHECK(first.chunk_count() == 3);
  check_sizes();
  write_tag(first, 4, 7, stream);
  CHECK(has_tag(first, 4, 7, stream));
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: what needs the memory is refused by name") {
  suspend(tag, keep::contents);
  const auto refused = [](auto operation) { CHECK_THROWS_AS(operation(), std::logic_error); };
  refused([&] { first.commit(2 * unit, unit); });
  refused([&] { first.adopt(2 * unit, physical_chunk{first_device, unit}); });
  refused([&] { static_cast<void>(first.export_chunks()); });
  refused([&] { static_cast<void>(first.export_range(0, unit)); });
  refused([&] { first.prepare(unit, prefetch_level::mapped); });
  refused([&] { first.decommit(0, unit); });
  refused([&] { first.decommit(0, unit, stream); });
  refused([&] { first.move_range(0, unit, first_device, stream); });
  refused([&] { first.move_chunk(0, 2 * unit); });
  refused([&] { first.end_move(0); });
  refused([&] { first.grant(first_device); });
  refused([&] { first.set_access({}); });
  refused([&] { first.set_access(0, unit, {}); });
  refused([&] { static_cast<void>(first.effective_access(0, unit)); });
  refused([&] {
    try {
      static_cast<void>(first.rights_at(0));
    } catch (const std::invalid_argument&) {
      FAIL_CHECK("it says that nothing is backed");
      throw;
    }
  });
  refused([&] { first.trim(0, stream); });
  refused([&] { first.extend(32 * unit, unit); });
  refused([&] { first.rebase(0, 32 * unit, unit); });
  const std::string text = text_thrown_by<std::logic_error>([&] { first.commit(2 * unit, unit); });
  CHECK(text ==
        "region::commit: the memory sleeps under the tag \"weights\": call resume() of its tag "
        "first");
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: a region may be moved and destroyed") {
  suspend(tag, keep::contents);
  {
    const region gone = std::move(second);
    CHECK(gone.is_asleep());
  }
  CHECK(tag.statistics().regions == 1);
  CHECK(tag.statistics().bytes_on_host == 3 * unit);
  region other = std::move(first);
  CHECK(resume(tag) == 3 * unit);
  CHECK(other.base() == base);
  check_tags(other, 0, 2, 1, stream);
  suspend(tag, keep::contents);
  other.retire();
  CHECK(resume(tag) == 0);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: a region made meanwhile joins, and wakes with all") {
  suspend(tag, keep::contents);
  region late{first_device, 4 * unit, tagged(tag)};
  CHECK(late.is_asleep());
  CHECK_THROWS_AS(late.commit(0, unit), std::logic_error);
  CHECK(resume(tag) == 4 * unit);
  late.commit(0, unit);
  CHECK(late.committed_bytes() == unit);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: rights come back, those of single chunks too") {
  const auto peer = peer_of(first_device);
  if (!peer) return;
  first.grant(*peer, access_right::read);
  HIPVMM_REQUIRE_ANY_LAYOUT();
  first.set_access(unit, unit, access_list{{*peer, access_right::read_write}});
  suspend(tag, keep::contents);
  resume(tag);
  check_awake();
  CHECK(get_access(base, *peer) == access_right::read);
  CHECK(get_access(advance(base, unit), *peer) == access_right::read_write);
  CHECK(get_access(advance(base, 4 * unit), *peer) == access_right::read);
  CHECK(first.rights_at(unit).get(*peer) == access_right::read_write);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: a chunk made ahead goes, and may be ordered again") {
  const auto is_ready = [&] { return first.prepared_bytes() == unit; };
  first.prepare(unit, prefetch_level::created);
  REQUIRE(comes_true(is_ready));
  const std::size_t awake = bytes_in_use();
  suspend(tag, keep::contents);
  CHECK(first.prepared_bytes() == 0);
  CHECK(bytes_in_use() + 5 * unit <= awake);
  resume(tag);
  first.prepare(unit, prefetch_level::created);
  CHECK(comes_true(is_ready));
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions,
                  "sleep: memory that others may use is refused before anything") {
  region shared{first_device, 4 * unit, [&] {
                  region_options options = tagged(tag);
                  options.shareable = handle_type::posix_fd;
                  return options;
                }()};
  if (!capability_of(first_device).has(trait::shares_chunks)) return;
  shared.commit(0, unit);
  static_cast<void>(shared.export_chunks());
  CHECK_THROWS_AS(suspend(tag, keep::nothing), std::invalid_argument);
  check_awake();
  CHECK(shared.chunk_count() == 1);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: a retained chunk is refused until it is let go") {
  if (!capability_of(first_device).has(trait::retains_chunks)) return;
  {
    const retained_chunk held = retain_chunk(base);
    CHECK_THROWS_AS(suspend(tag, keep::contents), std::invalid_argument);
    check_awake();
  }
  CHECK(suspend(tag, keep::contents) == 4 * unit);
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions,
                  "sleep: a chunk at two addresses is refused until its move ends") {
  if (!first.can_move_chunks()) return;
  first.move_chunk(4 * unit, 5 * unit);
  CHECK_THROWS_AS(suspend(tag, keep::contents), std::invalid_argument);
  first.end_move(4 * unit);
  CHECK(suspend(tag, keep::contents) == 4 * unit);
  resume(tag);
  CHECK(first.committed_from(5 * unit) == unit);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: contents that cannot be copied are refused") {
  second.grant(first_device, access_right::read);
  CHECK_THROWS_AS(suspend(tag, keep::contents), std::invalid_argument);
  check_awake();
  CHECK(suspend(tag, keep::nothing) == 4 * unit);
  resume(tag);
  CHECK(second.access(first_device) == access_right::read);
  CHECK(get_access(second_base, first_device) == access_right::read);
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: suspend waits for the stream that it is given") {
  blocked_stream work{first_device};
  const auto tag_to_write = pattern(tag_bytes, 1004);
  copy_async(work, advance(base, 4 * unit), tag_to_write.data(), tag_bytes);
  std::thread other{[&] { work.release(); }};
  suspend(tag, keep::contents, work);
  CHECK(work.is_done());
  other.join();
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: a graph is valid again after it") {
  hipvmm::stream captured{first_device};
  hipGraph_t graph = nullptr;
  hipGraphExec_t runs = nullptr;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  copy_async(captured, advance(base, 4 * unit), base, unit);
  CHECK_THROWS_AS(suspend(tag, keep::contents, captured), std::invalid_argument);
  REQUIRE(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
  REQUIRE(hipGraphInstantiate(&runs, graph, nullptr, nullptr, 0) == hipSuccess);
  suspend(tag, keep::contents);
  resume(tag);
  check_awake();
  REQUIRE(hipGraphLaunch(runs, captured.get()) == hipSuccess);
  captured.synchronize();
  CHECK(read_bytes(stream, advance(base, 4 * unit), tag_bytes) == pattern(tag_bytes, 1000));
  CHECK(hipGraphExecDestroy(runs) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

TEST_CASE("sleep: a tag is one for all its copies") {
  const memory_tag one{"cache"};
  memory_tag same{"overwritten"};
  same = one;
  const memory_tag other{"cache"};
  CHECK(one == same);
  CHECK(one != other);
  CHECK(same.name() == "cache");
  CHECK(suspend(one, keep::nothing) == 0);
  CHECK(same.is_asleep());
  CHECK_FALSE(other.is_asleep());
  CHECK(resume(same) == 0);
  CHECK_FALSE(one.is_asleep());
  // A move leaves the tag in its place, so that options may be used again.
  auto options = tagged(one);
  const auto moved = std::move(options);
  const auto& left = options;  // NOLINT(bugprone-use-after-move): as promised
  REQUIRE(left.tag.has_value());
  CHECK(*left.tag == *moved.tag);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
