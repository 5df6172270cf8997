// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/guard_resource_adaptor.hpp>

#include "mr/mr_test.hpp"
#include "support/device_bytes.hpp"
#include "support/resource/contract.hpp"
#include "support/test_bytes.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

/// A guarded pool of the first device, and its reports.
struct guarded_pool {
  explicit guarded_pool(const guard_options& options = {}) { guard.emplace(&pool, options); }

  void write(void* pointer, std::ptrdiff_t offset) {
    fill_async(queue, static_cast<char*>(pointer) + offset, 0x41, 1);
  }
  [[nodiscard]] std::string reports() const {
    std::string text;
    for (const test::recorded_error& each : recorder.errors()) text += each.message + "\n";
    return text;
  }
  [[nodiscard]] bool says(const std::string& part) const {
    return reports().find(part) != std::string::npos;
  }

  test::error_recorder recorder;
  vmm_pool_resource pool{first_device};
  stream queue{first_device};
  std::optional<guard_resource_adaptor> guard;
};

guard_options without_quarantine(guard_check check) {
  return guard_options{.quarantine_bytes = 0, .check = check};
}

}  // namespace

TEST_CASE("guard_resource_adaptor: keeps the contract of a resource") {
  hip_resource upstream{first_device};
  guard_resource_adaptor guard{&upstream, without_quarantine(guard_check::later)};
  test::check_contract({guard, first_device, 1 * MiB});
}

TEST_CASE("guard_resource_adaptor: keeps the contract of a resource with a quarantine") {
  vmm_pool_resource upstream{first_device};
  guard_resource_adaptor guard{&upstream};
  test::check_contract({guard, first_device, 1 * MiB});
}

TEST_CASE("guard_resource_adaptor: a clean program is silent, and all returns to the upstream") {
  guard_options options;
  SUBCASE("later") {}
  SUBCASE("at once") { options.check = guard_check::at_once; }
  SUBCASE("no quarantine") { options.quarantine_bytes = 0; }
  SUBCASE("a small quarantine") { options.quarantine_bytes = 10 * KiB; }
  guarded_pool all{options};
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{255}, 4 * KiB, 3 * MiB}) {
    void* const one = all.guard->allocate(all.queue, bytes, 512);
    CHECK(reinterpret_cast<std::uintptr_t>(one) % 512 == 0);
    fill_async(all.queue, one, 0x41, bytes);
    all.guard->deallocate(all.queue, one, bytes, 512);
    void* const other = all.guard->allocate_sync(bytes);
    fill_async(all.queue, other, 0x41, bytes);
    all.guard->deallocate_sync(other, bytes);
  }
  all.guard->flush();
  CHECK(all.guard->damages() == 0);
  CHECK(all.guard->quarantined_bytes() == 0);
  CHECK(all.pool.statistics().used_current == 0);
  all.guard.reset();
  CHECK(all.reports().empty());
}

TEST_CASE("guard_resource_adaptor: new and freed blocks have their patterns") {
  guarded_pool all;
  void* const one = all.guard->allocate(all.queue, 1000);
  CHECK(test::read_bytes(all.queue, one, 1000) ==
        test::byte_vector(1000, guard_resource_adaptor::fresh));
  all.guard->deallocate(all.queue, one, 1000);
  // With canaries, in units of 256 bytes.
  CHECK(all.guard->quarantined_bytes() == 1536);
  CHECK(test::read_bytes(all.queue, one, 1000) ==
        test::byte_vector(1000, guard_resource_adaptor::freed));
}

TEST_CASE("guard_resource_adaptor: one byte behind or before a block is found") {
  guard_options options;
  SUBCASE("later") { options = without_quarantine(guard_check::later); }
  SUBCASE("at once") { options = without_quarantine(guard_check::at_once); }
  SUBCASE("in quarantine") {}
  SUBCASE("in quarantine, at once") { options.check = guard_check::at_once; }
  guarded_pool all{options};
  void* const one = all.guard->allocate(all.queue, 1001);
  all.write(one, 1001);
  all.guard->deallocate(all.queue, one, 1001);
  if (options.check == guard_check::at_once) CHECK(all.guard->damages() == 1);
  void* const two = all.guard->allocate(all.queue, 64, 4096);
  all.write(two, -1);
  all.guard->deallocate(all.queue, two, 64, 4096);
  void* const three = all.guard->allocate_sync(500);
  all.write(three, 502);
  all.guard->deallocate_sync(three, 500);
  all.guard->flush();
  CHECK(all.guard->damages() == 3);
  CHECK(all.says("a block of 1001 bytes at"));
  CHECK(all.says("was written behind its end, first at offset 1001: 0x41 instead of 0xfd"));
  CHECK(all.says("was written before its start, nearest at offset -1: 0x41 instead of 0xfd"));
  CHECK(all.says("first at offset 502"));
  CHECK(all.says("allocated by:"));
  CHECK(all.says("freed by:"));
  CHECK(all.recorder.count() == 3);
}

