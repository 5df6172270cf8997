// SPDX-License-Identifier: MIT
// Blocks that are exported and imported while HIP calls fail in turn.
#include <hipvmm/ipc/imported_blocks.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include "ipc/export_kind.hpp"
#include "ipc/ipc_test.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// A region of three chunks, its mirror, and a block of the first chunk that is mapped there.
struct mirrored_region {
  static region_options shareable() { return region_options{.shareable = handle_type::posix_fd}; }

  hipvmm::stream stream;
  region exporting{first_device, 8 * granule(), shareable()};
  imported_blocks seen{first_device, 8 * granule()};
  imported_block first;

  mirrored_region() {
    for (std::size_t i = 0; i < 3; ++i) exporting.commit(i * granule(), granule());
    write_tags(exporting, 0, 3, 1, stream);
    first = seen.add(exporting.export_range(0, granule()));
  }
  [[nodiscard]] bool has_tags(const void* data, std::size_t from) {
    return read_bytes(stream, data, tag_bytes) ==
           pattern(tag_bytes, 1000 + static_cast<std::uint32_t>(from));
  }
};

TEST_CASE("export_kind_of: calls that fail leave nothing") {
  fault_sweep{"export_kind_of"}.run(
      [] { CHECK(detail::probe_export(second_device) == export_kind::memory_file); });
  CHECK(export_kind_of(second_device) == export_kind::memory_file);
}

TEST_CASE("imported_blocks: calls of add that fail leave the blocks that are there") {
  const fault_sweep sweep{"imported_blocks::add", after_failure::capacity};
  sweep.run<mirrored_region>(
      [](auto& subject) {
        const imported_block block =
            subject.seen.add(subject.exporting.export_range(0, 3 * granule()));
        CHECK(subject.has_tags(block.data(), 0));
      },
      [](auto& subject) {
        CHECK(subject.has_tags(subject.first.data(), 0));
        // No block uses the chunks mapped before the failure.
        subject.seen.release_unused();
        CHECK(subject.seen.chunks().size() == 1);
        const imported_block block =
            subject.seen.add(subject.exporting.export_range(granule(), 2 * granule()));
        CHECK(subject.has_tags(block.data(), 1));
      },
      [](auto& subject) { CHECK(subject.seen.chunks().size() == 3); });
}

TEST_CASE("imported_blocks: calls that fail while a chunk replaces another lose no block") {
  const fault_sweep sweep{"imported_blocks::add, replacing", after_failure::capacity};
  sweep.run(
      [] {
        auto subject = std::make_unique<mirrored_region>();
        {
          const imported_block old =
              subject->seen.add(subject->exporting.export_range(granule(), 1));
        }
        subject->exporting.decommit(granule(), granule());
        subject->exporting.commit(granule(), granule());
        write_tag(subject->exporting, 1, 2, subject->stream);
        return subject;
      },
      [](auto& subject) {
        static_cast<void>(subject.seen.add(subject.exporting.export_range(granule(), 1)));
      },
      [](auto& subject) {
        CHECK(subject.has_tags(subject.first.data(), 0));
        const imported_block fresh = subject.seen.add(subject.exporting.export_range(granule(), 1));
        CHECK(read_bytes(subject.stream, fresh.data(), tag_bytes) == pattern(tag_bytes, 2001));
      },
      [](auto& subject) { CHECK(subject.seen.chunks().size() == 2); });
}

TEST_CASE("imported_blocks: without descriptors nothing is exported or imported") {
  mirrored_region all;
  exported_range block = all.exporting.export_range(granule(), 2 * granule());
  const std::size_t before = open_descriptors();
  {
    const no_descriptors_left limit;
    CHECK_THROWS_AS(static_cast<void>(all.exporting.export_range(0, 3 * granule())), out_of_memory);
    CHECK_THROWS_AS(static_cast<void>(all.seen.add(std::move(block))), std::exception);
  }
  CHECK(all.seen.chunks().size() == 1);
  CHECK(open_descriptors() <= before);
  CHECK(all.has_tags(all.first.data(), 0));
}

TEST_CASE("vmm_pool_resource: calls of export_block that fail export nothing") {
  struct exporting_pool {
    static mr::pool_options shareable() {
      return mr::pool_options{.maximum_bytes = 16 * granule(), .shareable = handle_type::posix_fd};
    }
    hipvmm::stream stream;
    mr::vmm_pool_resource pool{first_device, shareable()};
    void* block = pool.allocate(stream, 3 * granule());
    std::size_t descriptors = open_descriptors();

    ~exporting_pool() {
      pool.deallocate(stream, block, 3 * granule());
      stream.synchronize();
    }
  };
  const fault_sweep sweep{"export_block"};
  sweep.run<exporting_pool>(
      [](auto& subject) { static_cast<void>(subject.pool.export_block(subject.block)); },
      [](auto& subject) { CHECK(open_descriptors() == subject.descriptors); },
      [](auto& subject) { CHECK(!subject.pool.export_block(subject.block).chunks.empty()); });
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
