#include <infiniband/verbs.h>
#include <poll.h>

#include <cstring>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rdma/verbs/verbs_device.h"
#include "experiments/fabric_bench/bare.h"

namespace nova {
namespace {

constexpr int kQueue = 128;
constexpr uint32_t kInline = 256;

class BareVerbs final : public Bare {
 public:
  explicit BareVerbs(const VerbsDevice& device)
      : device_(device), from_(kBenchBytes, 'x'), to_(kBenchBytes, '.') {}
  ~BareVerbs() override {
    for (ibv_qp* qp : {writer_, target_}) {
      if (qp != nullptr) ibv_destroy_qp(qp);
    }
    if (cq_ != nullptr) {
      ibv_ack_cq_events(cq_, events_);
      ibv_destroy_cq(cq_);
    }
    if (receive_cq_ != nullptr) ibv_destroy_cq(receive_cq_);
    if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
    for (ibv_mr* mr : {from_mr_, to_mr_}) {
      if (mr != nullptr) ibv_dereg_mr(mr);
    }
    if (pd_ != nullptr) ibv_dealloc_pd(pd_);
    ibv_close_device(device_.context);
  }

  Status Open() {
    pd_ = ibv_alloc_pd(device_.context);
    channel_ = ibv_create_comp_channel(device_.context);
    cq_ = ibv_create_cq(device_.context, 2 * kQueue, nullptr, channel_, 0);
    receive_cq_ = ibv_create_cq(device_.context, 2 * kQueue, nullptr, nullptr, 0);
    const unsigned local = IBV_ACCESS_LOCAL_WRITE,
                   remote = local | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    from_mr_ = ibv_reg_mr(pd_, from_.data(), from_.size(), local);
    to_mr_ = ibv_reg_mr(pd_, to_.data(), to_.size(), remote);
    for (ibv_qp** qp : {&writer_, &target_}) {
      ibv_qp_init_attr init{};
      init.send_cq = cq_;
      init.recv_cq = receive_cq_;
      init.qp_type = IBV_QPT_RC;
      init.sq_sig_all = 1;
      init.cap = {kQueue, kQueue, 1, 1, kInline};
      *qp = ibv_create_qp(pd_, &init);
      if (*qp == nullptr) return absl::UnavailableError(StrCat("ibv_create_qp: ", strerror(errno)));
    }
    NOVA_RETURN_IF_ERROR(ConnectQueuePair(device_, writer_, target_));
    NOVA_RETURN_IF_ERROR(ConnectQueuePair(device_, target_, writer_));
    for (int i = 0; i < kQueue; ++i) PostReceive();
    return OkStatus();
  }

  void PingPong(BenchOp op, size_t bytes, bool spin, int count, double* micros) override {
    for (int i = 0; i < count; ++i) {
      const Nanos begin = Now();
      if (!spin) ibv_req_notify_cq(cq_, 0);
      Post(op, bytes);
      if (!spin) Sleep();
      while (Reap() == 0) continue;
      micros[i] = static_cast<double>(Now() - begin) / 1e3;
    }
  }
  void Stream(BenchOp op, size_t bytes, bool spin, int depth, int count) override {
    int posted = 0;
    for (int done = 0; done < count;) {
      for (; posted < count && posted < done + depth; ++posted) Post(op, bytes);
      int n = Reap();
      if (n == 0 && !spin) {
        ibv_req_notify_cq(cq_, 0);
        if ((n = Reap()) == 0) Sleep();
      }
      done += n;
    }
  }

 private:
  void PostReceive() {
    ibv_sge piece{reinterpret_cast<uint64_t>(to_.data()), static_cast<uint32_t>(to_.size()), to_mr_->lkey};
    ibv_recv_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    NOVA_CHECK(ibv_post_recv(target_, &request, &bad) == 0);
  }
  void Post(BenchOp op, size_t bytes) {
    ibv_sge piece{reinterpret_cast<uint64_t>(from_.data()), static_cast<uint32_t>(bytes), from_mr_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = op == BenchOp::kWrite  ? IBV_WR_RDMA_WRITE
                     : op == BenchOp::kRead ? IBV_WR_RDMA_READ
                                            : IBV_WR_SEND;
    if (op != BenchOp::kRead && bytes <= kInline) request.send_flags = IBV_SEND_INLINE;
    request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(to_.data());
    request.wr.rdma.rkey = to_mr_->rkey;
    NOVA_CHECK(ibv_post_send(writer_, &request, &bad) == 0);
  }
  int Reap() {
    ibv_wc wc[16];
    const int n = ibv_poll_cq(cq_, 16, wc);
    for (int i = 0; i < n; ++i) NOVA_CHECK(wc[i].status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc[i].status);
    for (int i = ibv_poll_cq(receive_cq_, 16, wc); i > 0; --i) PostReceive();
    return std::max(n, 0);
  }
  void Sleep() {
    pollfd wait{channel_->fd, POLLIN, 0};
    poll(&wait, 1, -1);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &context) == 0) ++events_;
  }

  const VerbsDevice device_;
  std::vector<char> from_, to_;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  ibv_qp* writer_ = nullptr;
  ibv_qp* target_ = nullptr;
  ibv_mr* from_mr_ = nullptr;
  ibv_mr* to_mr_ = nullptr;
  unsigned events_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<Bare>> NewBareVerbs(const std::string& address) {
  VerbsFabricOptions options;
  options.address = address;
  NOVA_ASSIGN_OR_RETURN(const VerbsDevice device, OpenVerbsDevice(options));
  auto bare = std::make_unique<BareVerbs>(device);
  NOVA_RETURN_IF_ERROR(bare->Open());
  return bare;
}

}  // namespace nova
