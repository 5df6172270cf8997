// SPDX-License-Identifier: MIT
// Every function of the C interface that takes a handle, with every kind of wrong one.
#include <fstream>
#include <regex>
#include <sstream>

#include "c/c_interface.hpp"
#include "support/process/temporary_folder.hpp"

namespace hipvmm::test {
namespace {

/// Results that no failed call may have changed, and arguments of all kinds.
struct scratch {
  std::size_t bytes = 77;
  int number = 77;
  void* pointer = nullptr;
  const char* name = nullptr;
  char text[8] = "text";
  hipvmm_right right = HIPVMM_RIGHT_READ;
  hipvmm_access access{0, HIPVMM_RIGHT_READ_WRITE};
  hipvmm_resource resource = nullptr;
  hipvmm_publication publication = nullptr;
  hipvmm_buffer buffer = nullptr;
  hipvmm_buffer_statistics growth{sizeof(hipvmm_buffer_statistics), 7, 7, 7, 7, 7, 7, 7, 7};
  hipvmm_pool_statistics pool{sizeof(hipvmm_pool_statistics), 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
  hipvmm_counters counters{sizeof(hipvmm_counters), 7, 7, 7, 7, 7, 7};
  hipvmm_graph_pool_statistics graphs{sizeof(hipvmm_graph_pool_statistics), 7, 7, 7, 7};
  std::size_t list[1] = {0};
  hipvmm_budget_statistics shared{sizeof(hipvmm_budget_statistics), 7, 7, 7, 7};
  hipvmm_budget_holder holder{7, 7, 7, 7, "holder"};
  hipvmm_pressure_note note{sizeof(hipvmm_pressure_note),
                            HIPVMM_PRESSURE_LOW,
                            HIPVMM_PRESSURE_LOW,
                            HIPVMM_EXHAUSTED_NOTHING,
                            7,
                            7,
                            7,
                            7,
                            7,
                            7,
                            {}};
  hipvmm_slot_arena_layout layout{sizeof(hipvmm_slot_arena_layout), nullptr, 7, 7, 7, 7, 7, 7, 7};
  hipvmm_slot_arena_statistics slots{
      sizeof(hipvmm_slot_arena_statistics), 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};

  [[nodiscard]] bool is_untouched() const {
    return bytes == 77 && number == 77 && pointer == nullptr && name == nullptr &&
           std::string{text} == "text" && right == HIPVMM_RIGHT_READ && resource == nullptr &&
           publication == nullptr && buffer == nullptr && growth.growth_steps == 7 &&
           pool.reserved_current == 7 && counters.current_bytes == 7 && layout.slots == 7 &&
           slots.used_bytes == 7 && shared.limit == 7 && holder.process == 7 &&
           note.level == HIPVMM_PRESSURE_LOW && graphs.held_bytes == 7;
  }
};

/// A parameter of a function, and the call with a value for it.
struct entry {
  std::string function;
  std::string parameter;
  std::function<hipvmm_status(void* handle, scratch& use)> call;
};

template <typename Handle>
Handle as(void* value) {
  return static_cast<Handle>(value);
}

constexpr auto buffer_of = as<hipvmm_buffer>;
constexpr auto resource_of = as<hipvmm_resource>;
constexpr auto attachment_of = as<hipvmm_attachment>;
constexpr auto arena_of = as<hipvmm_slot_arena>;
constexpr auto budget_of = as<hipvmm_budget>;
constexpr auto pressure_of = as<hipvmm_pressure>;

/// Handles that are right, for functions that take two.
struct right_handles {
  owned_buffer buffer = make_buffer();
  owned_resource pool = make_pool();
  owned_resource binning;
  owned_stream stream;
  temporary_folder folder;
  owned_publication publication;  // these two are null if there is no virtual memory
  owned_slot_arena arena;

