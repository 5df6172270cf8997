// SPDX-License-Identifier: MIT
// Counts the calls of HIP by growth, an arena, sleep and an importer, and shows their cost
// under a profile. Each operation works on `chunks` chunks, and on twice as many: neither its calls
// nor the mappings that these name may grow faster. The same on every machine.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/provider/host_control.h>
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/ipc/imported_blocks.hpp>
#include <hipvmm/ipc/publication.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace {

using hipvmm::MiB;
constexpr hipvmm::device_ref device{0};
constexpr hipvmm::device_ref other_device{1};
constexpr std::size_t unit = 2 * MiB;

struct call_counts {
  std::uint64_t create, map, access, unmap, release;
  std::uint64_t granted;  // mappings that calls for rights named

  static call_counts now() {
    return {hipvmm_host_call_count("hipMemCreate"),    hipvmm_host_call_count("hipMemMap"),
            hipvmm_host_call_count("hipMemSetAccess"), hipvmm_host_call_count("hipMemUnmap"),
            hipvmm_host_call_count("hipMemRelease"),   hipvmm_host_granted_mappings()};
  }
  friend call_counts operator-(const call_counts& a, const call_counts& b) {
    return {a.create - b.create, a.map - b.map,         a.access - b.access,
            a.unmap - b.unmap,   a.release - b.release, a.granted - b.granted};
  }
  [[nodiscard]] std::uint64_t sum() const { return create + map + access + unmap + release; }
};

/// Microseconds of a call; those of simulate_pool, for chunks of 2 MiB.
struct price_list {
  const char* name;
  double create, map, access, unmap;

  [[nodiscard]] double milliseconds(const call_counts& calls) const {
    return (create * static_cast<double>(calls.create) + map * static_cast<double>(calls.map) +
            access * static_cast<double>(calls.access) + unmap * static_cast<double>(calls.unmap)) /
           1000;
  }
};
constexpr price_list price_lists[] = {{"H100", 15.1, 1, 30.1, 21},
                                      {"A100", 193, 1.45, 36, 26},
                                      {"AMD low", 50, 50, 100, 200},
                                      {"AMD high", 200, 300, 700, 1000}};

template <class Body>
call_counts calls_of(Body body) {
  const call_counts before = call_counts::now();
  body();
  return call_counts::now() - before;
}

void make_region(hipvmm::region& made, std::size_t chunks) {
  for (std::size_t i = 0; i < chunks; ++i) made.commit(i * unit, unit);
}

call_counts grow(std::size_t chunks) {
  hipvmm::growable_storage vector{device, {.max_bytes = chunks * unit, .step_limit = 0}};
  return calls_of([&] {
    for (std::size_t i = 1; i <= chunks; ++i) vector.grow(i * unit);
  });
}

call_counts end(std::size_t chunks) {
  hipvmm::region memory{device, chunks * unit};
  make_region(memory, chunks);
  return calls_of([&] {
    memory.retire();
    hipvmm::drain_retired_memory();
  });
}

call_counts trim(std::size_t chunks) {
  hipvmm::region memory{device, chunks * unit};
  make_region(memory, chunks);
  const hipvmm::stream stream{device};
  return calls_of([&] { memory.trim(unit, stream); });
}

/// Sixteen slots in two planes.
struct sixteen_slots {
  static constexpr std::size_t slots = 16;
  std::size_t blocks;  // of each
  hipvmm::stream stream{device};
  hipvmm::slot_arena arena;
  std::vector<std::size_t> all;

  explicit sixteen_slots(std::size_t chunks)
      : blocks{chunks / slots / 2},
        arena{device, hipvmm::slot_arena_options{.slots = slots,
                                                 .bytes_per_slot = blocks * unit,
                                                 .planes = 2,
                                                 .block_bytes = unit,
                                                 .prefetch_blocks = 0}} {
    for (std::size_t i = 0; i < slots; ++i) all.push_back(arena.acquire(stream));
  }
  void commit(std::size_t length) {
    arena.commit(all, std::vector<std::size_t>(slots, length * unit), stream);
  }
  void release() {
    for (const std::size_t each : all) arena.release(each, stream);
    stream.synchronize();
  }
};