TEST_CASE("guard_resource_adaptor: the ends of the canaries are compared too, and no further") {
  guard_options options = without_quarantine(guard_check::at_once);
  options.canary_bytes = 16;
  guarded_pool all{options};
  void* one = all.guard->allocate(all.queue, 100, 1);
  all.write(one, 115);
  all.guard->deallocate(all.queue, one, 100, 1);
  CHECK(all.says("first at offset 115"));
  one = all.guard->allocate(all.queue, 100, 1);
  all.write(one, -16);
  all.guard->deallocate(all.queue, one, 100, 1);
  CHECK(all.says("nearest at offset -16"));
  CHECK(all.guard->damages() == 2);
}

TEST_CASE("guard_resource_adaptor: a write to a freed block is found when it leaves quarantine") {
  guarded_pool all{{.quarantine_bytes = 4 * MiB}};
  void* const one = all.guard->allocate(all.queue, MiB);
  all.guard->deallocate(all.queue, one, MiB);
  all.write(one, 700'000);
  all.queue.synchronize();
  CHECK(all.guard->damages() == 0);
  for (int i = 0; i < 4; ++i) {
    void* const next = all.guard->allocate(all.queue, MiB);
    all.guard->deallocate(all.queue, next, MiB);
  }
  CHECK(all.guard->quarantined_bytes() == 3 * (MiB + 512));
  CHECK(all.guard->damages() == 1);
  CHECK(all.says("was written after it was freed, first at offset 700000: 0x41 instead of 0xdd"));
}

TEST_CASE("guard_resource_adaptor: the quarantine's limit holds for small and aligned blocks") {
  guard_options options{.capture_stacks = false};
  const std::size_t most = test::test_bytes(MiB, 64 * KiB);
  options.quarantine_bytes = most;
  guarded_pool all{options};
  for (std::size_t i = 0; i < most / 350; ++i)  // of more than 350 bytes each
    all.guard->deallocate(all.queue, all.guard->allocate(all.queue, 8), 8);
  CHECK(all.pool.usage().used_current <= most);
  CHECK(all.guard->quarantined_bytes() == all.pool.usage().used_current);
  all.guard->flush();
  for (int i = 0; i < 3; ++i)
    all.guard->deallocate(all.queue, all.guard->allocate(all.queue, 8, 2 * MiB), 8, 2 * MiB);
  CHECK(all.pool.usage().used_current <= MiB);
}

TEST_CASE("guard_resource_adaptor: a refusal empties the quarantine first") {
  const test::error_recorder recorder;
  vmm_pool_resource pool{first_device, {.maximum_bytes = 8 * MiB}};
  const stream queue{first_device};
  guard_resource_adaptor guard{&pool};
  for (int i = 0; i < 3; ++i) {
    void* const one = guard.allocate(queue, 5 * MiB);
    guard.deallocate(queue, one, 5 * MiB);
  }
  CHECK_THROWS_AS(guard.allocate(queue, 9 * MiB), out_of_memory);
  CHECK(guard.quarantined_bytes() == 0);
}

TEST_CASE("guard_resource_adaptor: the oldest freed block leaves quarantine first") {
  guarded_pool all{{.quarantine_bytes = 3 * (MiB + 512)}};
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(all.guard->allocate(all.queue, MiB));
  for (int i = 0; i < 3; ++i) {
    all.guard->deallocate(all.queue, blocks[static_cast<std::size_t>(i)], MiB);
    all.queue.synchronize();  // so that the next call compares the canaries
  }
  all.write(blocks[0], 5);
  all.queue.synchronize();
  all.guard->deallocate(all.queue, blocks[3], MiB);
  CHECK(all.guard->damages() == 1);
}

TEST_CASE("guard_resource_adaptor: damage is thrown by the next allocation where it is asked for") {
  guard_options options = without_quarantine(guard_check::at_once);
  options.on_damage = guard_damage::throws;
  guarded_pool all{options};
  void* const one = all.guard->allocate(all.queue, 100);
  all.write(one, 100);
  all.guard->deallocate(all.queue, one, 100);
  CHECK(all.recorder.count() == 0);
  CHECK_THROWS_WITH_AS(all.guard->allocate(all.queue, 100),
                       doctest::Contains("first at offset 100"), std::logic_error);
  void* const two = all.guard->allocate(all.queue, 100);
  all.write(two, -3);
  all.guard->deallocate(all.queue, two, 100);
  CHECK_THROWS_AS(all.guard->flush(), std::logic_error);
  CHECK_NOTHROW(all.guard->flush());
  CHECK(all.pool.statistics().used_current == 0);
}

TEST_CASE("guard_resource_adaptor: freeing twice, wrong sizes and foreign memory are reported") {
  guarded_pool all;
  void* const one = all.guard->allocate(all.queue, 100);
  all.guard->deallocate(all.queue, one, 100);
  all.guard->deallocate(all.queue, one, 100);
  CHECK(all.says("is freed twice"));
  void* const two = all.guard->allocate(all.queue, 200);
  all.guard->deallocate(all.queue, two, 300);
  CHECK(all.says("is freed as 300 bytes"));
  void* const foreign = all.pool.allocate(all.queue, 400);
  all.guard->deallocate(all.queue, foreign, 400);
  CHECK(all.says("400 bytes at"));
  CHECK(all.recorder.count() == 3);
  all.guard->flush();
  CHECK(all.guard->damages() == 0);
  CHECK(all.pool.statistics().used_current == 0);
}

TEST_CASE("guard_resource_adaptor: it ends with blocks, which stay the upstream's") {
  guarded_pool all;
  void* const one = all.guard->allocate(all.queue, 1000);
  void* const freed = all.guard->allocate(all.queue, MiB);
  all.guard->deallocate(all.queue, freed, MiB);
  all.write(freed, 5);
  all.queue.synchronize();
  all.guard.reset();
  CHECK(all.says("it ends with 1000 B still in use, in 1 block"));
  CHECK(all.says("was written after it was freed, first at offset 5"));
  const std::size_t total = 256 + 1000 + 256;
  CHECK(all.pool.statistics().used_current >= total);
  all.pool.deallocate(all.queue, static_cast<char*>(one) - 256, total);
  CHECK(all.pool.statistics().used_current == 0);
}

TEST_CASE("guard_resource_adaptor: nobody waits for a stream, whose blocks are compared later") {
  guard_options options = without_quarantine(guard_check::later);
  SUBCASE("without a quarantine") {}
  SUBCASE("in quarantine") { options.quarantine_bytes = MiB; }
  guarded_pool all{options};
  test::blocked_stream held{first_device};
  void* const one = all.guard->allocate(held, 100);
  fill_async(held, static_cast<char*>(one) + 100, 0x41, 1);
  all.guard->deallocate(held, one, 100);
  void* const two = all.guard->allocate(all.queue, 100);
  all.guard->deallocate(all.queue, two, 100);
  CHECK(!held.is_done());
  CHECK(all.guard->damages() == 0);
  held.release();
  all.guard->flush();
  CHECK(all.guard->damages() == 1);
}

TEST_CASE("guard_resource_adaptor: a stream of another device may free") {
  HIPVMM_REQUIRE_DEVICE(peer, test::peer_of(first_device), "second device");
  guarded_pool all;
  all.pool.grant(peer);
  const stream other{peer};
  void* const one = all.guard->allocate(all.queue, 1000);
  all.write(one, 1000);
  all.queue.synchronize();
  all.guard->deallocate(other, one, 1000);
  all.guard->flush();
  CHECK(all.guard->damages() == 1);
  CHECK(all.pool.statistics().used_current == 0);
}

TEST_CASE("guard_resource_adaptor: a refused request goes through, and a size beyond all is one") {
  guarded_pool all;
  CHECK_THROWS_AS(all.guard->allocate(all.queue, SIZE_MAX), std::bad_alloc);
  CHECK_THROWS_AS(all.guard->allocate_sync(SIZE_MAX - 300), std::bad_alloc);
  CHECK(all.pool.statistics().used_current == 0);
  const guard_options options{.canary_bytes = 0};
  CHECK_THROWS_AS(guard_resource_adaptor(&all.pool, options), std::invalid_argument);
  CHECK_THROWS_AS(guard_resource_adaptor(nullptr), std::invalid_argument);
}

}  // namespace hipvmm::mr
