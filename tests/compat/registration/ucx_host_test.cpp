// SPDX-License-Identifier: MIT
#include <hipvmm/compat/ucx.hpp>

#include <dlfcn.h>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/region/retirement.hpp>
#include "support/blocked_stream.hpp"
#include "support/host/host_profile.hpp"
#include "support/test.hpp"

namespace {

/// Counts and planned failures of the functions of UCX below; library threads call some.
struct ucx_calls {
  std::atomic<int> mapped{0};  // now
  std::atomic<int> fails{0};   // the nth of those that map or pack, from now on; 0: none
  std::atomic<bool> unmaps{true};
} calls;

bool strikes() {
  if (calls.fails == 0) return false;
  return --calls.fails == 0;
}

template <typename Function>
Function* of_ucx(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// In UCX's place.
extern "C" {
ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t* what, ucp_mem_h* made) {
  if (strikes()) return UCS_ERR_NO_MEMORY;
  ++calls.mapped;
  return of_ucx<decltype(ucp_mem_map)>("ucp_mem_map")(context, what, made);
}
ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h mapped) {
  --calls.mapped;
  const ucs_status_t result = of_ucx<decltype(ucp_mem_unmap)>("ucp_mem_unmap")(context, mapped);
  return calls.unmaps ? result : UCS_ERR_IO_ERROR;
}
ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h mapped, void** key, size_t* bytes) {
  if (strikes()) return UCS_ERR_UNSUPPORTED;
  return of_ucx<decltype(ucp_rkey_pack)>("ucp_rkey_pack")(context, mapped, key, bytes);
}
}

namespace hipvmm::test {
namespace {

struct ucx_context {
  explicit ucx_context(bool is_shared = true) {
    ucp_params_t wanted{};
    wanted.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    wanted.features = UCP_FEATURE_RMA;
    wanted.mt_workers_shared = is_shared ? 1 : 0;
    ucp_config_t* config = nullptr;
    REQUIRE(ucp_config_read(nullptr, nullptr, &config) == UCS_OK);
    // Of this process and this machine.
    ucp_config_modify(config, "TLS", "self,sm");
    const ucs_status_t made = ucp_init(&wanted, config, &context);
    ucp_config_release(config);
    REQUIRE(made == UCS_OK);
  }
  ~ucx_context() { ucp_cleanup(context); }
  ucx_context& operator=(ucx_context&&) = delete;

  ucp_context_h context = nullptr;
};

/// A worker that is linked to itself.
struct loop {
  explicit loop(const ucx_context& of) {
    ucp_worker_params_t wanted{};
    wanted.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    wanted.thread_mode = UCS_THREAD_MODE_SINGLE;
    REQUIRE(ucp_worker_create(of.context, &wanted, &worker) == UCS_OK);
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    REQUIRE(ucp_worker_get_address(worker, &address, &bytes) == UCS_OK);
    ucp_ep_params_t target{};
    target.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    target.address = address;
    const ucs_status_t made = ucp_ep_create(worker, &target, &end);
    ucp_worker_release_address(worker, address);
    REQUIRE(made == UCS_OK);
  }
  ~loop() {
    ucp_request_param_t how{};
    finish(ucp_ep_close_nbx(end, &how));
    ucp_worker_destroy(worker);
  }
  loop& operator=(loop&&) = delete;