  right_handles() {
    require_ok(hipvmm_binning_create(pool, nullptr, binning.out()));
    require_ok(hipvmm_stream_create(0, stream.out()));
    if (on_fallback()) return;
    require_ok(hipvmm_slot_arena_create(0, "slots=1,bytes_per_slot=2MiB", arena.out()));
    const owned_buffer published = make_buffer("max=64MiB,past_max=refuse,shareable=posix_fd");
    require_ok(hipvmm_buffer_publish(published, (folder.path() / "memory").c_str(), nullptr,
                                     publication.out()));
  }
};

int never(std::size_t, void*) { return 0; }

std::vector<entry> entries(const right_handles& right) {
  const hipvmm_resource pool = right.pool;
  const hipvmm_resource binning = right.binning;
// clang-format off
#define HIPVMM_ENTRY(function, parameter, ...) \
  entry{#function, parameter, [=](void* h, scratch& s) { \
    static_cast<void>(h); static_cast<void>(s); return function(__VA_ARGS__); }}
#define HIPVMM_OF_BUFFER(function, ...) \
  HIPVMM_ENTRY(function, "buffer", buffer_of(h), __VA_ARGS__)
#define HIPVMM_OF_RESOURCE(function, parameter, ...) \
  HIPVMM_ENTRY(function, parameter, resource_of(h), __VA_ARGS__)
#define HIPVMM_OF_ARENA(function, ...) \
  HIPVMM_ENTRY(function, "arena", arena_of(h), __VA_ARGS__)
#define HIPVMM_OF_ATTACHMENT(function, ...) \
  HIPVMM_ENTRY(function, "attachment", attachment_of(h), __VA_ARGS__)
  // clang-format on
  std::vector<entry> all{
      HIPVMM_ENTRY(hipvmm_stream_destroy, "stream", as<hipvmm_stream>(h)),
      HIPVMM_ENTRY(hipvmm_stream_get, "stream", as<hipvmm_stream>(h), &s.pointer),
      HIPVMM_ENTRY(hipvmm_event_destroy, "event", as<hipvmm_event>(h)),
      HIPVMM_ENTRY(hipvmm_event_get, "event", as<hipvmm_event>(h), &s.pointer),
      HIPVMM_ENTRY(hipvmm_event_record, "event", as<hipvmm_event>(h), nullptr),
      HIPVMM_ENTRY(hipvmm_event_is_done, "event", as<hipvmm_event>(h), &s.number),
      HIPVMM_ENTRY(hipvmm_event_synchronize, "event", as<hipvmm_event>(h)),
      HIPVMM_ENTRY(hipvmm_stream_wait, "event", nullptr, as<hipvmm_event>(h)),
      HIPVMM_ENTRY(hipvmm_buffer_destroy, "buffer", buffer_of(h)),
      HIPVMM_OF_BUFFER(hipvmm_buffer_size, &s.bytes),
      HIPVMM_OF_BUFFER(hipvmm_buffer_capacity, &s.bytes),
      HIPVMM_OF_BUFFER(hipvmm_buffer_max_size, &s.bytes),
      HIPVMM_OF_BUFFER(hipvmm_buffer_data, &s.pointer),
      HIPVMM_OF_BUFFER(hipvmm_buffer_device, &s.number),
      HIPVMM_OF_BUFFER(hipvmm_buffer_is_address_stable, &s.number),
      HIPVMM_OF_BUFFER(hipvmm_buffer_reserve, 4),
      HIPVMM_OF_BUFFER(hipvmm_buffer_resize, 4, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_resize_uninitialized, 4),
      HIPVMM_OF_BUFFER(hipvmm_buffer_append, s.text, 4, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_append_from_device, s.text, 4, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_erase_front, 0, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_insert, 0, s.text, 4, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_erase, 0, 0, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_shrink, HIPVMM_TAIL_KEEP, nullptr, &s.bytes),
      HIPVMM_OF_BUFFER(hipvmm_buffer_read, 0, s.text, 4, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_write, 0, s.text, 4, nullptr),
      HIPVMM_OF_BUFFER(hipvmm_buffer_get_statistics, &s.growth),
      HIPVMM_OF_BUFFER(hipvmm_buffer_explain, s.text, sizeof s.text, &s.bytes),
      HIPVMM_OF_BUFFER(hipvmm_buffer_grant, 1, HIPVMM_RIGHT_READ),
      HIPVMM_OF_BUFFER(hipvmm_buffer_set_access, &s.access, 1),
      HIPVMM_OF_BUFFER(hipvmm_buffer_access, 0, &s.right),
      HIPVMM_OF_BUFFER(hipvmm_buffer_publish, "/nowhere", nullptr, &s.publication),
      HIPVMM_ENTRY(hipvmm_publication_destroy, "publication", as<hipvmm_publication>(h)),
      HIPVMM_ENTRY(hipvmm_publication_importers, "publication", as<hipvmm_publication>(h),
                   &s.bytes),
      {"hipvmm_publication_announce", "publication",
       [buffer = right.buffer.get()](void* h, scratch&) {
         return hipvmm_publication_announce(as<hipvmm_publication>(h), buffer, nullptr);
       }},
      HIPVMM_ENTRY(hipvmm_attachment_destroy, "attachment", attachment_of(h)),
      HIPVMM_OF_ATTACHMENT(hipvmm_attachment_refresh, nullptr, &s.bytes),
      HIPVMM_OF_ATTACHMENT(hipvmm_attachment_wait, 4, 1, nullptr, &s.number),
      HIPVMM_OF_ATTACHMENT(hipvmm_attachment_data, &s.pointer),
      HIPVMM_OF_ATTACHMENT(hipvmm_attachment_size, &s.bytes),
      HIPVMM_OF_ATTACHMENT(hipvmm_attachment_device, &s.number),
      HIPVMM_OF_ATTACHMENT(hipvmm_attachment_is_open, &s.number),
      HIPVMM_ENTRY(hipvmm_slot_arena_destroy, "arena", arena_of(h)),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_acquire, nullptr, &s.bytes),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_commit, s.list, s.list, 1, nullptr),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_release, 0, nullptr),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_truncate, 0, 0, nullptr),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_share_prefix, 0, s.list, 1, 4, nullptr),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_make_writable, 0, 0, 4, nullptr),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_pointer, 0, 0, &s.pointer),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_length, 0, &s.bytes),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_capacity, 0, &s.bytes),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_in_use, 0, &s.number),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_slots_that_fit, 4, &s.bytes),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_set_eviction, nullptr, nullptr),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_set_budget, 4096),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_trim, &s.bytes),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_get_layout, &s.layout),
      HIPVMM_OF_ARENA(hipvmm_slot_arena_get_statistics, &s.slots),
      HIPVMM_ENTRY(hipvmm_budget_leave, "budget", budget_of(h)),
      HIPVMM_ENTRY(hipvmm_budget_set_limit, "budget", budget_of(h), 4096),
      HIPVMM_ENTRY(hipvmm_budget_make_room, "budget", budget_of(h), 1, &s.number),
      HIPVMM_ENTRY(hipvmm_budget_get_statistics, "budget", budget_of(h), &s.shared),
      HIPVMM_ENTRY(hipvmm_budget_get_holders, "budget", budget_of(h), &s.holder, 1, &s.bytes),
      HIPVMM_ENTRY(hipvmm_pressure_end, "pressure", pressure_of(h)),
      HIPVMM_ENTRY(hipvmm_pressure_now, "pressure", pressure_of(h), &s.note),
      HIPVMM_ENTRY(hipvmm_pressure_wait, "pressure", pressure_of(h), 0, &s.note, &s.number),
      HIPVMM_ENTRY(hipvmm_pressure_get_reasons, "pressure", pressure_of(h), &s.note.reason, 1,
                   &s.bytes),
      HIPVMM_ENTRY(hipvmm_resource_destroy, "resource", resource_of(h)),
      HIPVMM_OF_RESOURCE(hipvmm_buffer_create_on, "resource", nullptr, &s.buffer),
      HIPVMM_OF_RESOURCE(hipvmm_arena_create, "upstream", nullptr, &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_fixed_size_create, "upstream", nullptr, &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_graph_pool_create, "upstream", &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_binning_create, "upstream", nullptr, &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_binning_add_bin, "binning", 4096),
      HIPVMM_ENTRY(hipvmm_binning_add_bin_resource, "binning", resource_of(h), 4096, pool),
      HIPVMM_ENTRY(hipvmm_binning_add_bin_resource, "bin", binning, 4096, resource_of(h)),
      HIPVMM_OF_RESOURCE(hipvmm_logging_create, "upstream", "/nowhere/at/all", nullptr,
                         &s.resource),
      HIPVMM_ENTRY(hipvmm_logging_flush, "logging", resource_of(h)),
      HIPVMM_OF_RESOURCE(hipvmm_statistics_create, "upstream", &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_tracking_create, "upstream", nullptr, &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_limiting_create, "upstream", 4096, nullptr, &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_failure_callback_create, "upstream", never, nullptr, &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_prefetch_create, "upstream", &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_resource_kind, "resource", &s.name),
      HIPVMM_OF_RESOURCE(hipvmm_resource_device, "resource", &s.number),
      HIPVMM_OF_RESOURCE(hipvmm_resource_is_host_accessible, "resource", &s.number),
      HIPVMM_ENTRY(hipvmm_resource_is_equal, "resource", resource_of(h), pool, &s.number),
      HIPVMM_ENTRY(hipvmm_resource_is_equal, "other", pool, resource_of(h), &s.number),
      HIPVMM_OF_RESOURCE(hipvmm_resource_upstream, "resource", &s.resource),
      HIPVMM_OF_RESOURCE(hipvmm_allocate, "resource", 4, 0, nullptr, &s.pointer),
      HIPVMM_OF_RESOURCE(hipvmm_deallocate, "resource", s.text, 4, 0, nullptr),
      HIPVMM_OF_RESOURCE(hipvmm_allocate_sync, "resource", 4, 0, &s.pointer),
      HIPVMM_OF_RESOURCE(hipvmm_deallocate_sync, "resource", s.text, 4, 0),
      HIPVMM_ENTRY(hipvmm_set_device_resource, "resource", 0, resource_of(h)),
      HIPVMM_ENTRY(hipvmm_set_current_device_resource, "resource", resource_of(h)),
      HIPVMM_OF_RESOURCE(hipvmm_pool_deallocate, "pool", s.text),
      HIPVMM_OF_RESOURCE(hipvmm_pool_trim, "pool", 0, 0, &s.bytes),
      HIPVMM_OF_RESOURCE(hipvmm_pool_get_statistics, "pool", &s.pool),
      HIPVMM_ENTRY(hipvmm_pool_reset_peaks, "pool", resource_of(h)),
      HIPVMM_OF_RESOURCE(hipvmm_pool_report, "pool", s.text, sizeof s.text, &s.bytes),
      HIPVMM_OF_RESOURCE(hipvmm_pool_explain, "pool", s.text, sizeof s.text, &s.bytes),
      HIPVMM_OF_RESOURCE(hipvmm_pool_release_threshold, "pool", &s.bytes),
      HIPVMM_OF_RESOURCE(hipvmm_pool_set_release_threshold, "pool", 4096),
      HIPVMM_OF_RESOURCE(hipvmm_pool_grant, "pool", 1, HIPVMM_RIGHT_READ),
      HIPVMM_OF_RESOURCE(hipvmm_pool_set_access, "pool", &s.access, 1),
      HIPVMM_OF_RESOURCE(hipvmm_pool_access, "pool", 0, &s.right),
      HIPVMM_OF_RESOURCE(hipvmm_pool_note_stream_wait, "pool", nullptr, nullptr),
      HIPVMM_OF_RESOURCE(hipvmm_pool_forget_stream, "pool", nullptr),
      HIPVMM_OF_RESOURCE(hipvmm_statistics_counters, "statistics", &s.counters),
      HIPVMM_OF_RESOURCE(hipvmm_statistics_push, "statistics", &s.counters),
      HIPVMM_OF_RESOURCE(hipvmm_statistics_pop, "statistics", &s.counters),
      HIPVMM_OF_RESOURCE(hipvmm_tracking_allocated, "tracking", &s.bytes),
      HIPVMM_OF_RESOURCE(hipvmm_tracking_outstanding, "tracking", s.text, sizeof s.text, &s.bytes),
      HIPVMM_OF_RESOURCE(hipvmm_limiting_allocated, "limiting", &s.bytes),
      HIPVMM_ENTRY(hipvmm_graph_pool_release, "graph_pool", resource_of(h)),
      HIPVMM_OF_RESOURCE(hipvmm_graph_pool_get_statistics, "graph_pool", &s.graphs),
      HIPVMM_OF_RESOURCE(hipvmm_fixed_size_block, "fixed_size", &s.bytes),
  };
