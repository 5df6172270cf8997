// SPDX-License-Identifier: MIT
#include "c/c_interface.hpp"
#include "support/process/temporary_folder.hpp"

namespace hipvmm::test {
namespace {

hipvmm_tag_statistics statistics_of(const char* tag) {
  return result_of(hipvmm_tag_get_statistics, tag);
}

/// Whether the device gives memory back at all.
bool suspends(const char* tag, hipvmm_keep keep, const char* options = nullptr) {
  std::size_t bytes = 77;
  const hipvmm_status status = hipvmm_suspend(tag, keep, options, &bytes);
  if (status == HIPVMM_ERROR_UNSUPPORTED) {
    MESSAGE("skipped: " << hipvmm_last_error());
    return false;
  }
  require_ok(status);
  CHECK(bytes != 0);
  return true;
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("C sleep: an address of memory that sleeps is refused") {
  const owned_buffer one = make_buffer("max=64MiB,sleep_tag=c_refused");
  require_ok(hipvmm_buffer_append(one, "abc", 3, nullptr));
  void* const address = result_of(hipvmm_buffer_data, one);
  if (!suspends("c_refused", HIPVMM_KEEP_CONTENTS)) return;
  char host[3];
  CHECK(hipvmm_require_awake(address) == HIPVMM_ERROR_INVALID_STATE);
  CHECK(hipvmm_require_awake(host) == HIPVMM_OK);
  CHECK(hipvmm_copy(host, address, 3, nullptr) == HIPVMM_ERROR_INVALID_STATE);
  CHECK(hipvmm_copy_async(address, host, 3, nullptr) == HIPVMM_ERROR_INVALID_STATE);
  CHECK(hipvmm_fill_async(address, 1, 3, nullptr) == HIPVMM_ERROR_INVALID_STATE);
  require_ok(hipvmm_resume("c_refused", nullptr));
  CHECK(hipvmm_require_awake(address) == HIPVMM_OK);
  require_ok(hipvmm_copy(host, address, 3, nullptr));
}

TEST_CASE("C sleep: buffers of a tag wake at their addresses with their contents") {
  const owned_buffer one = make_buffer("max=64MiB,sleep_tag=c_weights");
  const owned_buffer other = make_buffer("max=64MiB,sleep_tag=c_weights");
  const owned_buffer without = make_buffer("max=64MiB");
  require_ok(hipvmm_buffer_append(one, "abc", 3, nullptr));
  require_ok(hipvmm_buffer_append(other, "def", 3, nullptr));
  require_ok(hipvmm_buffer_append(without, "ghi", 3, nullptr));
  void* const before = result_of(hipvmm_buffer_data, one);
  CHECK(statistics_of("c_weights").objects == 2);
  if (!suspends("c_weights", HIPVMM_KEEP_CONTENTS)) return;

  const hipvmm_tag_statistics asleep = statistics_of("c_weights");
  CHECK(asleep.is_asleep == 1);
  CHECK(asleep.bytes_asleep != 0);
  CHECK(asleep.bytes_on_host != 0);
  CHECK(result_of(hipvmm_suspend, "c_weights", HIPVMM_KEEP_CONTENTS, nullptr) == 0);
  CHECK(size_of(one) == 3);
  CHECK(first_bytes(without) == "ghi");
  char byte = 0;
  for (const hipvmm_status refused :
       {hipvmm_buffer_append(one, "x", 1, nullptr), hipvmm_buffer_resize(one, 10, nullptr),
        hipvmm_buffer_read(one, 0, &byte, 1, nullptr),
        hipvmm_buffer_write(one, 0, "x", 1, nullptr)})
    CHECK(fails(refused, HIPVMM_ERROR_INVALID_STATE, "the memory sleeps"));

  CHECK(result_of(hipvmm_resume, "c_weights") == asleep.bytes_asleep);
  require_ok(hipvmm_resume("c_weights", nullptr));
  CHECK(result_of(hipvmm_buffer_data, one) == before);
  CHECK(first_bytes(one) == "abc");
  CHECK(first_bytes(other) == "def");
  CHECK(statistics_of("c_weights").is_asleep == 0);
}

TEST_CASE("C sleep: contents may be dropped, be pageable, and be those of one stream") {
  const owned_buffer buffer = make_buffer("max=64MiB,sleep_tag=c_cache");
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  const temporary_folder folder;
  const std::string on_disk = "storage=file,folder=" + folder.path().string();
  for (const char* const storage : {"storage=pageable", "storage=pinned_kept", on_disk.c_str()}) {
    if (!suspends("c_cache", HIPVMM_KEEP_CONTENTS, storage)) return;
    const hipvmm_tag_statistics now = statistics_of("c_cache");
    CHECK((now.bytes_on_disk != 0) == (on_disk == storage));
    require_ok(hipvmm_resume("c_cache", nullptr));
    CHECK(first_bytes(buffer) == "abc");
  }
  require_ok(hipvmm_suspend_in_stream("c_cache", HIPVMM_KEEP_CONTENTS, nullptr, nullptr, nullptr));
  require_ok(hipvmm_resume("c_cache", nullptr));
  CHECK(first_bytes(buffer) == "abc");
  require_ok(hipvmm_suspend("c_cache", HIPVMM_KEEP_NOTHING, nullptr, nullptr));
  CHECK(statistics_of("c_cache").bytes_on_host == 0);
  require_ok(hipvmm_resume("c_cache", nullptr));
  require_ok(hipvmm_buffer_write(buffer, 0, "xyz", 3, nullptr));
  CHECK(first_bytes(buffer) == "xyz");
}

TEST_CASE("C sleep: ranges are zeros, or dropped, or stay where they can") {
  const owned_buffer zeros = make_buffer("max=64MiB,sleep_tag=c_ranges");
  const owned_buffer stays = make_buffer("max=64MiB,sleep_tag=c_ranges");
  require_ok(hipvmm_buffer_append(zeros, "abcd", 4, nullptr));
  require_ok(hipvmm_buffer_append(stays, "def", 3, nullptr));
  void* const zeroed = result_of(hipvmm_buffer_data, zeros);
  void* const kept = result_of(hipvmm_buffer_data, stays);
  const std::size_t capacity = result_of(hipvmm_buffer_capacity, stays);
  const hipvmm_suspend_range ranges[] = {{static_cast<char*>(zeroed) + 1, 2, HIPVMM_KEEP_ZEROS},
                                         {kept, capacity, HIPVMM_KEEP_MAPPED}};
  const auto sleep = [&](std::size_t count, void* const* stream = nullptr) {
    return hipvmm_suspend_ranges("c_ranges", HIPVMM_KEEP_CONTENTS, ranges, count,
                                 "storage=pageable", stream, nullptr);
  };
  CHECK(fails(hipvmm_suspend_ranges("c_ranges", HIPVMM_KEEP_CONTENTS, nullptr, 1, nullptr, nullptr,
                                    nullptr),
              HIPVMM_ERROR_INVALID_ARGUMENT, "ranges is null"));
  const hipvmm_suspend_range wrong[] = {{kept, 1, static_cast<hipvmm_keep>(7)}};
  CHECK(fails(
      hipvmm_suspend_ranges("c_ranges", HIPVMM_KEEP_CONTENTS, wrong, 1, nullptr, nullptr, nullptr),
      HIPVMM_ERROR_INVALID_ARGUMENT, "keep is 7"));
  if (sleep(2) == HIPVMM_ERROR_UNSUPPORTED) return;
  CHECK(statistics_of("c_ranges").bytes_mapped == capacity);
  CHECK(hipvmm_require_awake(kept) == HIPVMM_OK);
  CHECK(hipvmm_require_awake(zeroed) == HIPVMM_ERROR_INVALID_STATE);
  char byte = 0;
  require_ok(hipvmm_copy(&byte, kept, 1, nullptr));
  CHECK(byte == 'd');
  require_ok(hipvmm_resume("c_ranges", nullptr));
  CHECK(statistics_of("c_ranges").bytes_mapped == 0);
  char bytes[4];
  require_ok(hipvmm_buffer_read(zeros, 0, bytes, 4, nullptr));
  CHECK(std::string(bytes, 4) == std::string("a\0\0d", 4));
  CHECK(first_bytes(stays) == "def");
  void* const stream = nullptr;
  require_ok(sleep(0, &stream));
  CHECK(statistics_of("c_ranges").bytes_mapped == 0);
  require_ok(hipvmm_resume("c_ranges", nullptr));
}

TEST_CASE("C sleep: the memory of the host is there before the contents are") {
  const owned_buffer buffer = make_buffer("max=64MiB,sleep_tag=c_prepared");
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  const auto prepare = [](hipvmm_keep keep) {
    const std::size_t bytes = result_of(hipvmm_prepare_suspend, "c_prepared", keep, nullptr, 0);
    CHECK(statistics_of("c_prepared").bytes_on_host == bytes);
    return bytes;
  };
  CHECK(prepare(HIPVMM_KEEP_CONTENTS) != 0);
  CHECK(prepare(HIPVMM_KEEP_NOTHING) == 0);
  const std::size_t bytes = prepare(HIPVMM_KEEP_CONTENTS);
  if (!suspends("c_prepared", HIPVMM_KEEP_CONTENTS)) return;
  CHECK(statistics_of("c_prepared").bytes_on_host == bytes);
  CHECK(fails(hipvmm_prepare_suspend("c_prepared", HIPVMM_KEEP_CONTENTS, nullptr, 0, nullptr),
              HIPVMM_ERROR_INVALID_STATE, "sleeps"));
  require_ok(hipvmm_resume("c_prepared", nullptr));
  CHECK(first_bytes(buffer) == "abc");
}

TEST_CASE("C sleep: names that nothing was made with, and wrong values, are refused") {
  const owned_buffer buffer = make_buffer("max=64MiB,sleep_tag=c_named");
  const auto refused = [](hipvmm_status status, const char* text) {
    return fails(status, HIPVMM_ERROR_INVALID_ARGUMENT, text);
  };
  CHECK(refused(hipvmm_suspend("c_misspelt", HIPVMM_KEEP_NOTHING, nullptr, nullptr),
                "nothing was made with the tag 'c_misspelt'; tags: "));
  CHECK(std::string{hipvmm_last_error()}.find("c_named") != std::string::npos);
  CHECK(refused(hipvmm_resume("c_misspelt", nullptr), "c_misspelt"));
  CHECK(refused(hipvmm_resume(nullptr, nullptr), "tag is null"));
  CHECK(refused(hipvmm_suspend("c_named", static_cast<hipvmm_keep>(7), nullptr, nullptr),
                "keep is 7"));
  CHECK(refused(hipvmm_suspend("c_named", HIPVMM_KEEP_NOTHING, "storage=disk", nullptr),
                "allowed: pinned, pinned_kept, pageable or file"));
  CHECK(refused(hipvmm_suspend("c_named", HIPVMM_KEEP_CONTENTS, "storage=file", nullptr),
                "storage=file needs a folder=PATH"));
  for (const char* const half : {"folder=/tmp", "storage=pageable,folder=/tmp"})
    CHECK(refused(hipvmm_suspend("c_named", HIPVMM_KEEP_CONTENTS, half, nullptr),
                  "folder is for storage=file"));
  hipvmm_tag_statistics statistics{};
  CHECK(refused(hipvmm_tag_get_statistics("c_named", &statistics), "struct_size is 0"));
  hipvmm_buffer made = nullptr;
  CHECK(refused(hipvmm_buffer_create(0, "sleep_tag=", &made), "sleep_tag= is refused"));
  const owned_resource pool = make_pool();
  CHECK(hipvmm_buffer_create_on(pool, "sleep_tag=c_named", &made) != HIPVMM_OK);
  CHECK(statistics_of("c_named").is_asleep == 0);
  CHECK(statistics_of("c_named").objects == 1);
}

TEST_CASE("C sleep: blocks of a pool wake at their addresses with their contents") {
  const owned_resource pool = make_pool("maximum=64MiB,sleep_tag=c_pool");
  void* const block = result_of(hipvmm_allocate, pool, 1000, 0, nullptr);
  require_ok(hipvmm_fill_async(block, 'x', 1000, nullptr));
  if (!suspends("c_pool", HIPVMM_KEEP_CONTENTS)) return;
  void* none = nullptr;
  CHECK(
      fails(hipvmm_allocate(pool, 1000, 0, nullptr, &none), HIPVMM_ERROR_INVALID_STATE, "c_pool"));
  require_ok(hipvmm_resume("c_pool", nullptr));
  char last = 0;
  require_ok(hipvmm_copy(&last, static_cast<char*>(block) + 999, 1, nullptr));
  CHECK(last == 'x');
  require_ok(hipvmm_deallocate(pool, block, 1000, 0, nullptr));
}

TEST_CASE("C sleep: slots of an arena wake at their addresses with their contents") {
  const owned_slot_arena arena{result_of(
      hipvmm_slot_arena_create, 0, "slots=2,bytes_per_slot=8MiB,prefetch=0,sleep_tag=c_slots")};
  const std::size_t slot = result_of(hipvmm_slot_arena_acquire, arena, nullptr);
  const std::size_t length = 1000;
  require_ok(hipvmm_slot_arena_commit(arena, &slot, &length, 1, nullptr));
  void* const bytes = result_of(hipvmm_slot_arena_pointer, arena, slot, 0);
  require_ok(hipvmm_fill_async(bytes, 'x', length, nullptr));
  if (!suspends("c_slots", HIPVMM_KEEP_CONTENTS)) return;
  CHECK(statistics_of("c_slots").objects == 1);
  const std::size_t more = std::size_t{4} << 20;
  CHECK(fails(hipvmm_slot_arena_commit(arena, &slot, &more, 1, nullptr), HIPVMM_ERROR_INVALID_STATE,
              "c_slots"));
  require_ok(hipvmm_resume("c_slots", nullptr));
  char last = 0;
  require_ok(hipvmm_copy(&last, static_cast<char*>(bytes) + length - 1, 1, nullptr));
  CHECK(last == 'x');
  require_ok(hipvmm_slot_arena_commit(arena, &slot, &more, 1, nullptr));
}

TEST_CASE("C sleep: threads that append while the memory sleeps and wakes are refused, or served") {
  const owned_buffer buffer = make_buffer("max=64MiB,sleep_tag=c_threads");
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  if (!suspends("c_threads", HIPVMM_KEEP_CONTENTS)) return;
  require_ok(hipvmm_resume("c_threads", nullptr));
  std::size_t appended = 0;
  std::thread user{[&] {
    for (int i = 0; i < 200; ++i) {
      const hipvmm_status status = hipvmm_buffer_append(buffer, "x", 1, nullptr);
      if (status == HIPVMM_OK) ++appended;
      if (status != HIPVMM_OK && status != HIPVMM_ERROR_INVALID_STATE)
        FAIL_CHECK(hipvmm_last_error());
    }
  }};
  for (int i = 0; i < 5; ++i) {
    require_ok(hipvmm_suspend("c_threads", HIPVMM_KEEP_CONTENTS, nullptr, nullptr));
    owned_buffer born;  // in a tag that sleeps
    require_ok(hipvmm_buffer_create(0, "max=64MiB,sleep_tag=c_threads", born.out()));
    require_ok(hipvmm_resume("c_threads", nullptr));
  }
  user.join();
  CHECK(size_of(buffer) == 3 + appended);
  CHECK(first_bytes(buffer) == "abc");
  CHECK(statistics_of("c_threads").objects == 1);
}

TEST_CASE("C checkpoint: a file has the memory of a tag, and its notes") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "memory").string();
  std::size_t bytes = 0;
  void* address = nullptr;
  {
    const owned_buffer one = make_buffer("max=64MiB,sleep_tag=c_saved");
    require_ok(hipvmm_buffer_append(one, "abc", 3, nullptr));
    require_ok(hipvmm_buffer_data(one, &address));
    void* const default_stream = nullptr;
    require_ok(hipvmm_checkpoint_save("c_saved", path.c_str(), "notes", &default_stream, &bytes));
    CHECK(bytes >= 3);
    CHECK(fails(hipvmm_checkpoint_save("c_saved", nullptr, nullptr, nullptr, nullptr),
                HIPVMM_ERROR_INVALID_ARGUMENT, "path is null"));
    hipvmm_checkpoint refused = nullptr;
    CHECK(fails(hipvmm_checkpoint_load(path.c_str(), 0, nullptr, &refused),
                HIPVMM_ERROR_OUT_OF_MEMORY, "the addresses from"));
  }
  require_ok(hipvmm_drain_retired_memory());
  const owned_handle<hipvmm_checkpoint, hipvmm_checkpoint_destroy> loaded{
      result_of(hipvmm_checkpoint_load, path.c_str(), 0, "c_loaded")};
  char text[8];
  const std::size_t length = result_of(hipvmm_checkpoint_notes, loaded, text, sizeof text);
  CHECK(std::string(text, length) == "notes");
  char host[3];
  require_ok(hipvmm_copy(host, address, 3, nullptr));
  CHECK(std::string(host, 3) == "abc");
  CHECK(statistics_of("c_loaded").objects == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