  void finish(ucs_status_ptr_t request) const {
    if (!UCS_PTR_IS_PTR(request)) {
      CHECK(UCS_PTR_STATUS(request) == UCS_OK);
      return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
    CHECK(ucp_request_check_status(request) == UCS_OK);
    ucp_request_free(request);
  }
  /// Writes by the key, as another process would.
  void put(const ucx_key& key, const std::vector<int>& elements) const {
    ucp_rkey_h remote = nullptr;
    REQUIRE(ucp_ep_rkey_unpack(end, key.packed.data(), &remote) == UCS_OK);
    ucp_request_param_t how{};
    finish(ucp_put_nbx(end, elements.data(), elements.size() * sizeof(int), key.memory.address,
                       remote, &how));
    finish(ucp_ep_flush_nbx(end, &how));
    ucp_rkey_destroy(remote);
  }

  ucp_worker_h worker = nullptr;
  ucp_ep_h end = nullptr;
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("ucx_registration: a chunk can be written by its key as long as it is there") {
  const ucx_context context;
  if (quirks::host_may_not_touch.holds()) {
    CHECK_THROWS_WITH_AS((ucx_registration{context.context, first_device}),
                         doctest::Contains("takes memory of the host only"), unsupported);
    return;
  }
  const auto registered = std::make_shared<ucx_registration>(context.context, first_device);
  {
    const stream own{first_device};
    growable_device_vector<int> vector{first_device,
                                       {.max_bytes = 8 * granule(),
                                        .step_limit = 0,
                                        .granule_bytes = granule(),
                                        .chunks = {.registrar = registered}}};
    const std::size_t per_chunk = granule() / sizeof(int);
    for (std::size_t chunk = 1; chunk <= 3; ++chunk) vector.resize(chunk * per_chunk, 0, own);
    own.synchronize();
    const std::vector<ucx_key> keys = registered->keys();
    REQUIRE(keys.size() == 3);
    {
      const loop to_self{context};
      int value = 0;
      for (const ucx_key& each : keys) to_self.put(each, {++value, ++value});
    }
    CHECK(vector.element(0, own) == 1);
    CHECK(vector.element(1, own) == 2);
    CHECK(vector.element(2 * per_chunk + 1, own) == 6);
    CHECK(vector.element(2 * per_chunk + 2, own) == 0);
    const auto pieces =
        cut_by_chunk(registered->chunks(), keys.front().memory.address + granule() - 8, 16);
    REQUIRE(pieces.size() == 2);
    CHECK(pieces[1].chunk == 1);
    {
      blocked_stream user{first_device};
      vector.resize(1, user);
      vector.shrink_to_fit(user);
    }
    drain_retired_memory();
    CHECK(registered->keys().size() == 1);
    CHECK(registered->handle_of(vector.data()) != nullptr);
    try {
      static_cast<void>(registered->handle_of(vector.data() + 1));
      FAIL_CHECK("no chunk begins there");
    } catch (const std::out_of_range& error) {
      CHECK(std::string{error.what()}.find("ucx_registration::handle_of: no chunk begins at ") ==
            0);
    }
  }
  drain_retired_memory();
  CHECK(registered->keys().empty());
}

TEST_CASE("ucx_registration: what UCX refuses leaves nothing mapped for it") {
  if (quirks::host_may_not_touch.holds()) return;
  const ucx_context context;
  const auto registered = std::make_shared<ucx_registration>(context.context, first_device);
  const int before = calls.mapped;
  {
    growable_device_vector<char> vector{first_device,
                                        {.max_bytes = 8 * granule(),
                                         .step_limit = 0,
                                         .granule_bytes = granule(),
                                         .chunks = {.registrar = registered}}};
    vector.resize_uninitialized(granule());
    for (const char* const text : {"ucp_mem_map: ", "ucp_rkey_pack: "}) {
      calls.fails = text == std::string{"ucp_mem_map: "} ? 1 : 2;
      CHECK_THROWS_WITH_AS(vector.resize_uninitialized(2 * granule()), doctest::Contains(text),
                           std::runtime_error);
      CHECK(calls.fails == 0);
      drain_retired_memory();
      CHECK(vector.size() == granule());
      CHECK(calls.mapped == before + 1);
      CHECK(registered->keys().size() == 1);
      CHECK(registered->memory().size() == 1);
    }
    vector.resize_uninitialized(2 * granule());
    CHECK(calls.mapped == before + 2);
    error_recorder reported;
    calls.unmaps = false;
    vector.resize_uninitialized(granule());
    vector.shrink_to_fit(stream{first_device});
    drain_retired_memory();
    calls.unmaps = true;
    REQUIRE(reported.count() == 1);
    CHECK(reported.errors().front().message.find("ucp_mem_unmap: ") != std::string::npos);
    CHECK(registered->keys().size() == 1);
  }
  drain_retired_memory();
  CHECK(registered->keys().empty());
  CHECK(calls.mapped == before);
}

TEST_CASE("ucx_registration: a context for one thread is refused") {
  const ucx_context context{false};
  CHECK_THROWS_WITH_AS((ucx_registration{context.context, first_device}),
                       doctest::Contains("mt_workers_shared"), unsupported);
  CHECK_THROWS_AS((ucx_registration{nullptr, first_device}), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