#undef HIPVMM_ENTRY
#undef HIPVMM_OF_BUFFER
#undef HIPVMM_OF_RESOURCE
#undef HIPVMM_OF_ATTACHMENT
#undef HIPVMM_OF_ARENA
  if (right.publication.get() != nullptr)
    all.push_back({"hipvmm_publication_announce", "buffer",
                   [publication = right.publication.get()](void* h, scratch&) {
                     return hipvmm_publication_announce(publication, buffer_of(h), nullptr);
                   }});
  return all;
}

/// Each parameter of a handle in the headers, as "function(parameter)". There is no publication for
/// the buffer of hipvmm_publication_announce if there is no virtual memory.
std::set<std::string> parameters_in_header() {
  std::ostringstream content;
  for (const char* const each : {"hipvmm.h", "serving.h"})
    content << std::ifstream{std::string{HIPVMM_C_HEADERS} + "/" + each}.rdbuf();
  const std::string header = content.str();
  const std::regex function{R"(\nhipvmm_status (hipvmm_\w+)\(([^;]*)\);)"};
  const std::regex handle{
      R"(hipvmm_(?:buffer|resource|stream|event|publication|attachment|slot_arena|budget|pressure) (\w+))"};
  std::set<std::string> found;
  for (std::sregex_iterator f{header.begin(), header.end(), function}, end; f != end; ++f) {
    const std::string parameters = (*f)[2];
    for (std::sregex_iterator p{parameters.begin(), parameters.end(), handle}; p != end; ++p)
      found.insert((*f)[1].str() + "(" + (*p)[1].str() + ")");
  }
  if (on_fallback()) found.erase("hipvmm_publication_announce(buffer)");
  return found;
}

