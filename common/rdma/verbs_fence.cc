#include "common/rdma/verbs_fence.h"

#include <infiniband/verbs.h>

#include <cstring>
#include <optional>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/rdma/verbs_device.h"

namespace nova {
namespace {

constexpr size_t kBytes = 4096;
constexpr Nanos kPatience = 2 * kSecond;

// Both ends of one connection, made without a connection manager: they lie in one process.
class Pair {
 public:
  explicit Pair(const VerbsDevice& device) : device_(device), memory_(2 * kBytes, '.') {}
  ~Pair() {
    if (window_ != nullptr) ibv_dealloc_mw(window_);
    for (ibv_qp* qp : {writer_, target_}) {
      if (qp != nullptr) ibv_destroy_qp(qp);
    }
    for (ibv_mr* mr : {source_mr_, target_mr_}) {
      if (mr != nullptr) ibv_dereg_mr(mr);
    }
    if (cq_ != nullptr) ibv_destroy_cq(cq_);
    if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  }

  Status Open() {
    pd_ = ibv_alloc_pd(device_.context);
    cq_ = ibv_create_cq(device_.context, 64, nullptr, nullptr, 0);
    if (pd_ == nullptr || cq_ == nullptr) return Failed("ibv_alloc_pd, ibv_create_cq");
    const unsigned local = IBV_ACCESS_LOCAL_WRITE;
    source_mr_ = ibv_reg_mr(pd_, memory_.data(), kBytes, local);
    target_mr_ = Register();
    if (source_mr_ == nullptr || target_mr_ == nullptr) return Failed("ibv_reg_mr");
    rkey_ = target_mr_->rkey;
    for (ibv_qp** qp : {&writer_, &target_}) {
      ibv_qp_init_attr init{};
      init.send_cq = init.recv_cq = cq_;
      init.qp_type = IBV_QPT_RC;
      init.sq_sig_all = 1;
      init.cap = {16, 16, 1, 1, 0};
      *qp = ibv_create_qp(pd_, &init);
      if (*qp == nullptr) return Failed("ibv_create_qp");
    }
    NOVA_RETURN_IF_ERROR(ConnectQueuePair(device_, writer_, target_));
    return ConnectQueuePair(device_, target_, writer_);
  }

  ibv_mr* Register() {
    const unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
    return ibv_reg_mr(pd_, target(), kBytes, rights);
  }
  char* target() { return memory_.data() + kBytes; }

  // Posts the WRITE of 100 bytes; what became of it: nullopt, no completion in time.
  std::optional<ibv_wc_status> Write() {
    std::memset(memory_.data(), 'x', 100);
    std::memset(target(), '.', kBytes);
    ibv_sge piece{reinterpret_cast<uint64_t>(memory_.data()), 100, source_mr_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(target());
    request.wr.rdma.rkey = rkey_;
    if (ibv_post_send(writer_, &request, &bad) != 0) return IBV_WC_GENERAL_ERR;
    return Completion(writer_);
  }
  std::optional<ibv_wc_status> Completion(ibv_qp* of) {
    const Nanos until = Now() + kPatience;
    ibv_wc wc;
    while (Now() < until) {
      if (ibv_poll_cq(cq_, 1, &wc) > 0 && wc.qp_num == of->qp_num) return wc.status;
    }
    return std::nullopt;
  }
  bool intact() const { return std::string_view(memory_.data() + kBytes, kBytes) == std::string(kBytes, '.'); }

  // The ways; true when the device knows it.
  bool Nothing() { return true; }
  bool Deregister() { return ibv_dereg_mr(std::exchange(target_mr_, nullptr)) == 0; }
  bool ReRegister() {
    if (!Deregister()) return false;
    target_mr_ = Register();  // the writer goes on with the key it had
    return target_mr_ != nullptr;
  }
  bool BreakTarget() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(target_, &attributes, IBV_QP_STATE) == 0;
  }
  bool DropAccess() {
    ibv_qp_attr attributes{};
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
    return ibv_modify_qp(target_, &attributes, IBV_QP_ACCESS_FLAGS) == 0;
  }
  bool ChangeAccess() { return ibv_rereg_mr(target_mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE) == 0; }
  bool BindWindow() {
    window_ = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
    if (window_ == nullptr) return false;
    ibv_send_wr request{}, *bad = nullptr;
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = window_;
    request.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    request.bind_mw.bind_info = {target_mr_, reinterpret_cast<uint64_t>(target()), kBytes, IBV_ACCESS_REMOTE_WRITE};
    if (ibv_post_send(target_, &request, &bad) != 0 || Completion(target_) != IBV_WC_SUCCESS) return false;
    rkey_ = request.bind_mw.rkey;
    return true;
  }
  bool InvalidateWindow() {
    ibv_send_wr request{}, *bad = nullptr;
    request.opcode = IBV_WR_LOCAL_INV;
    request.invalidate_rkey = rkey_;
    return ibv_post_send(target_, &request, &bad) == 0 && Completion(target_) == IBV_WC_SUCCESS;
  }

