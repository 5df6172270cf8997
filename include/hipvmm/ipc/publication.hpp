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

/// Growing memory, published under a path: other processes attach to it (attached_region,
/// attached_vector). An importer maps announced chunks at its next refresh; its mappings stay.
/// - A thread of the library serves the importers. Only wait_until_withdrawn() waits for them.
/// - **Visible size**: importers see a size only after all work that preceded announce() in its
///   stream has passed. Announce in the stream that writes the bytes, or in one ordered behind it:
///   then all bytes below attached_region::bytes() are written.
/// - It holds descriptors of the chunks; the object of the memory may move or end before it. A
///   chunk lives until no process has it.
/// - A process that dies leaves its path; the next publication there replaces it. The destructor
///   removes `path` and the folder `path.hipvmm`.
/// - In a child of fork(), announce(), wait_until_withdrawn() and importers() throw unsupported. If
///   the owner is killed, the child keeps the path taken until it destroys this object, ends or
///   calls exec. It keeps the chunks' descriptors until it ends or calls exec.
/// - An object that was moved from is empty: path() is empty, max_bytes() is 0, follows() is false,
///   and the other functions throw std::invalid_argument.
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
  /// The same for a vector, with its max_size(). Name the other devices of a striped one.
  template <typename T>
  publication(const std::string& path, const growable_device_vector<T>& vector,
              publication_options options = {})
      : publication{path, vector.device(), vector.max_size() * sizeof(T), elements_of<T>(),
                    std::move(options)} {}
  /// Keeps memory that another process publishes at `from` beyond the end of that process: holds
  /// the descriptors of its chunks, and publishes them at `path`. It follows the owner's changes
  /// within milliseconds, until the owner ends, sends invalid packets, or cuts it off by its lease.
  /// - It maps nothing and uses no device. It may live in any process of the owner's user.
  /// - wait_until_withdrawn() of the owner's publication does not wait for importers of this one.
  /// `options.patience` also limits the connection to the owner; other_devices must be empty.
  /// Throws: as the constructor above, and as that of attached_region for `from`.
  [[nodiscard]] static publication keep(const std::string& from, const std::string& path,
                                        publication_options options = {});
  [[nodiscard]] bool follows() const noexcept;  ///< keeps memory of an owner that still publishes

  ~publication();
  publication(publication&& other) noexcept;
  publication& operator=(publication&& other) noexcept;

  /// Announces the chunks of `memory`. Importers may read its first `bytes` bytes after the work
  /// that is now in `stream` has passed.
  /// - Chunks that `memory` no longer has are withdrawn: importers unmap them at their next
  ///   refresh, and map their replacements. Until that work has passed no byte from the first
  ///   withdrawn chunk on may be read; chunks erased at the front take only their own bytes away.
  /// - Announce in one stream, or in streams that are ordered behind each other.
  /// - Cost: an open descriptor of this process for each new chunk.
  /// Throws: std::invalid_argument if `memory` has a chunk of another device, exceeds max_bytes(),
  /// is not shareable (region_options::shareable) or is not backed for `bytes` bytes from its
  /// start, or if this publication keeps another's; hip_error, also if `stream` is captured;
  /// out_of_memory without descriptors. The chunks may be announced then; the size stays, or ends
  /// before the first withdrawn chunk.
  void announce(region& memory, std::size_t bytes, stream_ref stream);
  /// The same for the `bytes` bytes from `offset` on; attached_region::data() is the first of them.
  void announce(region& memory, std::size_t offset, std::size_t bytes, stream_ref stream);
  /// The same for all elements of a vector, also after erase_front(). If that changed the vector's
  /// offsets, all chunks are withdrawn and announced again at the new ones.
  template <typename T>
  void announce(growable_device_vector<T>& vector, stream_ref stream) {
    announce_chunks(
        vector.chunks(), vector.data(), vector.size() * sizeof(T),
        [&vector](std::uint64_t since) { return vector.export_chunks(since); }, stream);
  }

  /// Waits until no attached importer has a chunk that was withdrawn before this call. Returns
  /// false at the timeout. The memory comes back when the last process has unmapped it or ended.
  bool wait_until_withdrawn(std::chrono::milliseconds timeout);

  [[nodiscard]] const std::string& path() const noexcept;
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  [[nodiscard]] std::size_t importers() const;

 private:
  using exporter = std::function<std::vector<exported_chunk>(std::uint64_t since)>;
  void announce_chunks(const std::vector<chunk_view>& chunks, const void* start, std::size_t bytes,
                       const exporter& export_since, stream_ref stream);
  [[nodiscard]] detail::publication_server& live() const;
  publication(std::unique_ptr<detail::publication_server> made,
              std::unique_ptr<detail::keeper> keeper) noexcept;

  std::unique_ptr<detail::publication_server> publisher_;
  std::unique_ptr<detail::keeper> keeper_;  // ends before the publisher
};

}  // namespace hipvmm
