// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <tuple>
#include <utility>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::detail {

/// The objects that an owning_wrapper owns: a base class of it, so that they are constructed before
/// the other base uses them.
template <typename Resource, typename... Upstreams>
struct owned_resources {
  template <typename... Args>
  explicit owned_resources(std::tuple<std::shared_ptr<Upstreams>...> upstreams, Args&&... args)
      : upstreams_{std::move(upstreams)},
        wrapped_{std::apply(
            [&](const auto&... each) {
              return std::make_unique<Resource>(each.get()..., std::forward<Args>(args)...);
            },
            upstreams_)} {}

  // In this order, because the upstreams must outlive the resource that uses them.
  std::tuple<std::shared_ptr<Upstreams>...> upstreams_;
  std::unique_ptr<Resource> wrapped_;
};

}  // namespace hipvmm::detail

namespace hipvmm::mr {

/// Owns a resource together with its upstreams, and forwards all calls to the resource. It shares
/// the upstreams with their other owners, and releases its share at its end.
template <typename Resource, typename... Upstreams>
class owning_wrapper final : private detail::owned_resources<Resource, Upstreams...>,
                             public resource_adaptor {
  using owned = detail::owned_resources<Resource, Upstreams...>;

 public:
  using upstream_tuple = std::tuple<std::shared_ptr<Upstreams>...>;

  /// Constructs a Resource from pointers to `upstreams`, in their order, followed by `args`.
  /// Throws: the exceptions of the constructor of Resource, such as for an upstream that is empty.
  template <typename... Args>
  explicit owning_wrapper(upstream_tuple upstreams, Args&&... args)
      : owned{std::move(upstreams), std::forward<Args>(args)...},
        resource_adaptor{"owning_wrapper", owned::wrapped_.get()} {}

  [[nodiscard]] Resource& wrapped() noexcept { return *owned::wrapped_; }
  [[nodiscard]] const Resource& wrapped() const noexcept { return *owned::wrapped_; }
};

/// Makes an owning_wrapper of a new Resource over zero or more `upstreams`.
template <typename Resource, typename... Upstreams, typename... Args>
[[nodiscard]] auto make_owning_wrapper(std::tuple<std::shared_ptr<Upstreams>...> upstreams,
                                       Args&&... args) {
  return std::make_shared<owning_wrapper<Resource, Upstreams...>>(std::move(upstreams),
                                                                  std::forward<Args>(args)...);
}
/// Makes an owning_wrapper of a new Resource over one upstream.
template <typename Resource, typename Upstream, typename... Args>
[[nodiscard]] auto make_owning_wrapper(std::shared_ptr<Upstream> upstream, Args&&... args) {
  return make_owning_wrapper<Resource>(std::make_tuple(std::move(upstream)),
                                       std::forward<Args>(args)...);
}

}  // namespace hipvmm::mr
