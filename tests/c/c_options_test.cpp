// SPDX-License-Identifier: MIT
#include "c/options.hpp"

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>
#include "c/c_interface.hpp"
#include "c/guard.hpp"
#include "c/settings.hpp"
#include "support/random_seed.hpp"
#include "support/rounds.hpp"

namespace hipvmm::test {
namespace {

struct two_options {
  std::size_t size = 1;
  bool flag = false;

  void apply(std::string_view text) {
    c::apply_options(
        "a test", text,
        {{"size", c::size_allowed,
          [this](std::string_view v) { size = c::size_value(v, first_device); }},
         {"flag", c::flag_allowed, [this](std::string_view v) { flag = c::flag_value(v); }}});
  }
  [[nodiscard]] std::string refusal(std::string_view text) {
    return text_thrown_by<std::invalid_argument>([&] { apply(text); });
  }
};

TEST_CASE("options: names and values are applied, spaces around them are not") {
  two_options options;
  options.apply("size=2MiB, flag = on ");
  CHECK(options.size == 2 * MiB);
  CHECK(options.flag);
  options.apply("flag=0");
  CHECK_FALSE(options.flag);
  CHECK(options.size == 2 * MiB);
  for (const char* none : {"", " ", "\n"}) options.apply(none);
  CHECK(options.size == 2 * MiB);
}

TEST_CASE("options: a part of the device's memory is a percentage of its total") {
  const std::size_t total = first_device.total_memory();
  CHECK(c::size_value("100%", first_device) == total);
  CHECK(c::size_value("0%", first_device) == 0);
  CHECK(c::size_value("12.5%", first_device) == total / 8);
  CHECK(c::limit_value("50%", first_device) == total / 2);
  CHECK(c::limit_value("unlimited", first_device) == std::numeric_limits<std::size_t>::max());
  for (const char* wrong : {"101%", "-1%", "%", "x%", "5%%", "nan%", "5 %"})
    CHECK_THROWS_AS(c::size_value(wrong, first_device), std::invalid_argument);
}

TEST_CASE("options: an error names the option, the value and what is allowed") {
  two_options options;
  CHECK(options.refusal("sice=1") == "options of a test: there is no 'sice'; did you mean size?");
  CHECK(options.refusal("flags") == "options of a test: there is no 'flags'; did you mean flag?");
  CHECK(options.refusal("other=1") ==
        "options of a test: there is no 'other'; choose one of size or flag");
  CHECK(options.refusal("flag=perhaps") ==
        "options of a test: flag=perhaps is refused: it is none of the names; allowed: on or off");
  CHECK(options.refusal("flag=onn") ==
        "options of a test: flag=onn is refused: it is none of the names, the nearest is on; "
        "allowed: "
        "on or off");
  const std::string size = options.refusal("size=4 Giraffes");
  CHECK(size.find("size=4 Giraffes is refused: ") != std::string::npos);
  CHECK(size.find("allowed: bytes such as 64MiB") != std::string::npos);
  CHECK(options.refusal("size=99999999EiB").find("size=99999999EiB is refused") !=
        std::string::npos);
  CHECK(options.refusal("size") ==
        "options of a test: 'size' has no value; write name=value, separated by commas");
  CHECK(options.refusal("size=1,").find("'' has no value") != std::string::npos);
  CHECK(options.refusal(",size=1").find("'' has no value") != std::string::npos);
  CHECK(options.refusal("size=1,size=2") == "options of a test: size is given twice");
  CHECK(options.refusal("=1").find("there is no ''") != std::string::npos);
  CHECK(options.refusal("size=").find("size= is refused") != std::string::npos);
}

TEST_CASE("options: numbers, lists and rights") {
  CHECK(c::number_value("17", 17) == 17);
  for (const char* wrong : {"18", "-1", "", "1x", "0x1", "99999999999999999999999"})
    CHECK_THROWS_AS(c::number_value(wrong, 17), std::invalid_argument);
  CHECK(c::list_value("0+2 + 1") == std::vector<unsigned>{0, 2, 1});
  CHECK_THROWS_AS(c::list_value("0++1"), std::invalid_argument);
  const access_list list = c::access_value("1:read+2", first_device);
  CHECK(list == access_list{{device_ref{1}, access_right::read},
                            {device_ref{2}, access_right::read_write}});
  CHECK(c::access_value("all:read", first_device) ==
        all_reachable_peers(first_device, access_right::read));
  for (const char* wrong : {"", "1:write", "1:", ":read", "one", "1+1"})
    CHECK_THROWS_AS(c::access_value(wrong, first_device), std::invalid_argument);
}

TEST_CASE("options: any text is applied or refused, and nothing else") {
  // Each text of up to five of these parts, which the parser distinguishes.
  const std::vector<std::string> parts{"size", "flag", "=", ",", "1", "%", "on", "+", " ", ":"};
  std::size_t refused = 0;
  for (std::size_t code = 0; code < 100'000; ++code) {
    std::string text;
    for (std::size_t rest = code, i = 0; i < 5; ++i, rest /= 10) text += parts[rest % 10];
    two_options options;
    try {
      options.apply(text);
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  }
  CHECK(refused > 50'000);
  CHECK(refused < 100'000);
}

TEST_CASE("options: those of a pool and of a buffer reach it") {
  const mr::pool_options pool = c::pool_settings(
      first_device,
      "initial=2MiB,maximum=50%,release_threshold=4MiB,reuse_event_dependencies=off,"
      "reuse_opportunistic=no,reuse_internal_dependencies=0,shareable=posix_fd,access=1:read,"
      "without_vmm=refuse,largest_chunk=8MiB,memory=uncached,forgets_streams=on,floor=6MiB,"
      "priority=-7");
  CHECK(pool.forgets_streams);
  CHECK(pool.floor_bytes == 6 * MiB);
  CHECK(pool.priority == -7);
  CHECK(pool.memory == chunk_memory::uncached);
  CHECK(pool.largest_chunk == 8 * MiB);
  CHECK(pool.initial_bytes == 2 * MiB);
  CHECK(pool.maximum_bytes == first_device.total_memory() / 2);
  CHECK(pool.release_threshold == 4 * MiB);
  CHECK(pool.reuse == mr::pool_reuse{false, false, false});
  CHECK(pool.shareable == handle_type::posix_fd);
  CHECK(pool.access.find(device_ref{1}) == access_right::read);
  CHECK(pool.fallback == without_vmm::refuse);

  const growth_options buffer =
      c::buffer_settings(first_device,
                         "max=64MiB,past_max=refuse,step_limit=unlimited,granule=4MiB,ahead=mapped,"
                         "ahead_watermark=1MiB,ahead_budget=8MiB,when_empty=keeps_addresses,spill="
                         "32MiB,memory=uncached");
  CHECK(buffer.chunks.memory == chunk_memory::uncached);
  CHECK(buffer.max_bytes == 64 * MiB);
  CHECK(buffer.past_max == past_max_size::refuse);
  CHECK(buffer.step_limit == std::numeric_limits<std::size_t>::max());
  CHECK(buffer.granule_bytes == 4 * MiB);
  CHECK(buffer.grow_ahead.prepare == prefetch_level::mapped);
  CHECK(buffer.grow_ahead.watermark_bytes == MiB);
  CHECK(buffer.grow_ahead.budget_bytes == 8 * MiB);
  CHECK(buffer.chunks.when_empty == empty_policy::keeps_addresses);
  CHECK(buffer.chunks.placement.budget_bytes() == 32 * MiB);
  CHECK_THROWS_AS(c::buffer_settings(first_device, "stripe_bytes=2MiB"), std::invalid_argument);
  CHECK_THROWS_AS(c::buffer_settings(first_device, "stripes=0,stripe_bytes=2MiB,spill=1"),
                  std::invalid_argument);
}

TEST_CASE("options: those of other resources and of sharing reach them") {
  const slot_arena_options slots = c::slot_settings(
      first_device, "slots=2,bytes_per_slot=8MiB,planes=3,budget=64MiB,floor=6MiB,priority=7");
  CHECK(slots.planes == 3);
  CHECK(slots.budget_bytes == 64 * MiB);
  CHECK(slots.floor_bytes == 6 * MiB);
  CHECK(slots.priority == 7);
  const mr::hip_async_options async =
      c::async_settings(first_device, "initial=1MiB,release_threshold=8MiB,shareable=posix_fd");
  CHECK(async.initial_bytes == MiB);
  CHECK(async.release_threshold == 8 * MiB);
  CHECK(c::pinned_settings("mapped=on,portable=on,write_combined=on").write_combined);
  const c::arena_options arena =
      c::arena_settings(first_device, "initial=1MiB,maximum=unlimited,dump_log_on_failure=on");
  CHECK(arena.dumps_log);
  CHECK(arena.initial_bytes == MiB);
  CHECK_THROWS_AS(c::arena_settings(first_device, "initial=2,maximum=1"), std::invalid_argument);
  const c::fixed_size_options blocks =
      c::fixed_size_settings(first_device, "block_size=4KiB,blocks=3");
  CHECK(blocks.block_size == 4 * KiB);
  CHECK(blocks.blocks == 3);
  CHECK(c::binning_settings("min_exponent=18,max_exponent=22").max_exponent == 22);
  CHECK_THROWS_AS(c::binning_settings("min_exponent=18"), std::invalid_argument);
  CHECK(c::alignment_setting("alignment=512") == 512);
  CHECK(c::alignment_setting(nullptr) == 256);
  const c::publishing_settings publishing =
      c::publication_settings("patience=7,max_importers=3,users=1+2,tag=9");
  CHECK(publishing.options.patience.count() == 7);
  CHECK(publishing.options.max_importers == 3);
  CHECK(publishing.options.other_users == std::vector<unsigned>{1, 2});
  CHECK(publishing.elements == element_identity{1, 1, 9});
  const c::attaching_settings attaching = c::attachment_settings(
      "right=read_write,peers=1:read,device=1,users=5,timeout=9,element_size=8,element_align=4");
  CHECK(attaching.options.right == access_right::read_write);
  CHECK(attaching.options.device == device_ref{1});
  CHECK(attaching.options.timeout.count() == 9);
  CHECK(attaching.elements == element_identity{8, 4, 0});
}

HIPVMM_TEST_CASE_IN("options: HIPVMM_CONF sets defaults, which options of a call overrule",
                    {"HIPVMM_CONF=pool.maximum=64MiB, buffer.max=32MiB,pool.initial=2MiB"}) {
  CHECK(c::pool_settings(first_device, nullptr).maximum_bytes == 64 * MiB);
  CHECK(c::pool_settings(first_device, nullptr).initial_bytes == 2 * MiB);
  CHECK(c::pool_settings(first_device, "maximum=8MiB").maximum_bytes == 8 * MiB);
  CHECK(c::buffer_settings(first_device, nullptr).max_bytes == 32 * MiB);
}

HIPVMM_TEST_CASE_IN("options: a mistake in HIPVMM_CONF is an error of the first pool and buffer",
                    {"HIPVMM_CONF=pool.maximum=64MiB,buffer.step_limt=1"}) {
  owned_resource pool;
  CHECK(fails(hipvmm_pool_create(0, nullptr, pool.out()), HIPVMM_ERROR_INVALID_ARGUMENT,
              "the environment variable HIPVMM_CONF: there is no 'buffer.step_limt'"));
  owned_buffer buffer;
  CHECK(fails(hipvmm_buffer_create(0, nullptr, buffer.out()), HIPVMM_ERROR_INVALID_ARGUMENT,
              "HIPVMM_CONF"));
  const owned_resource other{result_of(hipvmm_hip_create, 0)};
}

TEST_CASE("options: a text that is refused makes nothing") {
  const std::size_t before = live_handles();
  const owned_resource upstream = make_pool();
  hipvmm_resource made = upstream;
  CHECK(hipvmm_pool_create(0, "maximum=many", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(made == nullptr);
  CHECK(hipvmm_async_create(0, "x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_pinned_create("x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_arena_create(upstream, "x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_fixed_size_create(upstream, "x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_binning_create(upstream, "x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_tracking_create(upstream, "x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_limiting_create(upstream, 1, "x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_logging_create(upstream, "/tmp/x", "x=1", &made) == HIPVMM_ERROR_INVALID_ARGUMENT);
  hipvmm_attachment attachment = nullptr;
  CHECK(hipvmm_attach("/nowhere", "x=1", &attachment) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(live_handles() == before + 1);
}

TEST_CASE("options: sentences name them as the texts do") {
  const auto named = [](const char* sentence) { return c::with_option_names(sentence); };
  CHECK(named("growth_options::granule_bytes is 3") == "granule is 3");
  CHECK(named("raise maximum_bytes") == "raise maximum");
  CHECK(named("pool_options::tag: growth_options::fallback is without_vmm::always") ==
        "sleep_tag: without_vmm is always");
  CHECK(named("region_options::memory: use chunk_memory::standard") == "memory: use standard");
  CHECK(named("growth_options::chunks.tag: only chunks sleep") == "sleep_tag: only chunks sleep");
  CHECK(named("set growth_options::chunks.memory") == "set memory");
  CHECK(named("choose slot_layout::packed, access_right::read or sleep_storage::file") ==
        "choose packed, read or file");
  CHECK(named("vmm_pool_resource::grant: the tag") == "vmm_pool_resource::grant: the tag");
  CHECK(named("") == "");
  CHECK(c::with_option_names("raise maximum_bytes, not pool_options::tag", "pool.") ==
        "raise pool.maximum, not pool.sleep_tag");
  hipvmm_buffer made = nullptr;
  CHECK(hipvmm_buffer_create(0, "granule=3", &made) != HIPVMM_OK);
  const std::string said = hipvmm_last_error();
  CHECK_MESSAGE(said.find("granule is 3") != std::string::npos, said);
  CHECK_MESSAGE(said.find("::") == std::string::npos, said);
}

TEST_CASE("options: a message quotes the caller's names as they are") {
  hipvmm_buffer made = nullptr;
  CHECK(fails(hipvmm_buffer_create(0, "max_bytes=1GiB", &made), HIPVMM_ERROR_INVALID_ARGUMENT,
              "hipvmm_buffer_create: options of a buffer: there is no 'max_bytes'; did you mean "
              "max?"));
  hipvmm_resource pool = nullptr;
  CHECK(fails(hipvmm_pool_create(0, "maximum_bytes=1GiB", &pool), HIPVMM_ERROR_INVALID_ARGUMENT,
              "there is no 'maximum_bytes'; did you mean maximum?"));
}

TEST_CASE("options: an attachment names the devices that have no UUIDs") {
  const attach_options made = c::attachment_settings("device=0,other_devices=1+2").options;
  CHECK(made.device == device_ref{0});
  CHECK(made.other_devices == std::vector{device_ref{1}, device_ref{2}});
}

TEST_CASE("options: no text is more than an error") {
  std::mt19937 random = seeded_generator();
  const std::vector<std::string> parts{"max",
                                       "initial",
                                       "maximum",
                                       "granule",
                                       "stripes",
                                       "stripe_bytes",
                                       "spill",
                                       "access",
                                       "ahead",
                                       "step_limit",
                                       "release_threshold",
                                       "shareable",
                                       "blocks",
                                       "block_size",
                                       "min_exponent",
                                       "max_exponent",
                                       "alignment",
                                       "stacks",
                                       "timeout",
                                       "users",
                                       "device",
                                       "element_size",
                                       "=",
                                       "=",
                                       "=",
                                       ",",
                                       ",",
                                       "+",
                                       ":",
                                       "%",
                                       " ",
                                       "0",
                                       "1",
                                       "99",
                                       "-1",
                                       "18446744073709551615",
                                       "4294967295",
                                       "64MiB",
                                       "16EiB",
                                       "1e309",
                                       "nan",
                                       "inf",
                                       "on",
                                       "all",
                                       "read",
                                       "unlimited",
                                       "mapped",
                                       std::string(300, 'x'),
                                       "\xff\xfe",
                                       "\x01"};
  const owned_resource upstream = make_pool("maximum=64MiB");
  const std::size_t before = live_handles();
  const auto check = [&](const std::string& text, hipvmm_status status, const void* made) {
    CAPTURE(text);
    CHECK(status != HIPVMM_ERROR_INTERNAL);
    CHECK((made != nullptr) == (status == HIPVMM_OK));
  };
  for (int i = 0; i < rounds(2000); ++i) {
    std::string text;
    for (std::size_t length = below(random, 9); length != 0; --length)
      text += below(random, 8) == 0 ? std::string(1, static_cast<char>(1 + below(random, 255)))
                                    : parts[below(random, parts.size())];
    owned_buffer buffer;
    const hipvmm_status created = hipvmm_buffer_create(0, text.c_str(), buffer.out());
    check(text, created, buffer);
    owned_slot_arena arena;
    const hipvmm_status reserved = hipvmm_slot_arena_create(0, text.c_str(), arena.out());
    check(text, reserved, arena);
    const auto check_resource = [&](auto create) {
      owned_resource made;
      const hipvmm_status status = create(made.out());
      check(text, status, made);
    };
    check_resource([&](auto* to) { return hipvmm_pool_create(0, text.c_str(), to); });
    check_resource([&](auto* to) { return hipvmm_arena_create(upstream, text.c_str(), to); });
    check_resource([&](auto* to) { return hipvmm_fixed_size_create(upstream, text.c_str(), to); });
    check_resource([&](auto* to) { return hipvmm_binning_create(upstream, text.c_str(), to); });
    check_resource([&](auto* to) { return hipvmm_limiting_create(upstream, 9, text.c_str(), to); });
    check_resource([&](auto* to) { return hipvmm_tracking_create(upstream, text.c_str(), to); });
    owned_attachment attached;
    const hipvmm_status status = hipvmm_attach("/nowhere/at/all", text.c_str(), attached.out());
    check(text, status, attached);
  }
  CHECK(live_handles() == before);
}

TEST_CASE("options: a device that no int holds is refused as it was written") {
  owned_buffer buffer;
  CHECK(fails(hipvmm_buffer_create(0, "stripes=4294967295,stripe_bytes=2MiB", buffer.out()),
              HIPVMM_ERROR_INVALID_ARGUMENT, "stripes=4294967295 is refused: at most 2147483647"));
}

}  // namespace
}  // namespace hipvmm::test
