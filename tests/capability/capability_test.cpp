// SPDX-License-Identifier: MIT
#include <hipvmm/capability/capability.hpp>

#include <hipvmm/runtime/copy.hpp>
#include "capability/capability.hpp"
#include "capability/capability_text.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// A record in which all is as it should be.
capability::record perfect() {
  capability::record found;
  for (std::size_t i = 0; i < trait_count; ++i)
    found.set(static_cast<trait>(i), finding::yes, "so it is", persistence::lasting);
  return found;
}

capability concluded(capability::record found) {
  found.conclude();
  return capability{std::make_shared<const capability::record>(std::move(found))};
}

capability with(trait which, finding what) {
  capability::record found = perfect();
  found.set(which, what, "a reason", persistence::lasting);
  return concluded(std::move(found));
}

TEST_CASE("capability: a device without defects is used as it is meant") {
  const capability known = concluded(perfect());
  CHECK(known.path() == memory_path::vmm);
  CHECK(known.quirks().empty());
  CHECK(known.why_fallback().empty());
  CHECK(known.visibility_delay().count() == 0);
}

TEST_CASE("capability: each defect that can be worked around has its quirk") {
  struct row {
    trait missing;
    quirk because;
  };
  for (const auto& [missing, because] : {row{trait::tail_access, quirk::access_from_base},
                                         row{trait::reports_failed_map, quirk::verify_maps},
                                         row{trait::visible_at_once, quirk::wait_until_visible},
                                         row{trait::returns_memory, quirk::re_reserve},
                                         row{trait::crosses_reservations, quirk::one_reservation},
                                         row{trait::coherent_aliases, quirk::no_aliases},
                                         row{trait::imports_by_value, quirk::import_by_pointer}}) {
    CAPTURE(name_of(missing));
    const capability known = with(missing, finding::no);
    CHECK(known.path() == memory_path::vmm_with_quirks);
    CHECK(known.quirks() == std::vector{because});
    CHECK(known.needs(because));
    CHECK_FALSE(known.has(missing));
  }
}

TEST_CASE("capability: a defect that no quirk mends leads to the fallback, and says why") {
  for (const trait missing : {trait::virtual_memory, trait::several_reservations,
                              trait::unmaps_each, trait::crosses_chunks}) {
    CAPTURE(name_of(missing));
    const capability known = with(missing, finding::no);
    CHECK(known.path() == memory_path::fallback);
    CHECK(known.quirks().empty());
    CHECK(known.why_fallback() == std::string{name_of(missing)} + ": a reason");
  }
}

TEST_CASE(
    "capability: rights that can be set neither alone nor from the first on lead to the fallback") {
  capability::record found = perfect();
  found.set(trait::tail_access, finding::no, "refused alone", persistence::lasting);
  found.set(trait::base_access, finding::no, "refused together", persistence::lasting);
  const capability known = concluded(found);
  CHECK(known.path() == memory_path::fallback);
  CHECK(known.why_fallback() == "base_access: refused together");
}

TEST_CASE("capability: without tail_access chunks of one size are needed too, or the fallback") {
  capability::record found = perfect();
  found.set(trait::tail_access, finding::no, "refused alone", persistence::lasting);
  found.set(trait::equal_access, finding::no, "refused among equals", persistence::lasting);
  const capability known = concluded(found);
  CHECK(known.path() == memory_path::fallback);
  CHECK(known.why_fallback() == "equal_access: refused among equals");
}

TEST_CASE("capability: what no work-around could use changes nothing") {
  for (const trait missing :
       {trait::base_access, trait::equal_access, trait::unmaps_many, trait::keeps_read_only,
        trait::peer_access, trait::host_access, trait::counts_ending_streams, trait::free_waits,
        trait::pools_reuse_in_order, trait::pool_frees_return}) {
    CAPTURE(name_of(missing));
    CHECK(with(missing, finding::no).path() == memory_path::vmm);
  }
}

TEST_CASE("capability: memory that never comes back gets no work-around") {
  capability::record found = perfect();
  found.set(trait::returns_memory, finding::no, "", persistence::lasting);
  found.set(trait::returns_with_addresses, finding::no, "", persistence::lasting);
  CHECK(concluded(found).path() == memory_path::vmm);
}

TEST_CASE("capability: what is unknown counts as the safe answer") {
  CHECK(with(trait::virtual_memory, finding::unknown).has(trait::virtual_memory));
  for (const trait risky :
       {trait::unmaps_many, trait::crosses_reservations, trait::coherent_aliases,
        trait::keeps_read_only, trait::host_access, trait::counts_ending_streams, trait::free_waits,
        trait::pools_reuse_in_order, trait::pool_frees_return}) {
    CAPTURE(name_of(risky));
    CHECK_FALSE(with(risky, finding::unknown).has(risky));
  }
}

