// SPDX-License-Identifier: MIT
#include "c/settings.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/chunk_placement.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "c/objects.hpp"
#include "c/options.hpp"
#include "core/environment.hpp"

namespace hipvmm::c {
namespace {

using text = std::string_view;

text text_of(const char* options) { return options == nullptr ? text{} : text{options}; }

option shareable_option(handle_type& to) {
  return choice_option("shareable", to,
                       {{"none", handle_type::none}, {"posix_fd", handle_type::posix_fd}});
}

option memory_option(chunk_memory& to) {
  return choice_option(
      "memory", to, {{"standard", chunk_memory::standard}, {"uncached", chunk_memory::uncached}});
}

option access_option(const char* name, access_list& to, device_ref owner) {
  return {name, access_allowed, [&to, owner](text value) { to = access_value(value, owner); }};
}

option without_vmm_option(without_vmm& to) {
  return choice_option("without_vmm", to,
                       {{"use_hip_malloc", without_vmm::use_hip_malloc},
                        {"refuse", without_vmm::refuse},
                        {"always", without_vmm::always}});
}

option sleep_tag_option(std::optional<memory_tag>& to) {
  return {"sleep_tag", "a name",
          [&to](text value) { to = named_tag::of(std::string{value}).get(); }};
}

option size_option(const char* name, std::size_t& to, device_ref device) {
  return {name, size_allowed, [&to, device](text value) { to = size_value(value, device); }};
}

option limit_option(const char* name, std::size_t& to, device_ref device) {
  return {name, limit_allowed, [&to, device](text value) { to = limit_value(value, device); }};
}

option flag_option(const char* name, bool& to) {
  return {name, flag_allowed, [&to](text value) { to = flag_value(value); }};
}

void add_reuse(std::vector<option>& table, mr::pool_reuse& to) {
  table.push_back(flag_option("reuse_event_dependencies", to.follow_event_dependencies));
  table.push_back(flag_option("reuse_opportunistic", to.allow_opportunistic));
  table.push_back(flag_option("reuse_internal_dependencies", to.allow_internal_dependencies));
}

template <typename Number>
option number_option(const char* name, const char* allowed, Number& to, std::uint64_t most) {
  return {name, allowed,
          [&to, most](text value) { to = static_cast<Number>(number_value(value, most)); }};
}
constexpr std::uint64_t most_items = std::numeric_limits<std::uint32_t>::max();

/// Takes no percentage of a device's memory.
option bytes_option(const char* name, const char* allowed, std::size_t& to) {
  return {name, allowed, [&to](text value) { to = parse_bytes(value); }};
}

option milliseconds_option(const char* name, std::chrono::milliseconds& to) {
  return {name, "milliseconds, a number up to 86400000",
          [&to](text value) { to = std::chrono::milliseconds{number_value(value, 86'400'000)}; }};
}

option devices_option(const char* name, std::vector<device_ref>& to) {
  return {name, list_allowed, [&to](text value) {
            to.clear();
            for (const unsigned each : list_value(value, std::numeric_limits<int>::max()))
              to.emplace_back(static_cast<int>(each));
          }};
}

option users_option(std::vector<unsigned>& to) {
  return {"users", list_allowed, [&to](text value) { to = list_value(value); }};
}

std::vector<option> serving_table(publication_options& to) {
  return {milliseconds_option("patience", to.patience),
          number_option("max_importers", "a number up to 65536", to.max_importers, 65'536),
          users_option(to.other_users)};
}

/// Adds the options of the elements of a publication.
void add_elements(std::vector<option>& to, element_identity& elements) {
  to.insert(to.end(), {bytes_option("element_size", "bytes", elements.size),
                       bytes_option("element_align", "bytes", elements.align),
                       number_option("tag", "a number", elements.tag,
                                     std::numeric_limits<std::uint64_t>::max())});
}

option priority_option(int& to) {
  return {"priority", "a number from -1000 to 1000", [&to](text value) {
            const bool is_negative = !value.empty() && value.front() == '-';
            const auto number =
                static_cast<int>(number_value(value.substr(is_negative ? 1 : 0), 1000));
            to = is_negative ? -number : number;
          }};
}

// These two tables are also those of HIPVMM_CONF.

std::vector<option> pool_table(mr::pool_options& to, device_ref device) {
  std::vector<option> table{
      size_option("initial", to.initial_bytes, device),
      size_option("maximum", to.maximum_bytes, device),
      limit_option("release_threshold", to.release_threshold, device),
      size_option("floor", to.floor_bytes, device),
      priority_option(to.priority),
      shareable_option(to.shareable),
      access_option("access", to.access, device),
      without_vmm_option(to.fallback),
      size_option("largest_chunk", to.largest_chunk, device),
      memory_option(to.memory),
      flag_option("forgets_streams", to.forgets_streams),
      sleep_tag_option(to.tag),
  };
  add_reuse(table, to.reuse);
  return table;
}

struct placement_choice {
  std::vector<device_ref> devices;
  std::size_t stripe_bytes = 0;
  std::optional<std::size_t> budget;

  [[nodiscard]] chunk_placement get() const {
    if (budget && !devices.empty())
      throw std::invalid_argument{
          "options of a buffer: stripes and spill exclude each other: name one of them"};
    if (devices.empty() && stripe_bytes != 0)
      throw std::invalid_argument{
          "options of a buffer: stripe_bytes needs the devices, such as stripes=0+1"};
    if (budget) return chunk_placement::spill(*budget);
    if (devices.empty()) return chunk_placement::one_device();
    return chunk_placement::striped(devices, stripe_bytes);
  }
};

std::vector<option> buffer_table(growth_options& to, placement_choice& placement,
                                 device_ref device) {
  std::vector<option> table{
      size_option("max", to.max_bytes, device),
      choice_option("past_max", to.past_max,
                    {{"move", past_max_size::move}, {"refuse", past_max_size::refuse}}),
      limit_option("step_limit", to.step_limit, device),
      size_option("granule", to.granule_bytes, device),
      choice_option("ahead", to.grow_ahead.prepare,
                    {{"off", prefetch_level::off},
                     {"created", prefetch_level::created},
                     {"mapped", prefetch_level::mapped}}),
      size_option("ahead_watermark", to.grow_ahead.watermark_bytes, device),
      size_option("ahead_budget", to.grow_ahead.budget_bytes, device),
      shareable_option(to.chunks.shareable),
      access_option("access", to.chunks.access, device),
      choice_option("when_empty", to.chunks.when_empty,
                    {{"re_reserves", empty_policy::re_reserves},
                     {"keeps_addresses", empty_policy::keeps_addresses}}),
      devices_option("stripes", placement.devices),
      size_option("stripe_bytes", placement.stripe_bytes, device),
      memory_option(to.chunks.memory),
      sleep_tag_option(to.chunks.tag),
      {"spill", size_allowed,
       [&placement, device](text value) { placement.budget = size_value(value, device); }},
      without_vmm_option(to.fallback),
  };
  return table;
}

struct defaults {
  mr::pool_options pool;
  growth_options buffer;
  placement_choice placement;
  std::optional<named_limit> budget;

  explicit defaults(device_ref device, mr::pool_options pool_defaults = {})
      : pool{std::move(pool_defaults)} {
    const char* const configured = detail::environment("HIPVMM_CONF");
    if (configured == nullptr) return;
    std::vector<option> table = pool_table(pool, device);
    for (option& each : table) each.name.insert(0, "pool.");
    for (option& each : buffer_table(buffer, placement, device)) {
      each.name.insert(0, "buffer.");
      table.push_back(std::move(each));
    }
    table.push_back({"budget", "a name, or a name and a size: infer, infer:40GiB or infer:80%",
                     [this, device](text value) {
                       const std::size_t colon = value.find(':');
                       budget = named_limit{std::string{value.substr(0, colon)},
                                            colon == text::npos
                                                ? device.total_memory()
                                                : size_value(value.substr(colon + 1), device)};
                       if (budget->name.empty()) refuse_value("no budget is named");
                     }});
    apply_options("the environment variable HIPVMM_CONF", configured, table);
  }
};

}  // namespace

mr::pool_options pool_settings(device_ref device, const char* options,
                               mr::pool_options unconfigured) {
  defaults made{device, std::move(unconfigured)};
  apply_options("a pool", text_of(options), pool_table(made.pool, device));
  return std::move(made.pool);
}

growth_options buffer_settings(device_ref device, const char* options) {
  defaults made{device};
  apply_options("a buffer", text_of(options), buffer_table(made.buffer, made.placement, device));
  made.buffer.chunks.placement = made.placement.get();
  return std::move(made.buffer);
}

std::optional<named_limit> configured_budget(device_ref device) {
  return std::move(defaults{device}.budget);
}

bool names_a_budget() noexcept {
  return has_option(text_of(detail::environment("HIPVMM_CONF")), "budget");
}

mr::hip_async_options async_settings(device_ref device, const char* options) {
  mr::hip_async_options made;
  std::vector<option> table{size_option("initial", made.initial_bytes, device),
                            limit_option("release_threshold", made.release_threshold, device),
                            shareable_option(made.shareable)};
  add_reuse(table, made.reuse);
  apply_options("a pool of HIP's", text_of(options), table);
  return made;
}

mr::pinned_options pinned_settings(const char* options) {
  mr::pinned_options made;
  apply_options("pinned memory", text_of(options),
                {flag_option("portable", made.portable), flag_option("mapped", made.mapped),
                 flag_option("write_combined", made.write_combined)});
  return made;
}

arena_options arena_settings(device_ref device, const char* options) {
  arena_options made;
  apply_options("an arena", text_of(options),
                {size_option("initial", made.initial_bytes, device),
                 {"maximum", limit_allowed,
                  [&](text value) { made.maximum_bytes = limit_value(value, device); }},
                 flag_option("dump_log_on_failure", made.dumps_log)});
  if (made.initial_bytes > made.maximum_bytes.value_or(made.initial_bytes))
    throw std::invalid_argument{"options of an arena: initial is " +
                                format_bytes(made.initial_bytes) + ", more than maximum, " +
                                format_limit(*made.maximum_bytes)};
  return made;
}

fixed_size_options fixed_size_settings(device_ref device, const char* options) {
  fixed_size_options made;
  apply_options("blocks of one size", text_of(options),
                {size_option("block_size", made.block_size, device),
                 number_option("blocks", "a number of blocks", made.blocks, most_items)});
  return made;
}

binning_options binning_settings(const char* options) {
  binning_options made;
  constexpr const char* allowed = "a number from 0 to 40";
  apply_options("bins", text_of(options),
                {number_option("min_exponent", allowed, made.min_exponent, 40),
                 number_option("max_exponent", allowed, made.max_exponent, 40)});
  if (made.min_exponent.has_value() != made.max_exponent.has_value())
    throw std::invalid_argument{"options of bins: min_exponent and max_exponent are set together"};
  return made;
}

bool flag_setting(const char* of, const char* name, const char* options) {
  bool made = false;
  apply_options(of, text_of(options), {flag_option(name, made)});
  return made;
}

std::size_t alignment_setting(const char* options) {
  std::size_t made = mr::memory_resource::default_alignment;
  apply_options("a limit", text_of(options),
                {bytes_option("alignment", "bytes, a power of two", made)});
  return made;
}

slot_arena_options slot_settings(device_ref device, const char* options) {
  slot_arena_options made;
  const auto count = [](const char* name, std::size_t& to) {
    return number_option(name, "a number", to, most_items);
  };
  apply_options(
      "a slot arena", text_of(options),
      {count("slots", made.slots), size_option("bytes_per_slot", made.bytes_per_slot, device),
       count("planes", made.planes), size_option("block", made.block_bytes, device),
       choice_option("layout", made.layout,
                     {{"separate", slot_layout::separate}, {"packed", slot_layout::packed}}),
       limit_option("budget", made.budget_bytes, device),
       size_option("floor", made.floor_bytes, device), priority_option(made.priority),
       count("prefetch", made.prefetch_blocks), access_option("access", made.access, device),
       sleep_tag_option(made.tag)});
  return made;
}

joining_settings budget_settings(device_ref device, const char* options) {
  joining_settings made{device.total_memory(), {}};
  apply_options("a budget", text_of(options),
                {size_option("limit", made.limit, device), priority_option(made.options.priority),
                 milliseconds_option("patience", made.options.patience)});
  return made;
}

pressure_options pressure_settings(device_ref device, const char* options) {
  pressure_options made;
  const auto mark = [&](const char* name, free_watermark& to) -> option {
    return {name, "a size or a percentage, of free memory", [&](text value) {
              to = value.ends_with('%') ? free_watermark{percentage_value(value) / 100, 0}
                                        : free_watermark{0, size_value(value, device)};
            }};
  };
  apply_options("a pressure subscription", text_of(options),
                {mark("low", made.low),
                 mark("high", made.high),
                 mark("critical", made.critical),
                 {"hysteresis", "a percentage, as 2%",
                  [&](text value) { made.hysteresis = percentage_value(value) / 100; }},
                 size_option("limit", made.limit, device),
                 flag_option("device_memory", made.device_memory),
                 milliseconds_option("interval", made.interval),
                 choice_option("delivery", made.delivery,
                               {{"library_thread", pressure_delivery::library_thread},
                                {"requesting_thread", pressure_delivery::requesting_thread}})});
  return made;
}

namespace {

void apply_storage(const char* of, text options, suspend_options& made,
                   std::vector<option> others = {}) {
  others.push_back(choice_option("storage", made.storage,
                                 {{"pinned", sleep_storage::pinned},
                                  {"pinned_kept", sleep_storage::pinned_kept},
                                  {"pageable", sleep_storage::pageable},
                                  {"file", sleep_storage::file}}));
  others.push_back({"folder", "a folder of a local disk, for storage=file",
                    [&](text value) { made.folder = std::string{value}; }});
  apply_options(of, options, others);
  if (made.folder.empty() == (made.storage == sleep_storage::file))
    throw std::invalid_argument{std::string{"options of "} + of +
                                (made.folder.empty() ? ": storage=file needs a folder=PATH"
                                                     : ": folder is for storage=file only")};
}

}  // namespace

suspend_options suspend_settings(const char* options) {
  suspend_options made;
  apply_storage("a suspension", text_of(options), made);
  return made;
}

evictable_options evictable_settings(const char* options) {
  evictable_options made;
  apply_storage("an evictable", text_of(options), made.storage, {priority_option(made.priority)});
  return made;
}

publishing_settings publication_settings(const char* options) {
  publishing_settings made{{}, elements_of<unsigned char>()};
  std::vector<option> all = serving_table(made.options);
  add_elements(all, made.elements);
  apply_options("a publication", text_of(options), all);
  return made;
}

publication_options keeping_settings(const char* options) {
  publication_options made;
  apply_options("a kept publication", text_of(options), serving_table(made));
  return made;
}

attaching_settings attachment_settings(const char* options) {
  attaching_settings made{{}, elements_of<unsigned char>()};
  const device_ref current = device_ref::current();
  std::vector<option> all{
      {"right", right_allowed, [&](text value) { made.options.right = right_value(value); }},
      access_option("peers", made.options.peers, current),
      {"device", "a number",
       [&](text value) {
         made.options.device =
             device_ref{static_cast<int>(number_value(value, std::numeric_limits<int>::max()))};
       }},
      devices_option("other_devices", made.options.other_devices),
      users_option(made.options.other_users),
      milliseconds_option("timeout", made.options.timeout)};
  add_elements(all, made.elements);
  apply_options("an attachment", text_of(options), all);
  return made;
}

}  // namespace hipvmm::c
