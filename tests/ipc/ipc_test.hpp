// SPDX-License-Identifier: MIT
// The includes of a test of publications, and its common parts: memory under a path, calls of the
// system that fail, and a peer that speaks by hand.
#pragma once

// IWYU pragma: begin_exports
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <variant>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/ipc/fd_channel.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/ipc/publication.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "ipc/fault_point.hpp"
#include "ipc/identity.hpp"
#include "ipc/packet.hpp"
#include "ipc/publication_page.hpp"
#include "ipc/raw_socket.hpp"
#include "ipc/socket.hpp"
#include "support/blocked_stream.hpp"
#include "support/process/descriptor_limit.hpp"
#include "support/process/forked_child.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/region/region_contents.hpp"
#include "support/test.hpp"
// IWYU pragma: end_exports

namespace hipvmm::test {

/// By which a child finds the path of a publication.
inline constexpr const char* path_variable = "HIPVMM_TEST_PATH";

inline std::string path_of_child() {
  const char* const path = std::getenv(path_variable);
  REQUIRE(path != nullptr);
  return path;
}

/// The environment of such a child.
inline std::vector<std::string> with_path(const std::string& path) {
  return {std::string{path_variable} + "=" + path};
}

/// Runs one beside this process.
inline std::future<child_result> start_child(const char* name, const std::string& path) {
  return std::async(std::launch::async, [=] { return run_child(name, with_path(path)); });
}

/// Attaches as soon as a process publishes there.
template <typename Attached = attached_region>
Attached attach_when_published(const std::string& path) {
  std::optional<Attached> seen;
  REQUIRE(comes_true([&] {
    try {
      seen.emplace(path);
    } catch (const ipc_error& error) {
      return error.reason() != ipc_failure::closed;
    }
    return true;
  }));
  REQUIRE(seen.has_value());
  return std::move(*seen);
}

inline region_options shareable_chunks() {
  return region_options{.shareable = handle_type::posix_fd};
}

inline std::string path_in(const temporary_folder& folder) {
  return (folder.path() / "memory").string();
}

inline attach_options attach_within(std::chrono::milliseconds timeout) {
  return attach_options{.timeout = timeout};
}

inline publication_options with_lease(std::chrono::milliseconds lease) {
  return publication_options{.lease = lease};
}

/// A region of two chunks under a path.
struct published_region {
  temporary_folder folder;
  std::string path = path_in(folder);
  hipvmm::stream stream;
  region owned{first_device, 8 * granule(), shareable_chunks()};
  publication published;

  explicit published_region(publication_options options = {})
      : published{path, first_device, 8 * granule(), {}, std::move(options)} {
    for (std::size_t i = 0; i < 2; ++i) owned.commit(i * granule(), granule());
    write_tags(owned, 0, 2, 1, stream);
    announce(2);
  }

  /// Announces the first `chunks` chunks, and waits until they may be read.
  void announce(std::size_t chunks) {
    published.announce(owned, chunks * granule(), stream);
    stream.synchronize();
  }
};

/// Descriptors of this process, as soon as their number stays the same for half a second: an owner
/// closes its end of a connection up to 0.2 s after the other end.
inline std::size_t steady_descriptors() {
  std::size_t count = open_descriptors();
  for (int same = 0; same < 500; ++same) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    if (const std::size_t now = open_descriptors(); now != count) {
      count = now;
      same = 0;
    }
  }
  return count;
}

