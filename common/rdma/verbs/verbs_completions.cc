#include "common/rdma/verbs/verbs_completions.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/rdma/verbs/verbs_device.h"

namespace nova {
namespace {
constexpr size_t kFetch = 64;
constexpr size_t kMaxFetched = 256;  // by one Fetch
constexpr uint32_t kMaxUnacknowledged = 128;
}  // namespace

VerbsCompletions::~VerbsCompletions() {
  if (cq_ != nullptr) {
    ibv_ack_cq_events(cq_, unacknowledged_);
    ibv_destroy_cq(cq_);
  }
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

Status VerbsCompletions::Open(ibv_context* context, const std::string& name, uint32_t entries, int index) {
  name_ = name;
  channel_ = ibv_create_comp_channel(context);
  if (channel_ == nullptr) return NoResources("ibv_create_comp_channel");
  cq_ = ibv_create_cq(context, static_cast<int>(entries), nullptr, channel_,
                      index % std::max(context->num_comp_vectors, 1));
  return cq_ == nullptr ? NoResources("ibv_create_cq") : OkStatus();
}

bool VerbsCompletions::Fetch() {
  size_t total = 0;
  while (total < kMaxFetched) {
    if (tail_ + kFetch > fetched_.size()) fetched_.resize(fetched_.size() + kMaxFetched);
    const int n = ibv_poll_cq(cq_, kFetch, &fetched_[tail_]);
    if (n < 0) NOVA_LOG(ERROR) << name_ << ": ibv_poll_cq failed";
    if (n <= 0) break;
    tail_ += static_cast<size_t>(n);
    total += static_cast<size_t>(n);
    if (n < static_cast<int>(kFetch)) break;
  }
  return total > 0;
}

void VerbsCompletions::TakeRings() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_, &cq, &context) == 0) ++unacknowledged_;
  armed_ = false;
  if (unacknowledged_ >= kMaxUnacknowledged) ibv_ack_cq_events(cq_, std::exchange(unacknowledged_, 0));
}

}  // namespace nova
