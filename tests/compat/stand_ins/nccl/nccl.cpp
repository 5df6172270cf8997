// SPDX-License-Identifier: MIT
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// A send that waits for its receive, or was taken by it.
struct message {
  const void* data = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  bool is_collective = false;
  hipEvent_t ready = nullptr;
  hipEvent_t copied = nullptr;
  bool is_taken = false;

  message& operator=(message&&) = delete;
  ~message() {
    if (ready != nullptr) static_cast<void>(hipEventDestroy(ready));
    if (copied != nullptr) static_cast<void>(hipEventDestroy(copied));
  }
};

/// The ranks that were made with one id.
struct ranks_of_id {
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<message>>> sent;  // by source and target
};

struct operation {
  bool is_send = false;
  bool is_collective = false;
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  hipStream_t stream = nullptr;
  std::shared_ptr<message> posted = nullptr;  // of a send
};

/// A registration of a nonblocking communicator.
struct registration_under_way {
  void** made = nullptr;  // nullptr: nothing is
  char* begin = nullptr;
  std::size_t bytes = 0;
  int looks_left = 0;
  bool is_window = false;
};

}  // namespace

struct ncclComm {
  std::shared_ptr<ranks_of_id> all;
  int size = 0;
  int rank = 0;
  int device = 0;
  bool is_blocking = true;
  std::atomic<bool> is_aborted{false};
  std::atomic<bool> stalls{false};
  std::atomic<ncclResult_t> error{ncclSuccess};
  std::vector<operation> pending = {};  // of its thread
  std::shared_ptr<std::atomic<bool>> released = std::make_shared<std::atomic<bool>>(false);
  nccl_stand_in_memory memory = {};  // under the lock of the registering call
  std::uintptr_t last_handle = 0;
  registration_under_way registration = {};
  std::atomic<bool> holds_registration{false};
};

