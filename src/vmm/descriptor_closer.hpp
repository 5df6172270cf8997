// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::detail {

/// Closes a descriptor that another process has sent, or a connection to one, in a thread, because
/// the sender can make the close last: a socket may linger, a file may be of its own file system.
/// - The caller waits a moment for the close. While one lasts longer, no caller waits; after more
///   than three such closes none waits for a minute.
/// - Nothing waits for such a thread at exit.
/// - The caller itself closes a memfd, and any descriptor in a child of fork().
void close_foreign(int descriptor) noexcept;

}  // namespace hipvmm::detail