TEST_CASE("capability: mappings that are seen late have a time for it") {
  capability::record found = perfect();
  found.set(trait::visible_at_once, finding::no, "", persistence::lasting);
  CHECK(concluded(found).visibility_delay() == std::chrono::milliseconds{4});
  found.visibility_delay = std::chrono::milliseconds{3};
  CHECK(concluded(found).visibility_delay() == std::chrono::milliseconds{3});
  found.set(trait::visible_at_once, finding::yes, "", persistence::lasting);
  CHECK(concluded(found).visibility_delay().count() == 0);
}

TEST_CASE("capability: chunks that cost descriptors are to be larger") {
  capability::record found = perfect();
  found.descriptors_per_chunk = 1;
  CHECK(concluded(found).quirks() == std::vector{quirk::larger_chunks});
  found.descriptors_per_chunk = 0;
  CHECK(concluded(found).quirks().empty());
}

TEST_CASE("capability: every name is another, and every quirk is described") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < trait_count; ++i) names.insert(name_of(static_cast<trait>(i)));
  CHECK(names.size() == trait_count);
  std::set<std::string_view> texts;
  for (int i = 0; i <= static_cast<int>(quirk::larger_chunks); ++i) {
    const std::string_view text = description_of(static_cast<quirk>(i));
    CAPTURE(text);
    CHECK(text.ends_with("."));
    CHECK(text.find('#') != std::string_view::npos);
    texts.insert(text);
  }
  CHECK(texts.size() == 7);
}

TEST_CASE("capability_of: throws for a device that does not exist") {
  CHECK_THROWS_AS(static_cast<void>(capability_of(device_ref{device_count()})),
                  std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(capability_of(device_ref{-1})), std::invalid_argument);
}

TEST_CASE("capability_of: a device that is used has virtual memory, and each answer has a reason" *
          needs_virtual_memory) {
  const capability known = capability_of(first_device);
  CHECK(known[trait::virtual_memory] == finding::yes);
  CHECK(known.path() != memory_path::fallback);
  CHECK(known.minimum_granularity() == granule());
  CHECK(known.recommended_granularity() >= granule());
  CHECK(known.costs().map > 0);
  CHECK(known.descriptors_per_chunk() >= 0);
  CHECK(known.fingerprint().find(first_device.name()) == 0);
  CHECK_FALSE(known.origin().empty());
  for (std::size_t i = 0; i < trait_count; ++i) {
    CAPTURE(name_of(static_cast<trait>(i)));
    CHECK_FALSE(known.reason(static_cast<trait>(i)).empty());
  }
}

TEST_CASE("capability_of: gives every thread the one record") {
  std::array<const std::string*, 8> subjects{};
  in_a_thread_each(subjects, [](auto& each) { each = &capability_of(first_device).fingerprint(); });
  for (const std::string* each : subjects) CHECK(each == subjects.front());
}

/// A copy in the stream stands for a kernel: probes conclude the same from both.
void copy_words(std::uint32_t* to, const std::uint32_t* from, std::size_t count,
                stream_ref stream) {
  copy_async(stream, to, from, count * sizeof(*to));
}

/// The record of this process as it was, when a case has replaced it.
struct probed_again {
  ~probed_again() { probe_capability(first_device); }
};

TEST_CASE("probe_capability: looks with the caller's kernel too" * needs_virtual_memory) {
  const probed_again after;
  const capability known = probe_capability(first_device, copy_words);
  for (const trait seen :
       {trait::visible_at_once, trait::crosses_chunks, trait::coherent_aliases}) {
    CAPTURE(name_of(seen));
    CHECK(known[seen] == finding::yes);
    CHECK(known.reason(seen).find("copies and kernels") == 0);
  }
  CHECK(known[trait::host_access] != finding::unknown);
  CHECK(&capability_of(first_device).fingerprint() == &known.fingerprint());
}

// No cache: other test programs would read there the findings of kernels that do nothing.
HIPVMM_TEST_CASE_IN("probe_capability: finds a defect that only kernels show" *
                        needs_virtual_memory,
                    {"XDG_CACHE_HOME=", "HOME="}) {
  // The first kernels after each of some maps do nothing.
  int calls = 0;
  const capability known = probe_capability(
      first_device,
      [&calls](std::uint32_t* to, const std::uint32_t* from, std::size_t count, stream_ref stream) {
        if (++calls > 6) copy_words(to, from, count, stream);
      });
  CHECK(known[trait::visible_at_once] == finding::no);
  CHECK(known.needs(quirk::wait_until_visible));
  CHECK(known.visibility_delay() >= std::chrono::milliseconds{1});
}