/// Their lengths grow by `blocks` in turn.
call_counts step(std::size_t chunks, std::size_t blocks) {
  sixteen_slots arena{chunks};
  return calls_of([&] {
    for (std::size_t end = blocks; end <= arena.blocks; end += blocks) arena.commit(end);
  });
}

call_counts step_by_one(std::size_t chunks) { return step(chunks, 1); }
/// Sequences that begin with a long prompt.
call_counts step_at_once(std::size_t chunks) { return step(chunks, chunks / 32); }

call_counts release_slots(std::size_t chunks) {
  sixteen_slots arena{chunks};
  arena.commit(arena.blocks);
  arena.release();
  return calls_of([&] { arena.arena.trim(); });
}

/// All slots but one show the bytes of that one.
call_counts share(std::size_t chunks) {
  sixteen_slots arena{chunks};
  arena.commit(1);
  arena.release();
  const std::size_t from = arena.all.front();
  const std::vector<std::size_t> others(arena.all.begin() + 1, arena.all.end());
  arena.arena.commit(std::vector{from}, std::vector{arena.blocks * unit}, arena.stream);
  arena.arena.trim();
  return calls_of(
      [&] { arena.arena.share_prefix(from, others, arena.blocks * unit, arena.stream); });
}

struct sleeping_region {
  hipvmm::memory_tag tag{"calls"};
  hipvmm::region memory;
  explicit sleeping_region(std::size_t chunks)
      : memory{device, chunks * unit, hipvmm::region_options{.tag = tag}} {
    make_region(memory, chunks);
  }
};

call_counts suspend_tag(std::size_t chunks) {
  sleeping_region one{chunks};
  return calls_of([&] { suspend(one.tag, hipvmm::keep::nothing); });
}

call_counts wake(std::size_t chunks) {
  sleeping_region one{chunks};
  suspend(one.tag, hipvmm::keep::nothing);
  return calls_of([&] { resume(one.tag); });
}