/// Waits, some seconds at most, until `count` descriptors are open.
inline bool descriptors_become(std::size_t count) {
  for (int ms = 0; ms < 15000; ++ms) {
    if (open_descriptors() == count) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return false;
}

/// Which step of the thread that set it fails; 0: none.
inline thread_local long failing_step = 0;
inline thread_local int failing_code = 0;

/// Lets steps of the protocol fail while it lives.
class failing_steps {
 public:
  failing_steps() { detail::protocol_step_hook = fail_step; }
  ~failing_steps() {
    failing_step = 0;
    detail::protocol_step_hook = nullptr;
  }
  failing_steps& operator=(failing_steps&&) = delete;

 private:
  static int fail_step(const char*) {
    if (failing_step == 0) return 0;
    --failing_step;
    return failing_step == 0 ? failing_code : 0;
  }
};

/// Runs `action` with each step that this thread makes failing in turn, until none is left. An
/// action that fails must leave descriptors and mappings as they were.
template <typename Action>
void sweep_steps(Action action) {
  const std::size_t before = steady_descriptors();
  const std::size_t mapped = mappings_of("memfd");
  const failing_steps steps;
  for (const int code : {EMFILE, ENOMEM}) {
    bool struck = true;
    for (long step = 1; struck; ++step) {
      REQUIRE(step < 200);
      CAPTURE(step);
      CAPTURE(std::strerror(code));
      failing_step = step;
      failing_code = code;
      try {
        action();
      } catch (const ipc_error&) {
      } catch (const out_of_memory& error) {
        CHECK(error.resource() == exhausted::descriptors);
      }
      struck = failing_step == 0;
      failing_step = 0;
      CHECK(descriptors_become(before));
      CHECK(mappings_of("memfd") == mapped);
    }
  }
}

/// A peer that speaks the protocol by hand.
struct raw_importer {
  detail::owned_descriptor socket;
  explicit raw_importer(const std::string& path) {
    // While the owner has yet to accept others, there is no place for one more.
    for (int ms = 0; ms < 5000 && socket.empty(); ++ms) {
      if (ms != 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      socket = std::move(detail::connect_to(path).socket);
    }
    REQUIRE_FALSE(socket.empty());
  }
  void send(const detail::packet& content) {
    REQUIRE(detail::send_packet(socket.get(), content) == detail::transfer_result::done);
  }
  std::optional<detail::received_packet> receive() {
    detail::received_packet next;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    for (;;) {
      const detail::transfer_result result = detail::receive_packet(socket.get(), next);
      if (result == detail::transfer_result::done) return next;
      if (result == detail::transfer_result::closed) return std::nullopt;
      REQUIRE(detail::wait_readable(socket.get(), until));
    }
  }
  /// The sentence by which it is refused, and then the connection must be closed.
  std::string refusal() {
    const auto answer = receive();
    REQUIRE(answer.has_value());
    const auto* const refused = std::get_if<detail::refusal_packet>(&answer->content);
    REQUIRE(refused != nullptr);
    CHECK_FALSE(receive().has_value());
    return refused->text;
  }
};

/// An owner that speaks the protocol by hand, for one importer: it welcomes it, and then answers a
/// request as it is told to.
class raw_owner {
 public:
  using answer = std::function<void(int socket, std::uint64_t ticket)>;

  explicit raw_owner(const std::string& path) {
    detail::bind_to(listener_.get(), path, detail::who_connects::same_user);
    REQUIRE(::listen(listener_.get(), 4) == 0);
    page_.set_epoch(1);
  }
  [[nodiscard]] detail::publication_page& page() noexcept { return page_; }
  /// Serves one importer until it closes, beside this thread.
  std::future<void> serve(answer how) {
    return std::async(std::launch::async, [this, how = std::move(how)] {
      static_cast<void>(
          detail::wait_readable(listener_.get(), detail::deadline_in(std::chrono::seconds{5})));
      const detail::owned_descriptor socket{
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      detail::received_packet next;
      while (detail::wait_readable(socket.get(), detail::deadline_in(std::chrono::seconds{5}))) {
        if (detail::receive_packet(socket.get(), next) == detail::transfer_result::closed) return;
        if (const auto* const asked = std::get_if<detail::request_packet>(&next.content)) {
          how(socket.get(), asked->ticket);
          continue;
        }
        detail::welcome_packet welcome{detail::own_identity(), {}, 1};
        welcome.shape.granularity = granule();
        welcome.shape.max_bytes = 4 * granule();
        static_cast<void>(detail::send_packet(socket.get(), welcome, {page_.descriptor()}));
      }
    });
  }

 private:
  detail::owned_descriptor listener_ = detail::make_socket();
  detail::publication_page page_;
};

}  // namespace hipvmm::test
