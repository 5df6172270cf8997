// SPDX-License-Identifier: MIT
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>

namespace hipvmm {
namespace detail {

inline bool mpi_takes_device_memory() {
  const std::string provider = provider_name();
#if defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA
  if (provider == "cuda") return MPIX_Query_cuda_support() == 1;
#endif
#if defined(OMPI_HAVE_MPI_EXT_ROCM) && OMPI_HAVE_MPI_EXT_ROCM
  if (provider == "amd") return MPIX_Query_rocm_support() == 1;
#endif
#if defined(MPIX_GPU_SUPPORT_CUDA) && defined(MPIX_GPU_SUPPORT_HIP)  // MPICH 4.0
  int supported = 0;
  if (provider == "host" ||
      MPIX_GPU_query_support(provider == "cuda" ? MPIX_GPU_SUPPORT_CUDA : MPIX_GPU_SUPPORT_HIP,
                             &supported) != MPI_SUCCESS)
    return false;
  return supported == 1;
#else
  return false;
#endif
}

/// Throws std::invalid_argument, in the words of `who`, unless MPI is in use and `ranks` is one
/// group of ranks. MPI itself ends a process that passes anything else.
inline void require_ranks(const char* who, MPI_Comm ranks) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0)
    throw std::invalid_argument{std::string{who} + ": MPI is " +
                                (finalized != 0 ? "finalized" : "not initialized") +
                                "; make it between MPI_Init_thread and MPI_Finalize"};
  if (ranks == MPI_COMM_NULL)
    throw std::invalid_argument{std::string{who} +
                                ": MPI_COMM_NULL has no ranks, as MPI_Comm_split returns it for "
                                "MPI_UNDEFINED; make it on the ranks of a communicator"};
  int has_two_groups = 0;
  MPI_Comm_test_inter(ranks, &has_two_groups);
  if (has_two_groups != 0)
    throw std::invalid_argument{std::string{who} +
                                ": the communicator is between two groups; pass one of one group, "
                                "as MPI_Intercomm_merge makes"};
}

class mpi_lifetime {
 public:
  /// The reason against a call of MPI, or nullptr. MPI ends a process that calls it after
  /// MPI_Finalize, and a child of fork() shares the memory by which its parent communicates.
  [[nodiscard]] const char* end() const noexcept {
    if (::getpid() != made_in_)
      return "this is a child of fork(), and must not call MPI; use it in the parent";
    int finalized = 0;
    MPI_Finalized(&finalized);
    return finalized != 0 ? "MPI is finalized; make the call before MPI_Finalize" : nullptr;
  }

 private:
  ::pid_t made_in_ = ::getpid();
};

struct mpi_message {
  MPI_Request request = MPI_REQUEST_NULL;
  int rank = 0;
  std::size_t bytes = 0;
  bool is_received = false;
};

enum class mpi_function { all_gather, all_to_all, transfer };