/// The calls that `body` counts, beside a publication of so many chunks.
template <class Body>
call_counts attached(std::size_t chunks, Body body) {
  std::string folder = (std::filesystem::temp_directory_path() / "hipvmm-calls-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error{"no folder for a socket"};
  hipvmm::region memory{device, chunks * unit, {.shareable = hipvmm::handle_type::posix_fd}};
  make_region(memory, chunks);
  const hipvmm::stream stream{device};
  call_counts calls{};
  {
    hipvmm::publication published{folder + "/memory", device, chunks * unit};
    published.announce(memory, chunks * unit, stream);
    stream.synchronize();
    calls = body(published, memory, stream);
  }
  std::filesystem::remove_all(folder);
  return calls;
}

call_counts attach(std::size_t chunks) {
  return attached(chunks, [chunks](auto& published, auto&, const auto& stream) {
    return calls_of([&] {
      hipvmm::attached_region seen{published.path()};
      while (seen.bytes() != chunks * unit) static_cast<void>(seen.refresh(stream));
    });
  });
}

/// The owner withdraws all chunks but one.
call_counts withdraw(std::size_t chunks) {
  return attached(chunks, [chunks](auto& published, auto& memory, const auto& stream) {
    hipvmm::attached_region seen{published.path()};
    while (seen.bytes() != chunks * unit) static_cast<void>(seen.refresh(stream));
    memory.trim(unit, stream);
    published.announce(memory, unit, stream);
    stream.synchronize();
    return calls_of([&] {
      while (seen.chunks().size() != 1) static_cast<void>(seen.refresh(stream));
    });
  });
}

call_counts import(std::size_t chunks) {
  hipvmm::region memory{device, chunks * unit, {.shareable = hipvmm::handle_type::posix_fd}};
  make_region(memory, chunks);
  hipvmm::imported_blocks seen{device, chunks * unit};
  return calls_of([&] {
    { const hipvmm::imported_block block = seen.add(memory.export_range(0, chunks * unit)); }
    static_cast<void>(seen.release_unused());
  });
}

/// The memory moves to other chunks, with its contents, as move_range() to another device has it.
call_counts move(std::size_t chunks) {
  hipvmm::region memory{device,
                        chunks * unit,
                        {.access = {{device, hipvmm::access_right::read_write},
                                    {other_device, hipvmm::access_right::read_write}}}};
  make_region(memory, chunks);
  const hipvmm::stream stream{device};
  // Not the calls of its probe.
  static_cast<void>(hipvmm::capability_of(other_device));
  return calls_of([&] { memory.move_range(0, chunks * unit, other_device, stream); });
}

struct operation {
  const char* name;
  call_counts (*run)(std::size_t chunks);
  std::size_t most_chunks = std::numeric_limits<std::size_t>::max();
};
// A chunk that is shared takes descriptors, of which a process may have 1,024.
constexpr std::array operations{operation{"growth", grow},
                                operation{"trim", trim},
                                operation{"end", end},
                                operation{"arena", step_by_one},
                                operation{"suspend", suspend_tag},
                                operation{"resume", wake},
                                operation{"attach", attach, 120},
                                operation{"prompts", step_at_once},
                                operation{"import", import, 120},
                                operation{"move", move, 40},
                                operation{"release", release_slots},
                                operation{"share", share},
                                operation{"withdraw", withdraw, 120}};

/// Whether `twice`, of twice the chunks, is not more than twice `once`, a twentieth and some.
bool is_linear(std::uint64_t once, std::uint64_t twice) { return twice <= once * 21 / 10 + 64; }

/// Without memory that an earlier operation left to threads and to the cache.
call_counts run(const operation& each, std::size_t chunks) {
  hipvmm::drain_retired_memory();
  hipvmm::chunk_cache::shared().trim(device);
  return each.run(chunks);
}

bool check(const operation& each, std::size_t chunks, double most, bool as_csv) {
  chunks = std::min(chunks, each.most_chunks);
  const call_counts calls = run(each, chunks);
  const call_counts twice = run(each, 2 * chunks);
  const char* const profile = std::getenv("HIPVMM_HOST_PROFILE");
  const auto shown = [](std::uint64_t count) { return static_cast<unsigned long long>(count); };
  std::printf(as_csv ? "%s,%s,%zu,%llu,%llu,%llu,%llu,%llu,%llu"
                     : "%s %s of %zu chunks: create %llu, map %llu, access %llu, unmap %llu, "
                       "release %llu, mappings granted %llu; ms:",
              profile == nullptr ? "strict" : profile, each.name, chunks, shown(calls.create),
              shown(calls.map), shown(calls.access), shown(calls.unmap), shown(calls.release),
              shown(calls.granted));
  for (const price_list& prices : price_lists) {
    if (as_csv)
      std::printf(",%.1f", prices.milliseconds(calls));
    else
      std::printf(" %s %.1f", prices.name, prices.milliseconds(calls));
  }
  std::printf("\n");
  if (!is_linear(calls.sum(), twice.sum()) || !is_linear(calls.granted, twice.granted)) {
    std::printf("%s: %llu calls that grant %llu mappings; of twice the chunks %llu, and %llu\n",
                each.name, shown(calls.sum()), shown(calls.granted), shown(twice.sum()),
                shown(twice.granted));
    return false;
  }
  const double per_chunk = static_cast<double>(calls.sum()) / static_cast<double>(chunks);
  if (most == 0 || per_chunk <= most) return true;
  std::printf("%s: %.3f calls for each chunk, and %.3f are allowed\n", each.name, per_chunk, most);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Counts the calls of HIP of growth, sleep and attaching, under a profile."};
  std::size_t chunks = 2000;
  std::vector<double> most;
  std::string only;
  bool as_csv = false;
  app.add_option("--chunks", chunks, "chunks of 2 MiB");
  app.add_option("--only", only, "one operation");
  app.add_option("--most", most,
                 "calls for each chunk that each operation may make, in their order")
      ->delimiter(':');
  app.add_flag("--csv", as_csv, "rows of a table");
  CLI11_PARSE(app, argc, argv);
  // On ROCm 7.14 each chunk takes a descriptor.
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = descriptors.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &descriptors));
  }
  if (as_csv) std::printf("profile,operation,chunks,create,map,access,unmap,release,granted,");
  if (as_csv) std::printf("h100_ms,a100_ms,amd_low_ms,amd_high_ms\n");
  bool passed = true;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!only.empty() && only != operations[i].name) continue;
    passed = check(operations[i], chunks, i < most.size() ? most[i] : 0, as_csv) && passed;
  }
  return passed ? 0 : 1;
}
