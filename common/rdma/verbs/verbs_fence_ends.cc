#include "common/rdma/verbs/verbs_fence_ends.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/clock.h"

namespace nova {
namespace {

constexpr Nanos kPatience = 2 * kSecond;
constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;

Status Failed(const char* what) { return absl::UnavailableError(StrCat(what, ": ", strerror(errno))); }

}  // namespace

FenceEnd::~FenceEnd() {
  if (window != nullptr) ibv_dealloc_mw(window);
  if (qp != nullptr) ibv_destroy_qp(qp);
  if (mr != nullptr) ibv_dereg_mr(mr);
  if (cq != nullptr) ibv_destroy_cq(cq);
  if (pd != nullptr) ibv_dealloc_pd(pd);
}

Status FenceEnd::Open(const VerbsDevice& device) {
  pd = ibv_alloc_pd(device.context);
  cq = ibv_create_cq(device.context, 64, nullptr, nullptr, 0);
  if (pd == nullptr || cq == nullptr) return Failed("ibv_alloc_pd, ibv_create_cq");
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), kLocal);
  if (mr == nullptr) return Failed("ibv_reg_mr");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  init.cap = {16, 16, 1, 1, 0};
  qp = ibv_create_qp(pd, &init);
  return qp == nullptr ? Failed("ibv_create_qp") : OkStatus();
}

std::optional<ibv_wc_status> FenceEnd::Completion() const {
  ibv_wc wc;
  for (const Nanos until = Now() + kPatience; Now() < until;) {
    if (ibv_poll_cq(cq, 1, &wc) > 0) return wc.status;
  }
  return std::nullopt;
}

std::optional<ibv_wc_status> FenceWriter::Write(uint64_t memory, uint32_t rkey) {
  std::fill(end_.memory.begin(), end_.memory.end(), 'x');
  ibv_sge piece{reinterpret_cast<uint64_t>(end_.memory.data()), kFenceBytes, end_.mr->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = memory;
  request.wr.rdma.rkey = rkey;
  if (ibv_post_send(end_.qp, &request, &bad) != 0) return IBV_WC_GENERAL_ERR;
  return end_.Completion();
}

StatusOr<FenceTargetAddress> LocalFenceTarget::Open(FenceWay way, const QueuePairAddress& writer) {
  way_ = way;
  end_ = std::make_unique<FenceEnd>();
  NOVA_RETURN_IF_ERROR(end_->Open(device_));
  if (!Deregister() || !Register()) return Failed("ibv_reg_mr");
  NOVA_RETURN_IF_ERROR(ConnectQueuePair(device_, end_->qp, writer));
  FenceTargetAddress out;
  NOVA_ASSIGN_OR_RETURN(out.queue_pair, AddressOfQueuePair(device_, end_->qp));
  out.memory = reinterpret_cast<uint64_t>(end_->memory.data());
  out.rkey = end_->mr->rkey;
  return out;
}

StatusOr<std::optional<uint32_t>> LocalFenceTarget::Prepare() {
  if (way_ != FenceWay::kWindow) return std::optional<uint32_t>(end_->mr->rkey);
  return BindWindow() ? std::optional<uint32_t>(window_key_) : std::nullopt;
}

Status LocalFenceTarget::Clear() {
  std::fill(end_->memory.begin(), end_->memory.end(), '.');
  return OkStatus();
}

StatusOr<bool> LocalFenceTarget::Intact() {
  return std::all_of(end_->memory.begin(), end_->memory.end(), [](char c) { return c == '.'; });
}

StatusOr<FenceTaken> LocalFenceTarget::Take() {
  FenceTaken out;
  const Nanos begin = Now();
  out.supported = TakeIt();
  if (!out.supported) out.why = strerror(errno);
  out.micros = static_cast<double>(Now() - begin) / 1e3;
  return out;
}

bool LocalFenceTarget::TakeIt() {
  ibv_qp_attr attributes{};
  switch (way_) {
    case FenceWay::kNothing:
      return true;
    case FenceWay::kDeregister:
      return Deregister();
    case FenceWay::kReRegister:
      return Deregister() && Register();  // the writer goes on with the key it had
    case FenceWay::kBreakQueuePair:
      attributes.qp_state = IBV_QPS_ERR;
      return ibv_modify_qp(end_->qp, &attributes, IBV_QP_STATE) == 0;
    case FenceWay::kDropAccess:
      attributes.qp_access_flags = kLocal;
      return ibv_modify_qp(end_->qp, &attributes, IBV_QP_ACCESS_FLAGS) == 0;
    case FenceWay::kChangeAccess:
      return ibv_rereg_mr(end_->mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kLocal) == 0;
    case FenceWay::kWindow:
      return InvalidateWindow();
  }
  return false;
}

bool LocalFenceTarget::Register() {
  end_->mr = ibv_reg_mr(end_->pd, end_->memory.data(), end_->memory.size(), kRemote);
  return end_->mr != nullptr;
}
bool LocalFenceTarget::Deregister() { return ibv_dereg_mr(std::exchange(end_->mr, nullptr)) == 0; }

bool LocalFenceTarget::BindWindow() {
  end_->window = ibv_alloc_mw(end_->pd, IBV_MW_TYPE_2);
  if (end_->window == nullptr) return false;
  ibv_send_wr request{}, *bad = nullptr;
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = end_->window;
  request.bind_mw.rkey = ibv_inc_rkey(end_->window->rkey);
  request.bind_mw.bind_info = {end_->mr, reinterpret_cast<uint64_t>(end_->memory.data()), kFenceBytes,
                               IBV_ACCESS_REMOTE_WRITE};
  window_key_ = request.bind_mw.rkey;
  return ibv_post_send(end_->qp, &request, &bad) == 0 && end_->Completion() == IBV_WC_SUCCESS;
}

bool LocalFenceTarget::InvalidateWindow() {
  ibv_send_wr request{}, *bad = nullptr;
  request.opcode = IBV_WR_LOCAL_INV;
  request.invalidate_rkey = window_key_;
  return ibv_post_send(end_->qp, &request, &bad) == 0 && end_->Completion() == IBV_WC_SUCCESS;
}

}  // namespace nova
