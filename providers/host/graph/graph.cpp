// SPDX-License-Identifier: MIT
#include "graph/graph.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/failure.hpp"
#include "stream/operations.hpp"

namespace hipvmm::host_provider {
namespace {

const graph_memory_operation* memory_step_of(const graph_form& form) noexcept {
  return dynamic_cast<const graph_memory_operation*>(form.work.get());
}

bool uses_memory(const graph_program& program) {
  return std::any_of(program.steps.begin(), program.steps.end(),
                     [](const graph_form& each) { return memory_step_of(each) != nullptr; });
}

class graph_operation final : public operation {
 public:
  explicit graph_operation(std::shared_ptr<const graph_program> program) noexcept
      : program_{std::move(program)} {}

  hipError_t execute(stream_queue& in) const override {
    hipError_t first = hipSuccess;
    for (const graph_form& step : program_->steps) {
      const hipError_t result = step.work->execute(in);
      if (first == hipSuccess) first = result;
    }
    return first;
  }

  void visit_uses(use_visitor& visitor) const override {
    for (const graph_form& step : program_->steps) step.work->visit_uses(visitor);
  }

 private:
  std::shared_ptr<const graph_program> program_;
};

// The claims of a launch; their end releases them unless the launch succeeds.
class memory_claims {
 public:
  memory_claims& operator=(memory_claims&&) = delete;
  ~memory_claims() {
    for (auto each = done_.rbegin(); each != done_.rend(); ++each) {
      if (each->step() == graph_memory_step::allocate) {
        each->memory().undo_take();
      } else {
        each->memory().undo_drop();
      }
    }
  }

  void claim(const graph_memory_operation& step) {
    done_.reserve(done_.size() + 1);
    if (step.step() == graph_memory_step::allocate) {
      step.memory().take();
    } else {
      step.memory().drop();
    }
    done_.push_back(step);
  }
  void keep() noexcept { done_.clear(); }

 private:
  std::vector<graph_memory_operation> done_;
};

// Frees the allocations of the program's earlier launch that nobody has freed.
graph_program frees_of(const graph_program& program) {
  graph_program frees;
  for (const graph_form& each : program.steps) {
    const graph_memory_operation* const memory = memory_step_of(each);
    if (memory == nullptr || memory->step() != graph_memory_step::allocate) continue;
    if (!memory->memory().is_held()) continue;
    frees.steps.push_back(graph_memory_node(memory->shared_memory(), graph_memory_step::free));
  }
  return frees;
}

template <class Work>
void submit(stream_owner& owner, stream_queue& queue, Work work) {
  const hipError_t result = owner.submit(queue, std::move(work), completion::asynchronous);
  require(result == hipSuccess, result);
}

}  // namespace

graph::~graph() {
  for (const auto& each : nodes_)
    static_cast<void>(owner_.nodes.extract(from_handle(each->handle)));
}

const graph_node& graph::add(graph_form form, std::vector<const graph_node*> after) {
  auto made = std::make_shared<graph_node>(graph_node{std::move(form), std::move(after), nullptr});
  const std::lock_guard lock{mutex_};
  nodes_.reserve(nodes_.size() + 1);
  made->handle = to_handle<hipGraphNode_t>(owner_.nodes.insert(made));
  nodes_.push_back(std::move(made));
  return *nodes_.back();
}

void graph::complete() {
  const std::lock_guard lock{mutex_};
  state_ = state::complete;
  for (const auto& each : nodes_) {
    const graph_memory_operation* const memory = memory_step_of(each->form);
    if (memory != nullptr && memory->step() == graph_memory_step::allocate) {
      memory->memory().end_recording();
    }
  }
}

bool graph::is_recording() const {
  const std::lock_guard lock{mutex_};
  return state_ == state::recording;
}

std::vector<const graph_node*> graph::nodes() const {
  const std::lock_guard lock{mutex_};
  std::vector<const graph_node*> all;
  for (const auto& each : nodes_) all.push_back(each.get());
  return all;
}

bool graph::leads_to(const std::vector<const graph_node*>& last) const {
  std::unordered_set<const graph_node*> before{last.begin(), last.end()};
  std::vector<const graph_node*> unseen{before.begin(), before.end()};
  while (!unseen.empty()) {
    const graph_node* const each = unseen.back();
    unseen.pop_back();
    for (const graph_node* earlier : each->after) {
      if (before.insert(earlier).second) unseen.push_back(earlier);
    }
  }
  const std::lock_guard lock{mutex_};
  return before.size() == nodes_.size();
}

bool graph::frees(const graph_memory& memory) const {
  const std::lock_guard lock{mutex_};
  return std::any_of(nodes_.begin(), nodes_.end(), [&memory](const auto& each) {
    const graph_memory_operation* const step = memory_step_of(each->form);
    return step != nullptr && step->step() == graph_memory_step::free && &step->memory() == &memory;
  });
}

std::shared_ptr<graph_exec> graph::instantiate(unsigned long long flags) {
  const std::lock_guard lock{mutex_};
  require(state_ == state::complete);
  graph_program program;
  for (const auto& each : nodes_) program.steps.push_back(each->form);
  const bool has_memory = uses_memory(program);
  require(!has_memory || instance_.expired(), hipErrorNotSupported);
  auto made = std::make_shared<graph_exec>(std::move(program), flags,
                                           has_memory ? order_ : std::make_shared<launch_order>());
  instance_ = made;
  return made;
}

graph_exec::graph_exec(graph_program program, unsigned long long flags,
                       std::shared_ptr<launch_order> order)
    : program_{std::make_shared<const graph_program>(std::move(program))},
      frees_on_launch_{(flags & hipGraphInstantiateFlagAutoFreeOnLaunch) != 0},
      order_{std::move(order)} {}

hipError_t graph_exec::launch(stream_owner& owner, stream_queue& queue) {
  const std::lock_guard lock{order_->mutex};
  graph_program frees;
  if (frees_on_launch_) frees = frees_of(*program_);
  memory_claims claims;
  for (const graph_form& each : frees.steps) claims.claim(*memory_step_of(each));
  for (const graph_form& each : program_->steps) {
    if (const graph_memory_operation* const memory = memory_step_of(each)) claims.claim(*memory);
  }
  std::shared_ptr<const graph_program> program = program_;
  if (!frees.steps.empty()) {
    // One operation, so that a launch that fails has freed nothing.
    frees.steps.insert(frees.steps.end(), program_->steps.begin(), program_->steps.end());
    program = std::make_shared<const graph_program>(std::move(frees));
  }
  stream_observer* const observer = owner.observer();
  if (order_->last && order_->last->queue.get() != &queue) {
    if (observer != nullptr) observer->follow(queue, *order_->finished);
    if (!order_->last->reached()) submit(owner, queue, wait_operation{*order_->last});
  }
  submit(owner, queue, graph_operation{std::move(program)});
  claims.keep();
  order_->last = queue.end();
  if (observer != nullptr) order_->finished = observer->place(queue);
  return hipSuccess;
}

}  // namespace hipvmm::host_provider
