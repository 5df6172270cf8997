// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::detail {

/// Closes a descriptor that another process has sent, or a connection to one. Such a close may last
/// as long as its sender likes: a TCP socket may linger for hours, a file may be of a file system
/// that its sender serves, and a socket takes along its queue.
/// - A thread closes it. The caller waits a moment for that, so that numbers and memory are free
///   when it goes on. While a close lasts longer nobody waits, and after several for a minute.
/// - No end of the process or of an object waits for such a thread.
/// - A file in memory (memfd) is closed at once: nobody else takes part in that.
/// - In a child of fork(), which has none of the threads, the caller closes it.
void close_foreign(int descriptor) noexcept;

}  // namespace hipvmm::detail
