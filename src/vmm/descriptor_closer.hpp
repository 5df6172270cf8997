// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::detail {

/// Closes a descriptor that another process has sent, or a connection to one, in a thread. Such a
/// close may last as long as its sender likes: a TCP socket may linger for hours, a file may be of
/// a file system that its sender serves, and a socket takes along its queue.
/// - The caller waits a moment for the close, so that numbers and memory are free when it goes on.
///   While a close lasts longer, no caller waits; after more than three such closes no caller
///   waits for a minute.
/// - No end of the process or of an object waits for such a thread.
/// - The caller itself closes files in memory (memfd), because nobody else takes part in that, and
///   any descriptor in a child of fork(), which has none of the threads.
void close_foreign(int descriptor) noexcept;

}  // namespace hipvmm::detail