 private:
  static Status Failed(const char* what) { return absl::UnavailableError(StrCat(what, ": ", strerror(errno))); }
  const VerbsDevice device_;
  std::vector<char> memory_;  // the writer's, then the target's
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* writer_ = nullptr;
  ibv_qp* target_ = nullptr;
  ibv_mr* source_mr_ = nullptr;
  ibv_mr* target_mr_ = nullptr;
  ibv_mw* window_ = nullptr;
  uint32_t rkey_ = 0;
};

struct Way {
  const char* name;
  const char* what;
  bool (Pair::*prepare)();
  bool (Pair::*take)();
};

constexpr Way kWays[] = {
    {"T1", "nothing: the slab was reassigned inside one registration", &Pair::Nothing, &Pair::Nothing},
    {"T2", "ibv_dereg_mr", &Pair::Nothing, &Pair::Deregister},
    {"T2b", "ibv_dereg_mr, the same memory registered again", &Pair::Nothing, &Pair::ReRegister},
    {"T3", "the target's queue pair moved to ERR", &Pair::Nothing, &Pair::BreakTarget},
    {"T4", "REMOTE_WRITE dropped from the queue pair's access flags", &Pair::Nothing, &Pair::DropAccess},
    {"T5", "ibv_rereg_mr, CHANGE_ACCESS", &Pair::Nothing, &Pair::ChangeAccess},
    {"T6b", "memory window of type 2, LOCAL_INV", &Pair::BindWindow, &Pair::InvalidateWindow},
};

StatusOr<FenceResult> RunOne(const VerbsDevice& device, const Way& way) {
  FenceResult result;
  result.name = way.name;
  result.what = way.what;
  Pair pair(device);
  NOVA_RETURN_IF_ERROR(pair.Open());
  if (!(pair.*way.prepare)()) {
    result.outcome = "not supported";
    return result;
  }
  if (const auto live = pair.Write(); live != IBV_WC_SUCCESS) {
    return absl::UnavailableError(StrCat(way.name, ": the WRITE before failed: ", live ? ibv_wc_status_str(*live) : "no completion"));
  }
  const Nanos begin = Now();
  const bool taken = (pair.*way.take)();
  result.micros = static_cast<double>(Now() - begin) / 1e3;
  if (!taken) {
    result.outcome = StrCat("not supported: ", strerror(errno));
    return result;
  }
  const auto stale = pair.Write();
  result.fences = pair.intact() && stale != IBV_WC_SUCCESS ? Fences::kYes : Fences::kNo;
  result.outcome = stale == IBV_WC_SUCCESS ? "landed"
                   : !stale ? "no completion in 2 s"
                            : StrCat("refused: ", ibv_wc_status_str(*stale));
  if (!pair.intact() && stale != IBV_WC_SUCCESS) result.outcome += ", and landed";
  return result;
}

}  // namespace

StatusOr<std::vector<FenceResult>> RunFenceTests(const std::string& address) {
  VerbsFabricOptions options;
  options.address = address;
  NOVA_ASSIGN_OR_RETURN(const VerbsDevice device, OpenVerbsDevice(options));
  std::vector<FenceResult> out;
  Status status;
  for (const Way& way : kWays) {
    auto result = RunOne(device, way);
    if (!result.ok()) {
      status = result.status();
      break;
    }
    out.push_back(*std::move(result));
  }
  ibv_close_device(device.context);
  NOVA_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace nova