TEST_CASE("C interface: each function that takes a handle is among those tested here") {
  const right_handles right;
  std::set<std::string> tested;
  for (const entry& each : entries(right))
    CHECK(tested.insert(each.function + "(" + each.parameter + ")").second);
  const std::set<std::string> listed = parameters_in_header();
  CHECK(listed.size() > 50);
  for (const std::string& each : listed) CHECK_MESSAGE(tested.count(each) == 1, each);
  for (const std::string& each : tested) CHECK_MESSAGE(listed.count(each) == 1, each);
}

TEST_CASE("C interface: every function refuses every handle that is not its own") {
  const right_handles right;
  // Stale ones, whose slots are in use again.
  void* stale_buffer = make_buffer().get();
  void* stale_pool = make_pool().get();
  const owned_buffer in_slot = make_buffer();
  int local = 0;
  const auto forged = [](void* handle, std::uint64_t change) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uint64_t>(handle) + change);
  };
  const std::vector<std::pair<const char*, void*>> wrong{
      {"null", nullptr},
      {"stale buffer", stale_buffer},
      {"stale resource", stale_pool},
      {"address", &local},
      {"one", reinterpret_cast<void*>(1)},
      {"all bits", reinterpret_cast<void*>(~std::uint64_t{0})},
      {"generation to come", forged(right.pool.get(), std::uint64_t{1} << 24)},
      {"slot to come", forged(right.pool.get(), 100'000)},
      {"buffer", right.buffer.get()},
      {"stream", right.stream.get()},
      {"publication", right.publication.get()},
      {"slot arena", right.arena.get()},
  };
  const std::size_t before = live_handles();
  for (const entry& each : entries(right)) {
    CAPTURE(each.function);
    CAPTURE(each.parameter);
    for (const auto& [name, handle] : wrong) {
      CAPTURE(name);
      const bool is_its_own =
          (each.parameter == "buffer" && handle == right.buffer.get()) ||
          (each.parameter == "stream" && handle == right.stream.get()) ||
          (each.parameter == "arena" && handle != nullptr && handle == right.arena.get()) ||
          (each.parameter == "publication" && handle != nullptr &&
           handle == right.publication.get());
      if (is_its_own) continue;
      scratch use;
      CHECK(each.call(handle, use) == HIPVMM_ERROR_INVALID_HANDLE);
      const std::string message = hipvmm_last_error();
      CHECK_MESSAGE(message.rfind(each.function + ": ", 0) == 0, message);
      CHECK(use.is_untouched());
    }
  }
  CHECK(live_handles() == before);
  CHECK(size_of(right.buffer) == 0);
}

TEST_CASE("C interface: functions for one kind of resource refuse the others") {
  // The others are names of one kind.
  const std::set<std::string> any_resource_or_none{
      "resource", "upstream",    "other",      "bin",   "buffer", "stream",
      "event",    "publication", "attachment", "arena", "budget", "pressure"};
  const right_handles right;
  const owned_resource hip{result_of(hipvmm_hip_create, 0)};
  for (const entry& each : entries(right)) {
    if (any_resource_or_none.count(each.parameter) == 1) continue;
    CAPTURE(each.function);
    scratch use;
    CHECK(fails(each.call(hip.get(), use), HIPVMM_ERROR_INVALID_HANDLE, "and this one is hip"));
    CHECK(use.is_untouched());
  }
}

TEST_CASE("C interface: a text needs room for its zero") {
  const owned_buffer buffer = make_buffer();
  const std::size_t length = result_of(hipvmm_device_uuid, 0, nullptr, 0);
  std::string room(length + 1, '#');
  CHECK(hipvmm_device_uuid(0, room.data(), length, nullptr) == HIPVMM_ERROR_TOO_SMALL);
  CHECK(room == std::string(length + 1, '#'));
  require_ok(hipvmm_device_uuid(0, room.data(), length + 1, nullptr));
  CHECK(room.find('\0') == length);
}

TEST_CASE("C interface: the last failure of a thread has its details") {
  hipvmm_failure failure{};
  CHECK(hipvmm_last_failure(nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(fails(hipvmm_last_failure(&failure), HIPVMM_ERROR_INVALID_ARGUMENT, "struct_size is 0"));
  failure.struct_size = sizeof failure.struct_size;
  CHECK(fails(hipvmm_last_failure(&failure), HIPVMM_ERROR_INVALID_ARGUMENT, "struct_size is 8"));
  failure.struct_size = sizeof failure;
  CHECK(hipvmm_buffer_destroy(nullptr) == HIPVMM_ERROR_INVALID_HANDLE);
  require_ok(hipvmm_last_failure(&failure));
  CHECK(failure.status == HIPVMM_ERROR_INVALID_HANDLE);
  CHECK(failure.device == -1);

  owned_buffer buffer = make_buffer("max=64MiB,past_max=refuse");
  CHECK(hipvmm_buffer_reserve(buffer, std::size_t{1} << 40) == HIPVMM_ERROR_OUT_OF_RANGE);
  const owned_resource pool = make_pool("maximum=64MiB");
  void* memory = nullptr;
  CHECK(hipvmm_allocate(pool, std::size_t{1} << 40, 0, nullptr, &memory) ==
        HIPVMM_ERROR_OUT_OF_MEMORY);
  require_ok(hipvmm_last_failure(&failure));
  CHECK(failure.status == HIPVMM_ERROR_OUT_OF_MEMORY);
  CHECK(failure.exhausted != HIPVMM_EXHAUSTED_NOTHING);
  CHECK(failure.bytes_requested == std::size_t{1} << 40);
  CHECK(failure.bytes_free != 0);
}

TEST_CASE("C interface: a shorter struct of an earlier header is filled as far as it goes") {
  const owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_resize(buffer, 10, nullptr));
  hipvmm_buffer_statistics statistics{};
  statistics.struct_size = offsetof(hipvmm_buffer_statistics, base_moves);
  statistics.base_moves = 77;
  require_ok(hipvmm_buffer_get_statistics(buffer, &statistics));
  CHECK(statistics.growth_steps == 1);
  CHECK(statistics.base_moves == 77);
  CHECK(statistics.struct_size == offsetof(hipvmm_buffer_statistics, base_moves));
}

TEST_CASE("C interface: status names, versions and texts") {
  CHECK(hipvmm_version() == HIPVMM_C_VERSION);
  CHECK(std::regex_match(hipvmm_version_text(), std::regex{R"(\d+\.\d+\.\d+(-dev)?)"}));
  CHECK(std::string{hipvmm_status_name(HIPVMM_ERROR_OUT_OF_MEMORY)} == "out_of_memory");
  CHECK(std::string{hipvmm_status_name(static_cast<hipvmm_status>(99))} == "unknown");
  char small[4];
  std::size_t length = 0;
  CHECK(hipvmm_device_name(0, small, sizeof small, &length) == HIPVMM_ERROR_TOO_SMALL);
  CHECK(length >= sizeof small);
  CHECK(hipvmm_device_name(0, nullptr, 0, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_device_name(0, nullptr, 5, &length) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(fails(hipvmm_device_name(99, small, sizeof small, &length), HIPVMM_ERROR_INVALID_ARGUMENT,
              "99"));
}

}  // namespace
}  // namespace hipvmm::test
