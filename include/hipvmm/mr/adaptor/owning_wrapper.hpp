// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <tuple>
#include <utility>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::detail {

/// The first base of owning_wrapper, so that the other base can use the resource.
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

template <typename Resource, typename... Upstreams>
class owning_wrapper final : private detail::owned_resources<Resource, Upstreams...>,
                             public resource_adaptor {
  using owned = detail::owned_resources<Resource, Upstreams...>;

 public:
  using upstream_tuple = std::tuple<std::shared_ptr<Upstreams>...>;

  /// Constructs a Resource from pointers to `upstreams`, in their order, followed by `args`.
  /// Throws: as that constructor, such as for an upstream that is empty.
  template <typename... Args>
  explicit owning_wrapper(upstream_tuple upstreams, Args&&... args)
      : owned{std::move(upstreams), std::forward<Args>(args)...},
        resource_adaptor{"owning_wrapper", owned::wrapped_.get()} {}

  [[nodiscard]] Resource& wrapped() noexcept { return *owned::wrapped_; }
  [[nodiscard]] const Resource& wrapped() const noexcept { return *owned::wrapped_; }
};

template <typename Resource, typename... Upstreams, typename... Args>
[[nodiscard]] auto make_owning_wrapper(std::tuple<std::shared_ptr<Upstreams>...> upstreams,
                                       Args&&... args) {
  return std::make_shared<owning_wrapper<Resource, Upstreams...>>(std::move(upstreams),
                                                                  std::forward<Args>(args)...);
}
template <typename Resource, typename Upstream, typename... Args>
[[nodiscard]] auto make_owning_wrapper(std::shared_ptr<Upstream> upstream, Args&&... args) {
  return make_owning_wrapper<Resource>(std::make_tuple(std::move(upstream)),
                                       std::forward<Args>(args)...);
}

}  // namespace hipvmm::mr