/// The messages of one call at a time, nonblocking and polled, on a duplicate of the communicator.
/// - A message's tag has the call's number and function, which finds a rank that calls another one.
/// - A rank that fails sends a note to all others, which then fail too.
/// - In rounds a rank may wait for one that waits for another. After half of the limit it asks
///   along this chain; the first rank that does not answer is late. The chain ends, because a rank
///   waits only for ranks in earlier rounds.
class mpi_link {
 public:
  /// Collective. Throws: rank_error.
  mpi_link(MPI_Comm ranks, std::chrono::milliseconds limit) : limit_{limit} { duplicate(ranks); }
  mpi_link& operator=(mpi_link&&) = delete;
  ~mpi_link() {
    // A communicator with messages under way stays until MPI ends.
    if (!told_.empty()) keep_until_exit(std::move(told_));
    if (lifetime_.end() == nullptr && !failure_.happened() && ranks_ != MPI_COMM_NULL)
      MPI_Comm_free(&ranks_);
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::chrono::milliseconds limit() const noexcept { return limit_; }
  /// The most bytes of one message, which MPI counts by an int.
  std::size_t piece_bytes = GiB;

  /// Throws: the rank_error of an earlier one; rank_error of lost if MPI has ended.
  void begin(mpi_function which) {
    if (const char* const end = lifetime_.end(); end != nullptr)
      failure_.remember({rank_failure::lost, rank_, std::string{name_of(which)} + ": " + end});
    failure_.require_none();
    function_ = which;
    sequence_ = (sequence_ + 1) % sequences;
    tag_ = sequence_ * functions + static_cast<int>(which);
  }

  void give_up(const std::string& reason) {
    note_failure({rank_failure::lost, rank_,
                  std::string{name_of(function_)} + ": " + name_ranks({rank_}) +
                      " could not do its part: " + reason});
  }

  void leave() noexcept {
    if (lifetime_.end() != nullptr) return;
    try {
      note_failure({rank_failure::lost, rank_,
                    name_ranks({rank_}) + " has ended its communicator, by an exception; the ranks "
                                          "that are left need one of their own"});
    } catch (const std::bad_alloc&) {
      return;  // the other ranks then wait up to the limit
    }
  }

  [[nodiscard]] mpi_message receive(int rank, void* data, std::size_t bytes) {
    mpi_message result{MPI_REQUEST_NULL, rank, bytes, true};
    require(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, rank, tag_, ranks_, &result.request),
            "MPI_Irecv");
    return result;
  }
  [[nodiscard]] mpi_message send(int rank, const void* data, std::size_t bytes) {
    mpi_message result{MPI_REQUEST_NULL, rank, bytes, false};
    require(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, rank, tag_, ranks_, &result.request),
            "MPI_Isend");
    return result;
  }
  void post(std::vector<mpi_message>& messages, int rank, std::byte* data, std::size_t bytes,
            bool is_received) {
    std::size_t begin = 0;
    do {
      const std::size_t piece = std::min(piece_bytes, bytes - begin);
      // `messages` always contains the ones under way; otherwise they could not be cancelled.
      mpi_message& next = messages.emplace_back();
      next = is_received ? receive(rank, data + begin, piece) : send(rank, data + begin, piece);
      begin += piece;
    } while (begin < bytes);
  }

  /// Returns whether the message is done. Pre: no earlier call returned true.
  bool is_done(mpi_message& message) {
    int done = 0;
    MPI_Status status;
    const int code = MPI_Test(&message.request, &done, &status);
    if (code != MPI_SUCCESS) {
      int kind = code;
      MPI_Error_class(code, &kind);
      if (kind == MPI_ERR_TRUNCATE)
        refuse(message.rank, "sent more than the " + std::to_string(message.bytes) +
                                 " bytes that rank " + std::to_string(rank_) +
                                 " expects; all ranks give the same sizes");
      fail(rank_failure::lost, message.rank,
           std::string{name_of(function_)} + ": " + name_ranks({message.rank}) + ": " +
               text_of(code, "MPI_Test"));
    }
    if (done == 0 || !message.is_received) return done != 0;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count < 0 || static_cast<std::size_t>(count) != message.bytes)
      refuse(message.rank, "sent " + std::to_string(count) + " bytes, but rank " +
                               std::to_string(rank_) + " expects " + std::to_string(message.bytes) +
                               "; all ranks give the same sizes");
    return true;
  }

  void wait_for(std::vector<mpi_message>& messages) { wait_for(messages, false); }
  void wait_in_round(std::vector<mpi_message>& messages) { wait_for(messages, true); }

  /// Throws if a rank has failed or called another function, or the limit is over.
  void check_late(const std::vector<const mpi_message*>& pending, const rank_wait& wait,
                  bool is_in_round = false) {
    check_notes();
    look_for_late(is_in_round ? pending.front()->rank : -1, is_in_round && wait.is_half_over());
    std::vector<int> absent;
    for (const mpi_message* each : pending) {
      if (std::find(absent.begin(), absent.end(), each->rank) != absent.end()) continue;
      absent.push_back(each->rank);
      int found = 0;
      MPI_Status status;
      require(MPI_Iprobe(each->rank, MPI_ANY_TAG, ranks_, &found, &status), "MPI_Iprobe");
      if (found != 0) require_same_function(each->rank, status.MPI_TAG);
    }
    if (!wait.is_over() || absent.empty()) return;
    if (suspect_ >= 0) absent = {suspect_};
    std::sort(absent.begin(), absent.end());
    fail(rank_failure::timeout, absent.front(),
         std::string{name_of(function_)} + ": " + name_ranks(absent) +
             " did not take part within " + std::to_string(limit_.count()) +
             " ms; see whether they failed or wait elsewhere, and end the program");
  }
  /// Cancels receives that have no message yet, so that their memory is not written later.
  static void cancel(std::vector<mpi_message>& messages) noexcept {
    for (mpi_message& each : messages) {
      if (each.request == MPI_REQUEST_NULL || !each.is_received) continue;
      int done = 0;
      MPI_Cancel(&each.request);
      MPI_Test(&each.request, &done, MPI_STATUS_IGNORE);
    }
  }

 private:
  // Tags stay below the 32767 that MPI promises.
  static constexpr int functions = 3;
  static constexpr int sequences = 8192;
  static constexpr int note_tag = sequences * functions;
  static constexpr int question_tag = note_tag + 1;
  static constexpr int answer_tag = note_tag + 2;

  struct failure_note {
    int reason = 0;
    int rank = 0;
    std::array<char, 500> text{};  // short: MPI sends it without waiting for the receiver
  };

  void wait_for(std::vector<mpi_message>& messages, bool is_in_round) {
    rank_wait wait{limit_};
    suspect_ = -1;
    for (int idle = 0; !messages.empty();) {
      // Erased only after all were asked, because is_done() may throw.
      bool any = false;
      for (mpi_message& each : messages) any = is_done(each) || any;
      if (any) {
        messages.erase(std::remove_if(messages.begin(), messages.end(),
                                      [](const mpi_message& each) {
                                        return each.request == MPI_REQUEST_NULL;
                                      }),
                       messages.end());
        wait.restart();
        suspect_ = -1;
        idle = 0;
        continue;
      }
      if (++idle % 64 == 0) {
        std::vector<const mpi_message*> pending;
        for (const mpi_message& each : messages) pending.push_back(&each);
        check_late(pending, wait, is_in_round);
      }
      wait.pause();
    }
  }
  /// A question has the asker's tag; an answer the responder's, and the rank it waits for, or -1.
  struct whereabouts {
    int tag = 0;
    int awaited = -1;
  };
  void tell(int rank, int tag, whereabouts what) {
    while (!told_.empty()) {
      int done = 0;
      require(MPI_Test(&told_.front().second, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) break;
      told_.pop_front();
    }
    auto& [sent, request] = told_.emplace_back(what, MPI_REQUEST_NULL);
    require(MPI_Isend(&sent, sizeof(sent), MPI_BYTE, rank, tag, ranks_, &request), "MPI_Isend");
  }
  bool hear(int tag, int& from, whereabouts& what) {
    int found = 0;
    MPI_Status status;
    require(MPI_Iprobe(MPI_ANY_SOURCE, tag, ranks_, &found, &status), "MPI_Iprobe");
    if (found == 0) return false;
    from = status.MPI_SOURCE;
    require(MPI_Recv(&what, sizeof(what), MPI_BYTE, from, tag, ranks_, &status), "MPI_Recv");
    return true;
  }
  /// Answers questions, and follows answers along the chain to the rank that is late.
  void look_for_late(int awaited, bool asks) {
    int from = 0;
    whereabouts what;
    while (hear(question_tag, from, what)) tell(from, answer_tag, {tag_, awaited});
    while (hear(answer_tag, from, what)) {
      if (from != suspect_) continue;
      require_same_function(from, what.tag);
      // Otherwise that rank is in an earlier call, and is late itself.
      if (what.tag == tag_) suspect_ = what.awaited < 0 || !asks ? -1 : ask(what.awaited);
    }
    if (asks && suspect_ < 0) suspect_ = ask(awaited);
  }
  int ask(int rank) {
    tell(rank, question_tag, {tag_, -1});
    return rank;
  }
  void require_same_function(int rank, int tag) {
    if (tag != tag_ && tag / functions == sequence_)
      refuse(rank, std::string{"called "} + name_of(static_cast<mpi_function>(tag % functions)) +
                       " instead; all ranks call the same functions in the same order");
  }

  static constexpr const char* name_of(mpi_function which) {
    return which == mpi_function::all_gather   ? "all_gather()"
           : which == mpi_function::all_to_all ? "all_to_all()"
                                               : "transfer()";
  }
  static std::string text_of(int code, const char* call) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    return std::string{call} + " failed: " + std::string{text.data(), text.data() + length};
  }
  [[noreturn]] void refuse(int rank, const std::string& what) {
    fail(rank_failure::refused, rank,
         std::string{name_of(function_)} + ": " + name_ranks({rank}) + " " + what);
  }
  void note_failure(const rank_error& error) {
    if (failure_.happened()) return;
    failure_.remember(error);
    const auto note = std::make_shared<failure_note>();
    note->reason = static_cast<int>(error.reason());
    note->rank = error.rank();
    const std::string text = error.what();
    std::copy_n(text.begin(), std::min(text.size(), note->text.size() - 1), note->text.begin());
    keep_until_exit(std::shared_ptr<failure_note>{note});
    for (int rank = 0; rank < size_; ++rank) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (rank != rank_ && MPI_Isend(note.get(), sizeof(*note), MPI_BYTE, rank, note_tag, ranks_,
                                     &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
    }
  }
  [[noreturn]] void fail(rank_failure reason, int rank, const std::string& message) {
    const rank_error error{reason, rank, message};
    note_failure(error);
    throw rank_error{error};
  }
  void check_notes() {
    int found = 0;
    MPI_Status status;
    require(MPI_Iprobe(MPI_ANY_SOURCE, note_tag, ranks_, &found, &status), "MPI_Iprobe");
    if (found == 0) return;
    failure_note note{};
    require(MPI_Recv(&note, sizeof(note), MPI_BYTE, status.MPI_SOURCE, note_tag, ranks_, &status),
            "MPI_Recv");
    note.text.back() = '\0';
    fail(static_cast<rank_failure>(note.reason), note.rank, note.text.data());
  }
  void require(int code, const char* call) {
    if (code != MPI_SUCCESS) fail(rank_failure::lost, -1, text_of(code, call));
  }
  void duplicate(MPI_Comm ranks) {
    MPI_Request request = MPI_REQUEST_NULL;
    auto made = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
    require(MPI_Comm_idup(ranks, made.get(), &request), "MPI_Comm_idup");
    rank_wait wait{limit_};
    for (int done = 0;;) {
      require(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) break;
      if (wait.is_over()) {
        keep_until_exit(std::move(made));
        fail(rank_failure::timeout, -1,
             "mpi_communicator: not all ranks made theirs within " +
                 std::to_string(limit_.count()) +
                 " ms; see whether they failed, and end the program");
      }
      wait.pause();
    }
    ranks_ = *made;
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &size_);
  }

  std::chrono::milliseconds limit_;
  mpi_lifetime lifetime_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int sequence_ = 0;
  int tag_ = 0;
  mpi_function function_ = mpi_function::all_gather;
  last_failure failure_;
  int suspect_ = -1;  // the rank whose answer is awaited
  std::list<std::pair<whereabouts, MPI_Request>> told_;
};

}  // namespace detail
}  // namespace hipvmm
