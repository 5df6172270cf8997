// SPDX-License-Identifier: MIT
// Containers that outlive the stream in which they deallocate.
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include "core/check.hpp"
#include "support/happens.hpp"
#include "support/host/foreign_stream.hpp"
#include "support/host/host_provider.hpp"
#include "support/pools_are_missing.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// Checks that `reported` has one report, which has all of `parts`.
void check_report(const error_recorder& reported, const std::vector<std::string>& parts) {
  REQUIRE(reported.count() == 1);
  const std::string text = reported.errors()[0].call + ": " + reported.errors()[0].message;
  for (const std::string& part : parts)
    CHECK_MESSAGE(text.find(part) != std::string::npos, "\"", text, "\" lacks \"", part, "\"");
}

/// Ends an object of `make(stream, resource)` when the stream is gone.
template <typename Make>
std::string end_behind_stream(mr::memory_resource& resource, Make make) {
  foreign_stream gone;
  const std::string name = detail::address_text(gone.get());
  const auto outlives = make(stream_ref{gone}, &resource);
  gone.end();
  return name;
}

template <typename Make>
void check_kind(mr::memory_resource& resource, const std::string& bytes, Make make) {
  const hipvmm_host_counters before = live_objects();
  const error_recorder reported;
  const std::string gone = end_behind_stream(resource, make);
  first_device.synchronize();
  check_report(reported, {"deallocate: a block of " + bytes, "stream " + gone, "set_stream()"});
  CHECK(live_objects() == before);
}

void check_containers(mr::memory_resource& resource) {
  check_kind(resource, "100 B", [](stream_ref in, mr::memory_resource* from) {
    return device_buffer{100, in, from};
  });
  check_kind(resource, "40 B", [](stream_ref in, mr::memory_resource* from) {
    return device_uvector<int>{10, in, from};
  });
  check_kind(resource, "8 B", [](stream_ref in, mr::memory_resource* from) {
    return device_scalar<double>{in, from};
  });
}

TEST_CASE("containers: the report of one that outlives its stream says what to do") {
  mr::managed_resource managed;
  mr::pinned_host_resource pinned;
  mr::new_delete_resource ordinary;
  mr::hip_resource memory{first_device};
  for (mr::memory_resource* const each :
       std::initializer_list<mr::memory_resource*>{&managed, &pinned, &ordinary, &memory})
    check_containers(*each);
}

TEST_CASE("hip_async_resource: a block whose stream is gone is freed behind its devices") {
  if (pools_are_missing()) return;
  mr::hip_async_resource pool{first_device};
  const auto free_gone = [&] {
    const error_recorder reported;
    const std::string gone = end_behind_stream(pool, [](stream_ref in, mr::memory_resource* from) {
      return device_uvector<int>{10, in, from};
    });
    check_report(reported, {"deallocate: a block of 40 B", "stream " + gone, "set_stream()"});
    // The library's thread may still wait.
    pool.deallocate_sync(pool.allocate_sync(40), 40);
    pool.trim_to(0);
  };
  free_gone();
  const std::uint64_t before = live_objects().allocations;
  for (int i = 0; i < 20; ++i) free_gone();
  // One block may wait, and a thread that waits by hipFree has one of its own.
  CHECK(comes_true([=] { return live_objects().allocations <= before + 1; }));
  CHECK(pool.statistics().used_current == 0);
}

TEST_CASE("imported_pool: a block whose stream is gone is released") {
  if (pools_are_missing()) return;
  mr::hip_async_resource owner{first_device,
                               mr::hip_async_options{.shareable = handle_type::posix_fd}};
  void* const block = owner.allocate_sync(MiB);
  const mr::exported_pointer pointer = owner.export_pointer(block);
  {
    const mr::imported_pool pool{owner.export_handle(), first_device};
    const hipvmm_host_counters before = live_objects();
    device_allocation imported = pool.import_pointer(pointer, MiB);
    foreign_stream gone;
    const stream_ref named = gone;
    gone.end();
    const error_recorder reported;
    pool.release(named, std::move(imported));
    check_report(reported, {"deallocate: a block of 1.00 MiB"});
    CHECK(live_objects() == before);
  }
  owner.deallocate_sync(block, MiB);
}

TEST_CASE("vmm_pool_resource: takes back a block whose stream is gone") {
  mr::vmm_pool_resource pool{first_device};
  const error_recorder reported;
  end_behind_stream(pool, [](stream_ref in, mr::memory_resource* from) {
    return device_uvector<int>{10, in, from};
  });
  CHECK(reported.count() == 0);
  CHECK(pool.statistics().used_current == 0);
}

}  // namespace
}  // namespace hipvmm::test
