// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/publication_options.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

namespace detail {
class publisher;
}  // namespace detail

/// Memory that grows, under a path in the file system where other processes of the machine attach
/// to it (attached_region, attached_vector). The owner announces what is new; importers see it when
/// they look, and what they have mapped stays mapped. A thread of the library serves them.
///
/// - The owner waits for no importer. One that is slow, silent or hostile is dropped after
///   publication_options::patience, one that keeps withdrawn chunks after `lease`; its memory stays
///   mapped there until that process unmaps it or ends.
/// - **What an importer may read**: a size is visible to importers only when the work that was in
///   the stream of announce() before it has passed. So bytes below attached_region::bytes() were
///   written, where the owner announces in the stream that writes them, or one ordered behind it.
/// - It holds descriptors of the chunks, never the memory's object: that may move or end before it.
///   Chunks live as long as a process has one of them.
/// - A process that died leaves its path; the next publication there takes it over. The files
///   `path` and `path.lock` are removed at the end.
/// - In a child of fork() its end only closes the socket of the path; every other function throws
///   unsupported. The child keeps the path taken, and descriptors of the chunks, until it ends or
///   calls exec.
/// - A moved-from publication is empty: path() and max_bytes() are, and every other function throws
///   std::invalid_argument.
///
/// docs/reference/ipc.md has the protocol, its guarantees and its threat model.
class publication {
 public:
  /// Publishes memory of `device`, and of publication_options::other_devices, whose offsets are
  /// below `max_bytes`: those are the addresses that each importer reserves. Throws:
  /// std::invalid_argument for a device that does not exist, a size of zero, or a path that is
  /// empty or longer than a socket's may be (about 100 characters); ipc_error `refused` where
  /// another process, or this one, publishes at `path`, or where something else is there;
  /// out_of_memory without descriptors; ipc_error `system`.
  publication(const std::string& path, device_ref device, std::size_t max_bytes,
              published_elements elements = {}, publication_options options = {});
  /// The same for the memory of a vector, as many addresses as it has now. Name the other devices
  /// of a striped one.
  template <typename T>
  publication(const std::string& path, const growable_device_vector<T>& vector,
              publication_options options = {})
      : publication{path, vector.device(), vector.max_size() * sizeof(T), elements_of<T>(),
                    std::move(options)} {}
  ~publication();
  publication(publication&& other) noexcept;
  publication& operator=(publication&& other) noexcept;

  /// Makes the chunks of `memory` known to importers, and says that the first `bytes` bytes may be
  /// read once the work that is in `stream` now has passed. Chunks that `memory` no longer has are
  /// withdrawn: importers unmap them when they look; what took their place comes instead. Until
  /// then no byte from the first of them on may be read.
  /// - Announce in one stream, or in streams that are ordered behind each other.
  /// - Costs a descriptor for each new chunk, which stays open in this process.
  /// Throws: std::invalid_argument where `memory` has a chunk of another device, is larger than
  /// max_bytes(), was not made shareable (region_options::shareable), or has fewer than `bytes`
  /// bytes from its start on; hip_error, among others where `stream` is captured; out_of_memory
  /// without descriptors. Then chunks may be known already; the size is as before, or ends before
  /// the first chunk that was withdrawn.
  void announce(region& memory, std::size_t bytes, stream_ref stream);
  /// The same for the `bytes` bytes from `offset` on: memory whose first chunks are gone, or that a
  /// program uses as a queue. attached_region::data() is the first of them.
  void announce(region& memory, std::size_t offset, std::size_t bytes, stream_ref stream);
  /// The same for all elements of a vector, also after erase_front(). Where the vector's offsets
  /// change then, all chunks are withdrawn and come again with others.
  template <typename T>
  void announce(growable_device_vector<T>& vector, stream_ref stream) {
    announce_chunks(
        vector.chunks(), vector.data(), vector.size() * sizeof(T),
        [&vector](std::uint64_t since) { return vector.export_chunks(since); }, stream);
  }

  /// Waits until no importer has a chunk that was withdrawn before this call, because each has
  /// looked, has gone, or was cut off by publication_options::lease. Returns false at the timeout:
  /// then some process still maps it, and the memory comes back when that process unmaps it or
  /// ends. Nothing else depends on it.
  bool wait_until_withdrawn(std::chrono::milliseconds timeout);

  [[nodiscard]] const std::string& path() const noexcept;
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  /// Importers that are attached now.
  [[nodiscard]] std::size_t importers() const;

 private:
  using exporter = std::function<std::vector<exported_chunk>(std::uint64_t since)>;
  void announce_chunks(const std::vector<chunk_view>& chunks, const void* start, std::size_t bytes,
                       const exporter& export_since, stream_ref stream);
  [[nodiscard]] detail::publisher& live() const;

  std::unique_ptr<detail::publisher> publisher_;
};

}  // namespace hipvmm
