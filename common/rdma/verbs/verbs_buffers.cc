#include "common/rdma/verbs/verbs_buffers.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/handshake.h"
#include "common/rdma/verbs/verbs_device.h"

namespace nova {
namespace {
constexpr size_t kCellBytes = 64;
}  // namespace

VerbsBuffers::~VerbsBuffers() {
  if (srq_ != nullptr) ibv_destroy_srq(srq_);
  if (region_ != nullptr) ibv_dereg_mr(region_);
  if (cell_region_ != nullptr) ibv_dereg_mr(cell_region_);
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

Status VerbsBuffers::Open(ibv_pd* pd, const std::string& name, uint32_t count, uint32_t bytes) {
  name_ = name;
  count_ = count;
  bytes_ = bytes;
  NOVA_RETURN_IF_ERROR(Register(pd));
  ibv_srq_init_attr srq{};
  srq.attr.max_wr = count;
  srq.attr.max_sge = 1;
  srq_ = ibv_create_srq(pd, &srq);
  if (srq_ == nullptr) return NoResources("ibv_create_srq");
  chain_.resize(count);
  pieces_.resize(count);
  for (uint32_t i = kHandshakeBlocks; i > 0; --i) free_blocks_.push_back(i - 1);
  for (uint32_t i = 0; i < count; ++i) Return(i);
  PostReturned();
  return OkStatus();
}

Status VerbsBuffers::Register(ibv_pd* pd) {
  memory_bytes_ = size_t{count_} * bytes_ + kHandshakeBlocks * kMaxHandshakeBytes + kCellBytes;
  memory_bytes_ = (memory_bytes_ + 4095) & ~size_t{4095};
  void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NoResources("receive buffers");
  memory_ = static_cast<std::byte*>(memory);
  cell_ = memory_ + memory_bytes_ - kCellBytes;
  const unsigned local = IBV_ACCESS_LOCAL_WRITE, readable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  region_ = ibv_reg_mr(pd, memory_, memory_bytes_ - kCellBytes, local);
  cell_region_ = ibv_reg_mr(pd, cell_, kCellBytes, readable);
  if (region_ != nullptr && cell_region_ != nullptr) return OkStatus();
  const std::string problem = MemlockProblem(memory_bytes_);
  return problem.empty() ? NoResources("registering receive buffers") : absl::ResourceExhaustedError(problem);
}

bool VerbsBuffers::TakeBlock(std::string_view handshake, uint32_t* block, ibv_sge* piece) {
  if (free_blocks_.empty()) return false;
  *block = free_blocks_.back();
  free_blocks_.pop_back();
  std::byte* const at = memory_ + size_t{count_} * bytes_ + size_t{*block} * kMaxHandshakeBytes;
  std::memcpy(at, handshake.data(), handshake.size());
  *piece = {reinterpret_cast<uint64_t>(at), static_cast<uint32_t>(handshake.size()), region_->lkey};
  return true;
}

void VerbsBuffers::Post(std::vector<uint32_t>* buffers) {
  if (buffers->empty()) return;
  const size_t n = buffers->size();
  for (size_t i = 0; i < n; ++i) {
    const uint32_t buffer = (*buffers)[i];
    pieces_[i] = {reinterpret_cast<uint64_t>(At(buffer)), bytes_, region_->lkey};
    chain_[i] = {};
    chain_[i].wr_id = kReceiveTag | buffer;
    chain_[i].sg_list = &pieces_[i];
    chain_[i].num_sge = 1;
    chain_[i].next = i + 1 < n ? &chain_[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_srq_recv(srq_, &chain_[0], &bad); error != 0) {
    NOVA_LOG(ERROR) << name_ << ": ibv_post_srq_recv: " << strerror(error);
  }
  buffers->clear();
}

}  // namespace nova
