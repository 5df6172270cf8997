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
class keeper;
class publication_server;
}  // namespace detail

/// Growing memory, published under a path of the file system: other processes of the machine attach
/// to it (attached_region, attached_vector). The owner announces new chunks; an importer sees them
/// at its next refresh, and its mappings stay. A thread of the library serves the importers.
///
/// - The owner waits for no importer. It drops an importer that does not answer within
///   publication_options::patience or keeps withdrawn chunks longer than `lease`; the memory stays
///   mapped there until that process unmaps it or ends.
/// - **Visible size**: importers see a size only after all work that preceded announce() in its
///   stream has passed. So bytes below attached_region::bytes() are written, if the owner announces
///   in the stream that writes them, or in a stream ordered behind it.
/// - It holds descriptors of the chunks, not the object of the memory, which may move or end
///   before. A chunk lives until no process has it.
/// - The path of a process that died stays; the next publication there replaces it. The destructor
///   removes `path` and the folder `path.hipvmm`.
/// - In a child of fork() the destructor only closes the socket of the path; every other function
///   throws unsupported. The child keeps the path taken, and descriptors of the chunks, until it
///   ends or calls exec.
/// - An object that was moved from is empty: path() is empty, max_bytes() is 0, and every other
///   function throws std::invalid_argument.
///
/// docs/reference/ipc.md has the protocol, its guarantees and its threat model.
class publication {
 public:
  /// Publishes memory of `device` and of publication_options::other_devices. Each importer reserves
  /// `max_bytes` bytes of addresses; all offsets must be below. Throws: std::invalid_argument for a
  /// device that does not exist, `max_bytes` of 0, or a path that is empty or longer than a
  /// socket's may be (about 100 characters); ipc_error `refused` if another publication, or
  /// anything else, is at `path`; out_of_memory without descriptors; ipc_error `system`.
  publication(const std::string& path, device_ref device, std::size_t max_bytes,
              element_identity elements = {}, publication_options options = {});
  /// The same for the memory of a vector, as many addresses as it has now. Name the other devices
  /// of a striped one.
  template <typename T>
  publication(const std::string& path, const growable_device_vector<T>& vector,
              publication_options options = {})
      : publication{path, vector.device(), vector.max_size() * sizeof(T), elements_of<T>(),
                    std::move(options)} {}
  /// Keeps the memory that a process publishes at `from` beyond the end of that process: holds its
  /// descriptors, and publishes them at `path`, with the chunks and the readable bytes there now,
  /// and those that come, until the owner ends or withdraws them.
  /// - It maps nothing, uses no device and costs no device memory while the owner lives: one
  ///   descriptor for each chunk. It may live in any process of the owner's user.
  /// - Changes follow within some milliseconds. wait_until_withdrawn() of the owner's publication
  ///   does not wait for importers of this one.
  /// - An owner that sends invalid packets, or cuts this process off by its lease, is followed no
  ///   longer.
  /// `options.patience` also limits the connection to the owner; other_devices must be empty.
  /// Throws: as the constructor above, and as that of attached_region for `from`.
  [[nodiscard]] static publication keep(const std::string& from, const std::string& path,
                                        publication_options options = {});
  /// Returns whether it keeps the memory of an owner that still publishes.
  [[nodiscard]] bool follows() const noexcept;

  ~publication();
  publication(publication&& other) noexcept;
  publication& operator=(publication&& other) noexcept;

  /// Announces the chunks of `memory` to importers. Its first `bytes` bytes may be read after the
  /// work that is now in `stream` has passed.
  /// - Chunks that `memory` no longer has are withdrawn: importers unmap them at their next
  ///   refresh, and map their replacements. Until then no byte from the first of them on may be
  ///   read.
  /// - Announce in one stream, or in streams that are ordered behind each other.
  /// - Cost: an open descriptor of this process for each new chunk.
  /// Throws: std::invalid_argument if `memory` has a chunk of another device, exceeds max_bytes(),
  /// was not made shareable (region_options::shareable), or if this publication keeps another's, or
  /// is not backed for `bytes` bytes from its start; hip_error, also if `stream` is captured;
  /// out_of_memory without descriptors. Some chunks may be announced then; the size is as before,
  /// or ends before the first withdrawn chunk.
  void announce(region& memory, std::size_t bytes, stream_ref stream);
  /// The same for the `bytes` bytes from `offset` on, for a queue or memory without its first
  /// chunks. attached_region::data() is the first of them.
  void announce(region& memory, std::size_t offset, std::size_t bytes, stream_ref stream);
  /// The same for all elements of a vector, also after erase_front(). If that changed the vector's
  /// offsets, all chunks are withdrawn and announced again at the new ones.
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
  [[nodiscard]] detail::publication_server& live() const;
  publication(std::unique_ptr<detail::publication_server> made,
              std::unique_ptr<detail::keeper> keeper) noexcept;

  std::unique_ptr<detail::publication_server> publisher_;
  std::unique_ptr<detail::keeper> keeper_;  // ends before the publisher, to which it passes on
};

}  // namespace hipvmm