namespace {

std::mutex registry_mutex;
std::map<unsigned, std::weak_ptr<ranks_of_id>> registry;
unsigned last_id = 0;
std::atomic<int> reported_version{0};
std::atomic<int> registration_fails_at{0};
std::atomic<bool> offers_windows{true};

thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm_t, operation>> group;
// As of the first call in the group that failed: nothing of the group is done then.
thread_local ncclResult_t group_error = ncclSuccess;
thread_local int fails_at = 0;
thread_local ncclResult_t fails_with = ncclSuccess;
thread_local bool has_struck = false;
thread_local void (*gather_hook)(void*) = nullptr;
thread_local void* gather_context = nullptr;

bool strikes() {
  if (fails_at == 0 || --fails_at != 0) return false;
  has_struck = true;
  if (group_depth > 0) group_error = fails_with;
  return true;
}

#if NCCL_MINOR >= 19
bool registration_strikes() { return registration_fails_at != 0 && --registration_fails_at == 0; }

void* next_handle(ncclComm& comm) { return reinterpret_cast<void*>(++comm.last_handle); }
#endif

ncclResult_t of_hip(hipError_t code) {
  return code == hipSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

class on_device {
 public:
  explicit on_device(int device) {
    static_cast<void>(hipGetDevice(&before_));
    static_cast<void>(hipSetDevice(device));
  }
  ~on_device() { static_cast<void>(hipSetDevice(before_)); }
  on_device& operator=(on_device&&) = delete;

 private:
  int before_ = 0;
};

ncclResult_t post(ncclComm& comm, operation& send) {
  auto posted = std::make_shared<message>();
  posted->data = send.source;
  posted->bytes = send.bytes;
  posted->device = comm.device;
  posted->is_collective = send.is_collective;
  if (hipEventCreateWithFlags(&posted->ready, hipEventDisableTiming) != hipSuccess ||
      hipEventRecord(posted->ready, send.stream) != hipSuccess)
    return ncclUnhandledCudaError;
  send.posted = posted;
  const std::lock_guard lock{comm.all->mutex};
  comm.all->sent[{comm.rank, send.peer}].push_back(std::move(posted));
  return ncclSuccess;
}

/// Copies a message that was sent; the lock is held.
ncclResult_t take(ncclComm& comm, const operation& receive, message& sent) {
  if (sent.bytes != receive.bytes) return ncclInvalidUsage;
  if (hipStreamWaitEvent(receive.stream, sent.ready, 0) != hipSuccess ||
      hipMemcpyPeerAsync(receive.target, comm.device, sent.data, sent.device, sent.bytes,
                         receive.stream) != hipSuccess ||
      hipEventCreateWithFlags(&sent.copied, hipEventDisableTiming) != hipSuccess ||
      hipEventRecord(sent.copied, receive.stream) != hipSuccess)
    return ncclUnhandledCudaError;
  sent.is_taken = true;
  return ncclSuccess;
}

/// Whether the operation is in its stream, its peer's end included.
ncclResult_t advance(ncclComm& comm, const operation& each, bool& is_done) {
  const std::lock_guard lock{comm.all->mutex};
  is_done = false;
  if (each.is_send) {
    if (!each.posted->is_taken) return ncclSuccess;
    is_done = true;
    return of_hip(hipStreamWaitEvent(each.stream, each.posted->copied, 0));
  }
  auto& queue = comm.all->sent[{each.peer, comm.rank}];
  // Another kind of call never matches, as on a device.
  if (queue.empty() || queue.front()->is_collective != each.is_collective) return ncclSuccess;
  is_done = true;
  const std::shared_ptr<message> sent = queue.front();
  queue.pop_front();
  return take(comm, each, *sent);
}

void stall(ncclComm& comm, hipStream_t stream) {
  auto* const released = new std::shared_ptr<std::atomic<bool>>(comm.released);
  const auto wait = [](void* argument) {
    const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> flag{
        static_cast<std::shared_ptr<std::atomic<bool>>*>(argument)};
    while (!(*flag)->load()) std::this_thread::sleep_for(std::chrono::microseconds{100});
  };
  if (hipLaunchHostFunc(stream, wait, released) != hipSuccess) delete released;
}

/// As far as the peers have come. InProgress: not all.
ncclResult_t progress(ncclComm& comm) {
  if (comm.error != ncclSuccess) return comm.error;
  const on_device scope{comm.device};
  std::vector<operation> left;
  for (operation& each : comm.pending) {
    bool is_done = false;
    const ncclResult_t result = advance(comm, each, is_done);
    if (result != ncclSuccess) {
      comm.error = result;
      return result;
    }
    if (!is_done) left.push_back(std::move(each));
  }
  comm.pending = std::move(left);
  return comm.pending.empty() ? ncclSuccess : ncclInProgress;
}

ncclResult_t launch(ncclComm& comm, std::vector<operation> operations) {
  const on_device scope{comm.device};
  if (comm.stalls.exchange(false) && !operations.empty()) stall(comm, operations.front().stream);
  for (operation& each : operations) {
    const ncclResult_t result = each.is_send ? post(comm, each) : ncclSuccess;
    if (result != ncclSuccess) return result;
    comm.pending.push_back(std::move(each));
  }
  for (;;) {
    const ncclResult_t result = progress(comm);
    if (result != ncclInProgress || !comm.is_blocking) return result;
    if (comm.is_aborted) return ncclInternalError;
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
}

ncclResult_t add(ncclComm_t comm, const operation& each) {
  if (each.peer < 0 || each.peer >= comm->size) return group_error = ncclInvalidArgument;
  group.emplace_back(comm, each);
  return ncclSuccess;
}

ncclResult_t make(ncclComm_t* comm, int size, std::shared_ptr<ranks_of_id> all, int rank,
                  int device, bool is_blocking) {
  if (comm == nullptr || rank < 0 || rank >= size) return ncclInvalidArgument;
  *comm = new ncclComm{std::move(all), size, rank, device, is_blocking};
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (strikes()) return fails_with;
  *version = reported_version == 0 ? NCCL_VERSION_CODE : reported_version.load();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock{registry_mutex};
  ++last_id;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &last_id, sizeof(last_id));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  unsigned number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  int device = 0;
  if (hipGetDevice(&device) != hipSuccess) return ncclUnhandledCudaError;
  std::shared_ptr<ranks_of_id> all;
  {
    const std::lock_guard lock{registry_mutex};
    all = registry[number].lock();
    if (all == nullptr) registry[number] = all = std::make_shared<ranks_of_id>();
  }
  return make(comm, ranks, std::move(all), rank, device,
              config == nullptr || config->blocking != 0);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  const auto all = std::make_shared<ranks_of_id>();
  for (int rank = 0; rank < devices; ++rank) {
    const ncclResult_t result =
        make(comms + rank, devices, all, rank, list == nullptr ? rank : list[rank], true);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->is_aborted = true;
  *comm->released = true;
  // Nobody receives its messages.
  {
    const std::lock_guard lock{comm->all->mutex};
    for (auto& [ends, queue] : comm->all->sent)
      if (ends.first == comm->rank) queue.clear();
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (strikes()) return fails_with;
  *error = progress(*comm);
#if NCCL_MINOR >= 19
  if (*error != ncclSuccess) return ncclSuccess;
  if (comm->holds_registration) {
    *error = ncclInProgress;
    return ncclSuccess;
  }
  registration_under_way& next = comm->registration;
  if (next.made == nullptr) return ncclSuccess;
  *error = ncclInProgress;
  if (--next.looks_left > 0) return ncclSuccess;
  *error = registration_strikes() ? ncclUnhandledCudaError : ncclSuccess;
  if (*error == ncclSuccess && (offers_windows || !next.is_window)) {
    *next.made = next_handle(*comm);
    (next.is_window ? comm->memory.windows : comm->memory.buffers)[*next.made] = {next.begin,
                                                                                  next.bytes};
  }
  next = {};
#endif
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  if (strikes()) return fails_with;
  *count = comm->size;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  if (strikes()) return fails_with;
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  if (strikes()) return fails_with;
  *rank = comm->rank;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "an error of the stand-in";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "of the stand-in"; }

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t, int peer,
                      ncclComm_t comm, hipStream_t stream) {
  if (strikes()) return fails_with;
  if (ncclGroupStart() != ncclSuccess) return ncclInternalError;
  const ncclResult_t result = add(comm, {true, false, data, nullptr, count, peer, stream});
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      hipStream_t stream) {
  if (strikes()) return fails_with;
  if (ncclGroupStart() != ncclSuccess) return ncclInternalError;
  const ncclResult_t result = add(comm, {false, false, nullptr, data, count, peer, stream});
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

ncclResult_t ncclAllGather(const void* sent, void* received, std::size_t count, ncclDataType_t,
                           ncclComm_t comm, hipStream_t stream) {
  if (gather_hook != nullptr) std::exchange(gather_hook, nullptr)(gather_context);
  if (strikes()) return fails_with;
  if (ncclGroupStart() != ncclSuccess) return ncclInternalError;
  for (int peer = 0; peer < comm->size; ++peer) {
    auto* const to = static_cast<char*>(received) + static_cast<std::size_t>(peer) * count;
    static_cast<void>(add(comm, {true, true, sent, nullptr, count, peer, stream}));
    static_cast<void>(add(comm, {false, true, nullptr, to, count, peer, stream}));
  }
  return ncclGroupEnd();
}

ncclResult_t ncclGroupStart() {
  if (group_depth == 0 && strikes()) return fails_with;
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  std::map<ncclComm_t, std::vector<operation>> by_comm;
  for (auto& [comm, each] : std::exchange(group, {})) by_comm[comm].push_back(each);
  if (strikes()) return fails_with;
  ncclResult_t result = std::exchange(group_error, ncclSuccess);
  if (result != ncclSuccess) return result;
  for (auto& [comm, operations] : by_comm) {
    const ncclResult_t of_comm = launch(*comm, std::move(operations));
    if (of_comm != ncclSuccess) result = of_comm;
  }
  return result;
}

#if NCCL_MINOR >= 19
ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, std::size_t bytes, void** handle) {
  if (registration_strikes()) return ncclUnhandledCudaError;
  if (comm->holds_registration) {
    comm->registration = {handle, static_cast<char*>(buffer), bytes, 1, false};
    return ncclInProgress;
  }
  *handle = next_handle(*comm);
  comm->memory.buffers[*handle] = {static_cast<char*>(buffer), bytes};
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  if (comm->memory.buffers.erase(handle) == 0) return ncclInvalidArgument;
  if (comm->holds_registration) return ncclInProgress;
  return registration_strikes() ? ncclUnhandledCudaError : ncclSuccess;
}
#endif

#if NCCL_MINOR >= 27
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, std::size_t bytes,
                                    ncclWindow_t* window, int) {
  if (registration_strikes()) return ncclUnhandledCudaError;
  if (!comm->is_blocking) {
    comm->registration = {reinterpret_cast<void**>(window), static_cast<char*>(buffer), bytes, 3,
                          true};
    return ncclInProgress;
  }
  if (!offers_windows) return ncclSuccess;
  void* const handle = next_handle(*comm);
  comm->memory.windows[handle] = {static_cast<char*>(buffer), bytes};
  *window = static_cast<ncclWindow_t>(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (comm->memory.windows.erase(window) == 0) return ncclInvalidArgument;
  return registration_strikes() ? ncclUnhandledCudaError : ncclSuccess;
}
#endif

void nccl_stand_in_fail(int nth, ncclResult_t result) {
  fails_at = nth;
  fails_with = result;
  if (nth != 0) has_struck = false;
}

void nccl_stand_in_before_gather(void (*hook)(void*), void* context) {
  gather_hook = hook;
  gather_context = context;
}

int nccl_stand_in_struck() { return has_struck ? 1 : 0; }

void nccl_stand_in_set_error(ncclComm_t comm, ncclResult_t result) { comm->error = result; }

void nccl_stand_in_stall(ncclComm_t comm) { comm->stalls = true; }

void nccl_stand_in_set_version(int version) { reported_version = version; }

void nccl_stand_in_fail_registration(int nth) { registration_fails_at = nth; }

void nccl_stand_in_set_windows(bool are_offered) { offers_windows = are_offered; }

void nccl_stand_in_hold_registration(ncclComm_t comm, bool is_held) {
  comm->holds_registration = is_held;
}

const nccl_stand_in_memory& nccl_stand_in_memory_of(ncclComm_t comm) { return comm->memory; }
