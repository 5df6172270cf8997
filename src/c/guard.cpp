// SPDX-License-Identifier: MIT
#include "c/guard.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include "c/handle_table.hpp"

namespace hipvmm::c {
namespace {

// Has no destructor, because exit handlers, which run after a thread's objects, may fail too.
struct kept_failure {
  hipvmm_failure details{sizeof(hipvmm_failure), HIPVMM_OK, HIPVMM_EXHAUSTED_NOTHING, 0, -1, 0, 0};
  std::uint64_t count = 0;
  std::string* storage = nullptr;  // until the thread's objects end
  std::array<char, 256> rest{};    // the start of later messages
  bool has_ended = false;
  const char* text = "";  // points into one of these, or at a literal if there is no memory

  void keep(hipvmm_status status, const char* what, const char* function = nullptr) noexcept;
};
static_assert(std::is_trivially_destructible_v<kept_failure>);

thread_local constinit kept_failure failure_of_thread;

struct text_owner {
  text_owner& operator=(text_owner&&) = delete;
  ~text_owner() {
    failure_of_thread.has_ended = true;
    failure_of_thread.text = "";
    delete std::exchange(failure_of_thread.storage, nullptr);
  }
};

void kept_failure::keep(hipvmm_status status, const char* what, const char* function) noexcept {
  details = {sizeof(hipvmm_failure), status, HIPVMM_EXHAUSTED_NOTHING, 0, -1, 0, 0};
  ++count;
  if (has_ended) {
    const char* const begin = function == nullptr ? "" : function;
    static_cast<void>(std::snprintf(rest.data(), rest.size(), "%s%s%s", begin,
                                    function == nullptr ? "" : ": ", what));
    text = rest.data();
    return;
  }
  try {
    static thread_local const text_owner ends_with_thread;
    if (storage == nullptr) storage = new std::string;
    // Messages of this layer name options as C callers do.
    std::string made =
        function == nullptr ? with_option_names(what) : std::string{function} + ": " + what;
    *storage = std::move(made);
    text = storage->c_str();
  } catch (const std::exception&) {
    text = "out of host memory, also for the message";
  }
}

struct renamed {
  std::string_view member;
  std::string_view option;
};

// Members of C++ whose option has another name; first those that messages name without their class.
constexpr std::array unique_members{
    renamed{"initial_bytes", "initial"},        renamed{"maximum_bytes", "maximum"},
    renamed{"granule_bytes", "granule"},        renamed{"max_bytes", "max"},
    renamed{"blocks_to_preallocate", "blocks"}, renamed{"arena_size", "maximum"}};
constexpr std::array members{renamed{"fallback", "without_vmm"},
                             renamed{"placement", "stripes or spill"}, renamed{"tag", "sleep_tag"}};
constexpr std::array<std::string_view, 9> enumerations{
    "without_vmm",    "chunk_memory", "handle_type",  "past_max_size", "empty_policy",
    "prefetch_level", "slot_layout",  "access_right", "sleep_storage"};

template <typename Renamed>
std::string_view option_of(std::string_view word, const Renamed& known) {
  const auto found = std::ranges::find(known, word, &renamed::member);
  return found == known.end() ? word : found->option;
}

bool is_of_word(char each) noexcept {
  return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '_';
}

static_assert(static_cast<int>(exhausted::alignment) + 1 == HIPVMM_EXHAUSTED_ALIGNMENT);

}  // namespace

hipvmm_status keep_failure(const char* function) noexcept {
  kept_failure& last = failure_of_thread;
  try {
    throw;
  } catch (const callback_failed& failure) {
    if (last.count == failure.failures_before || last.details.status != failure.status) {
      std::array<char, 128> text{};
      static_cast<void>(std::snprintf(text.data(), text.size(), "%s returned %s (%d)",
                                      failure.callback, hipvmm_status_name(failure.status),
                                      static_cast<int>(failure.status)));
      last.keep(failure.status, text.data(), function);
    }
  } catch (const invalid_handle& failure) {
    last.keep(HIPVMM_ERROR_INVALID_HANDLE, failure.what(), function);
  } catch (const too_small& failure) {
    last.keep(HIPVMM_ERROR_TOO_SMALL, failure.what(), function);
  } catch (const bad_argument& failure) {
    last.keep(HIPVMM_ERROR_INVALID_ARGUMENT, failure.what(), function);
  } catch (const out_of_memory& failure) {
    last.keep(HIPVMM_ERROR_OUT_OF_MEMORY, failure.what());
    last.details.exhausted =
        static_cast<hipvmm_exhausted>(static_cast<int>(failure.resource()) + 1);
    last.details.device = failure.device();
    last.details.bytes_requested = failure.bytes_requested();
    last.details.bytes_free = failure.bytes_free();
  } catch (const std::bad_alloc&) {
    last.keep(HIPVMM_ERROR_OUT_OF_MEMORY, "out of host memory", function);
    last.details.exhausted = HIPVMM_EXHAUSTED_HOST_MEMORY;
  } catch (const hip_error& failure) {
    last.keep(HIPVMM_ERROR_HIP, failure.what());
    last.details.hip_code = failure.code();
  } catch (const unsupported& failure) {
    last.keep(HIPVMM_ERROR_UNSUPPORTED, failure.what());
  } catch (const ipc_error& failure) {
    last.keep(HIPVMM_ERROR_IPC, failure.what());
  } catch (const std::system_error& failure) {
    last.keep(HIPVMM_ERROR_SYSTEM, failure.what());
  } catch (const std::invalid_argument& failure) {
    last.keep(HIPVMM_ERROR_INVALID_ARGUMENT, failure.what());
  } catch (const std::length_error& failure) {
    last.keep(HIPVMM_ERROR_OUT_OF_RANGE, failure.what());
  } catch (const std::out_of_range& failure) {
    last.keep(HIPVMM_ERROR_OUT_OF_RANGE, failure.what());
  } catch (const std::logic_error& failure) {
    last.keep(HIPVMM_ERROR_INVALID_STATE, failure.what());
  } catch (const std::exception& failure) {
    last.keep(HIPVMM_ERROR_INTERNAL, failure.what(), function);
  } catch (...) {
    last.keep(HIPVMM_ERROR_INTERNAL, "an exception that is no std::exception", function);
  }
  return last.details.status;
}

std::string with_option_names(std::string_view sentence, std::string_view section) {
  constexpr std::string_view of_class = "_options";
  std::string made;
  for (std::size_t at = 0; at < sentence.size();) {
    if (!is_of_word(sentence[at])) {
      made += sentence[at++];
      continue;
    }
    const auto word_from = [&](std::size_t first) {
      std::size_t end = first;
      while (end < sentence.size() && is_of_word(sentence[end])) ++end;
      return sentence.substr(first, end - first);
    };
    std::string_view word = word_from(at);
    const bool is_of_path = at != 0 && sentence[at - 1] == '/';
    at += word.size();
    std::string_view option = is_of_path ? word : option_of(word, unique_members);
    bool is_option = option != word;
    const bool is_class =
        word.size() > of_class.size() && word.substr(word.size() - of_class.size()) == of_class;
    if (sentence.substr(at, 2) == "::" &&
        (is_class || std::count(enumerations.begin(), enumerations.end(), word) != 0)) {
      word = word_from(at + 2);
      at += 2 + word.size();
      if (is_class && word == "chunks" && sentence.substr(at, 1) == ".") {
        word = word_from(at + 1);
        at += 1 + word.size();
      }
      option = option_of(word, unique_members);
      if (is_class) option = option_of(option, members);
      is_option = is_class;
    }
    if (is_option) made += section;
    made += option;
  }
  return made;
}

std::uint64_t count_of_failures() noexcept { return failure_of_thread.count; }

void require_memory(const void* memory, std::size_t bytes, const char* name) {
  if (memory == nullptr && bytes != 0)
    throw bad_argument{std::string{name} + " is null, and is to have " + std::to_string(bytes) +
                       " bytes"};
}

void copy_text(const std::string& from, char* text, std::size_t capacity, std::size_t* length) {
  if (text == nullptr && (capacity != 0 || length == nullptr))
    throw bad_argument{"text is null, which only asks for the length, with a capacity of 0"};
  if (length != nullptr) *length = from.size();
  if (text == nullptr) return;
  if (from.size() >= capacity)
    throw too_small{"the text has " + std::to_string(from.size()) +
                    " bytes and a zero, the capacity is " + std::to_string(capacity)};
  std::memcpy(text, from.c_str(), from.size() + 1);
}

void copy_struct(void* to, const void* from, std::size_t bytes, const char* name) {
  out(static_cast<char*>(to), name);
  std::size_t known;
  std::memcpy(&known, to, sizeof known);
  if (known <= sizeof known)
    throw bad_argument{std::string{name} + "->struct_size is " + std::to_string(known) +
                       "; set it to sizeof *" + name + " before the call"};
  std::memcpy(static_cast<char*>(to) + sizeof known, static_cast<const char*>(from) + sizeof known,
              std::min(bytes, known) - sizeof known);
}

const char* last_text() noexcept { return failure_of_thread.text; }
const hipvmm_failure& last_failure() noexcept { return failure_of_thread.details; }

}  // namespace hipvmm::c