TEST_CASE("probe_capability: the kernel runs with the device current, and may ask for its record" *
          needs_virtual_memory) {
  const device_ref last{device_count() - 1};
  std::vector<device_ref> current;
  std::string fingerprint;
  const capability known = probe_capability(last, [&](std::uint32_t* to, const std::uint32_t* from,
                                                      std::size_t count, stream_ref stream) {
    current.push_back(device_ref::current());
    fingerprint = capability_of(last).fingerprint();
    copy_words(to, from, count, stream);
  });
  REQUIRE_FALSE(current.empty());
  CHECK(std::count(current.begin(), current.end(), last) ==
        static_cast<std::ptrdiff_t>(current.size()));
  CHECK(fingerprint == known.fingerprint());
  CHECK(known.reason(trait::crosses_chunks).find("copies and kernels") == 0);
  probe_capability(last);
}

TEST_CASE("probe_capability: throws what the kernel throws, and keeps the record" *
          needs_virtual_memory) {
  const capability before = capability_of(first_device);
  CHECK_THROWS_AS(
      probe_capability(first_device, [](std::uint32_t*, const std::uint32_t*, std::size_t,
                                        stream_ref) { throw std::range_error{"no such kernel"}; }),
      std::range_error);
  CHECK(&capability_of(first_device).fingerprint() == &before.fingerprint());
}

TEST_CASE("capability text: lines are read as they were written") {
  capability::record written = perfect();
  written.set(trait::tail_access, finding::no, "refused with = and  # in it", persistence::lasting);
  written.minimum_granularity = 4096;
  written.recommended_granularity = 2 * 4096;
  written.descriptors_per_chunk = 1;
  written.visibility_delay = std::chrono::nanoseconds{1234567};
  written.costs = {1, 2, 3, 4, 5, 6, 7};
  std::string text = detail::number_lines_of(written);
  for (std::size_t i = 0; i < trait_count; ++i)
    text += detail::line_of(written, static_cast<trait>(i));
  capability::record read;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    detail::read_line(std::string_view{text}.substr(at, end - at), detail::keys::all,
                      persistence::lasting, {}, read);
    at = end + 1;
  }
  CHECK(read.findings == written.findings);
  CHECK(read.reasons == written.reasons);
  CHECK(detail::number_lines_of(read) == detail::number_lines_of(written));
}

TEST_CASE("capability text: a line that makes no sense is refused and quoted") {
  for (const char* line :
       {"", "tail_access", "tail_access=", "tail_access=maybe", "tail=yes", "=yes",
        "visibility_delay=2", "visibility_delay=2min", "visibility_delay=-2ms",
        "visibility_delay=99999999999s", "descriptors_per_chunk=-1", "descriptors_per_chunk=x",
        "descriptors_per_chunk=4294967297", "minimum_granularity=99999999999999999999",
        "cost_map=1.5", "cost_all=3"}) {
    CAPTURE(line);
    capability::record found;
    CHECK_THROWS_WITH_AS(
        detail::read_line(line, detail::keys::all, persistence::lasting, {}, found),
        doctest::Contains(("\"" + std::string{line} + "\" is not understood; ").c_str()),
        std::invalid_argument);
  }
}

TEST_CASE("capability text: the key that a misspelt one is near to is named, and no list") {
  capability::record found;
  const auto assume = [&](const char* line) {
    detail::read_line(line, detail::keys::assumable, persistence::passing, {}, found);
  };
  CHECK_THROWS_WITH_AS(assume("tail_acess=no"),
                       "\"tail_acess=no\" is not understood; did you mean tail_access?",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(assume("cost_umap=1"),
                       "\"cost_umap=1\" is not understood; did you mean cost_unmap?",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(assume("tail_access=maybe"), doctest::Contains("understood; known are "),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(assume("xyz=no"), doctest::Contains("understood; known are "),
                       std::invalid_argument);
}

TEST_CASE("capability text: what HIP says itself cannot be assumed") {
  for (const char* line : {"minimum_granularity=4096", "recommended_granularity=4096",
                           "cost_map=3600000000001", "cost_map=3us", "cost_wait=3"}) {
    CAPTURE(line);
    capability::record found;
    CHECK_THROWS_AS(
        detail::read_line(line, detail::keys::assumable, persistence::passing, {}, found),
        std::invalid_argument);
  }
}

TEST_CASE("capability text: prices of calls can be assumed") {
  capability::record found;
  detail::read_line("cost_unmap=1000000", detail::keys::assumable, persistence::passing, {}, found);
  CHECK(found.costs.unmap == 1'000'000);
  CHECK(found.costs.map == 0);
}

}  // namespace
}  // namespace hipvmm::test
