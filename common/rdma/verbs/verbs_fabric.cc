#include "common/rdma/verbs/verbs_fabric.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/resolver.h"
#include "common/rdma/verbs/verbs_device.h"
#include "common/rdma/verbs/verbs_id_reaper.h"
#include "common/rdma/verbs/verbs_port.h"
#include "common/rdma/verbs/verbs_regions.h"

namespace nova {
namespace {

constexpr int kBacklog = 1024;
constexpr int kRevokeTries = 100;

class VerbsFabric final : public Fabric, public VerbsPortOwner {
 public:
  VerbsFabric(const VerbsFabricOptions& options, in_addr source, const VerbsDevice& device, ibv_pd* pd)
      : options_(options),
        source_(source),
        context_(device.context),
        port_number_(device.port),
        port_(device.attributes),
        pd_(pd) {
    ibv_query_device(context_, &limits_);
  }
  ~VerbsFabric() override {
    ports_.Close();
    reaper_.reset();
    regions_.reset();
    ibv_dealloc_pd(pd_);
    ibv_close_device(context_);
  }

  std::string_view name() const override { return "verbs"; }
  StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) override;
  void Revoke(const MemoryRegion& region) override;
  StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) override {
    return ports_.Open(std::make_unique<VerbsPort>(this, options));
  }
  StatusOr<std::string> Listen(const std::string& address, const Hello& self, std::vector<Port*> ports,
                               AcceptCheck check) override;
  FabricCounters counters() const override;

  const VerbsFabricOptions& options() const override { return options_; }
  FabricPorts<VerbsPort>* ports() override { return &ports_; }
  ibv_context* context() override { return context_; }
  ibv_pd* pd() override { return pd_; }
  const ibv_device_attr& limits() const override { return limits_; }
  bool IsOurs(const rdma_cm_id* cm) const override;
  bool source(sockaddr_in* from) const override;
  void RefreshRegions(uint64_t* version, KeyTable* regions) override { regions_->Refresh(version, regions); }
  ibv_qp* CreateQueuePair(ibv_qp_init_attr* attributes, VerbsPort* port) override;
  void DestroyQueuePair(ibv_qp* qp) override;
  bool WasBrokenByUs(const ibv_qp* qp) const override;
  void DrainAsyncEvents() override;
  void Discard(rdma_cm_id* cm) override { reaper_->Discard(cm); }
  void FinishDiscarding() override { reaper_->Finish(); }

  std::string Text() const;
  void BreakAll();
  void BreakQuietly() {
    MutexLock lock(&mu_);
    BreakAllLocked();
  }
  int64_t queue_pairs() const {
    MutexLock lock(&mu_);
    return static_cast<int64_t>(queue_pairs_.size());
  }

 private:
  struct QueuePair {
    ibv_qp* qp = nullptr;
    VerbsPort* port = nullptr;
    bool broken_by_us = false;
  };
  void BreakAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const VerbsFabricOptions options_;
  const in_addr source_;  // 0: any
  ibv_context* const context_;
  const uint8_t port_number_;
  const ibv_port_attr port_;
  ibv_pd* const pd_;
  ibv_device_attr limits_{};

  FabricPorts<VerbsPort> ports_;
  Listener listener_;

  mutable Mutex mu_;
  absl::flat_hash_map<uint32_t, QueuePair> queue_pairs_ ABSL_GUARDED_BY(mu_);  // by number

  std::unique_ptr<VerbsRegions> regions_ = std::make_unique<VerbsRegions>();
  std::unique_ptr<IdReaper> reaper_ = std::make_unique<IdReaper>();
};

// --- Memory

StatusOr<MemoryRegion> VerbsFabric::Register(void* address, uint64_t size, Access access) {
  if (address == nullptr || size == 0) return absl::InvalidArgumentError("registering no memory");
  int rights = IBV_ACCESS_LOCAL_WRITE;  // never IBV_ACCESS_RELAXED_ORDERING
  if ((static_cast<uint8_t>(access) & static_cast<uint8_t>(Access::kRemoteRead)) != 0)
    rights |= IBV_ACCESS_REMOTE_READ;
  if ((static_cast<uint8_t>(access) & static_cast<uint8_t>(Access::kRemoteWrite)) != 0)
    rights |= IBV_ACCESS_REMOTE_WRITE;
  ibv_mr* mr = ibv_reg_mr(pd_, address, size, static_cast<unsigned>(rights));
  if (mr == nullptr) {
    const int error = errno;
    const std::string problem = MemlockProblem(size);
    return absl::ResourceExhaustedError(
        problem.empty() ? StrCat("registering ", size, " bytes: ", strerror(error)) : problem);
  }
  const MemoryRegion region{static_cast<std::byte*>(address), size, mr->lkey,
                            access == Access::kLocal ? 0 : mr->rkey, access};
  regions_->Add(region, mr);
  return region;
}

void VerbsFabric::Revoke(const MemoryRegion& region) {
  ibv_mr* const mr = regions_->Take(region.lkey);
  if (mr == nullptr) return;
  int error = ibv_dereg_mr(mr);
  if (error == 0) return;
  // Revocation (F1) before everything: no queue pair, nothing lands.
  NOVA_LOG(ERROR) << "a memory region cannot be deregistered (" << strerror(error)
                  << "): every connection is broken";
  BreakAll();
  for (int i = 0; i < kRevokeTries && (error = ibv_dereg_mr(mr)) != 0; ++i) SleepFor(kMillisecond);
  if (error != 0) NOVA_LOG(ERROR) << "a memory region stays pinned: " << strerror(error);
}

// --- Queue pairs

ibv_qp* VerbsFabric::CreateQueuePair(ibv_qp_init_attr* attributes, VerbsPort* port) {
  ibv_qp* qp = ibv_create_qp(pd_, attributes);
  if (qp == nullptr) return nullptr;
  MutexLock lock(&mu_);
  queue_pairs_[qp->qp_num] = {qp, port, false};
  return qp;
}

void VerbsFabric::DestroyQueuePair(ibv_qp* qp) {
  {
    MutexLock lock(&mu_);
    queue_pairs_.erase(qp->qp_num);
  }
  if (const int error = ibv_destroy_qp(qp); error != 0)
    NOVA_LOG(ERROR) << "ibv_destroy_qp: " << strerror(error);
}

bool VerbsFabric::WasBrokenByUs(const ibv_qp* qp) const {
  MutexLock lock(&mu_);
  const auto it = queue_pairs_.find(qp->qp_num);
  return it != queue_pairs_.end() && it->second.broken_by_us;
}

void VerbsFabric::BreakAllLocked() {
  for (auto& [number, q] : queue_pairs_) {
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    q.broken_by_us = true;
    ibv_modify_qp(q.qp, &error, IBV_QP_STATE);
  }
}

void VerbsFabric::BreakAll() {
  MutexLock lock(&mu_);
  BreakAllLocked();
  for (auto& [number, q] : queue_pairs_)
    q.port->Failed(number, false, "a memory region could not be revoked otherwise");
}

void VerbsFabric::DrainAsyncEvents() {
  ibv_async_event event;
  while (ibv_get_async_event(context_, &event) == 0) {
    const char* text = ibv_event_type_str(event.event_type);
    uint32_t number = 0;
    bool of_queue_pair = false;
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        number = event.element.qp->qp_num;
        of_queue_pair = true;
        break;
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
        break;
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_PORT_ACTIVE:
        NOVA_LOG(WARNING) << "RDMA device " << ibv_get_device_name(context_->device) << ": " << text;
        break;
      default:
        NOVA_LOG(INFO) << "RDMA device " << ibv_get_device_name(context_->device) << ": " << text;
    }
    ibv_ack_async_event(&event);
    if (!of_queue_pair) continue;
    const bool refused =
        event.event_type == IBV_EVENT_QP_ACCESS_ERR || event.event_type == IBV_EVENT_QP_REQ_ERR;
    MutexLock lock(&mu_);
    const auto it = queue_pairs_.find(number);
    if (it == queue_pairs_.end() || it->second.broken_by_us) continue;
    it->second.port->Failed(number, refused,
                            refused ? "a request of the peer was refused: key, bounds or rights"
                                    : StrCat("the queue pair broke: ", text));
  }
}

// --- Ports

bool VerbsFabric::IsOurs(const rdma_cm_id* cm) const {
  return cm->verbs != nullptr && cm->port_num == port_number_ &&
         std::strcmp(ibv_get_device_name(cm->verbs->device), ibv_get_device_name(context_->device)) == 0;
}

bool VerbsFabric::source(sockaddr_in* from) const {
  from->sin_family = AF_INET;
  from->sin_addr = source_;
  return source_.s_addr != 0;
}

StatusOr<std::string> VerbsFabric::Listen(const std::string& address, const Hello& self,
                                          std::vector<Port*> ports, AcceptCheck check) {
  NOVA_CHECK(!ports.empty());
  NOVA_ASSIGN_OR_RETURN(sockaddr_in at, ListenAddress(address));
  rdma_cm_id* listening = nullptr;
  if (rdma_create_id(static_cast<VerbsPort*>(ports[0])->channel(), &listening, nullptr, RDMA_PS_TCP) != 0) {
    return absl::ResourceExhaustedError(StrCat("rdma_create_id: ", strerror(errno)));
  }
  if (rdma_bind_addr(listening, reinterpret_cast<sockaddr*>(&at)) != 0 ||
      rdma_listen(listening, kBacklog) != 0) {
    const int error = errno;
    rdma_destroy_id(listening);
    return absl::UnavailableError(StrCat("cannot listen at ", address, " (RDMA): ", strerror(error)));
  }
  listener_ = {self, std::move(check), ports.size()};
  ports_.Serve(ports, [&](VerbsPort* port, bool is_first) {
    port->Serve(&listener_, is_first ? listening : nullptr);
  });
  return BoundAddress(address, ntohs(rdma_get_src_port(listening)));
}

FabricCounters VerbsFabric::counters() const {
  FabricCounters sum = ports_.counters();
  sum.regions = static_cast<int64_t>(regions_->size());
  return sum;
}

std::string VerbsFabric::Text() const {
  return StrCat(ibv_get_device_name(context_->device), ":", port_number_, " (",
                port_.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "RoCE", ", ",
                VerbsStateText(port_.state), ", MTU ", VerbsMtuBytes(port_.active_mtu), ")");
}

const VerbsFabric& Cast(const Fabric& fabric) {
  NOVA_CHECK(fabric.name() == "verbs");
  return static_cast<const VerbsFabric&>(fabric);
}

}  // namespace

StatusOr<std::unique_ptr<Fabric>> NewVerbsFabric(const VerbsFabricOptions& options) {
  in_addr ip{};
  if (!options.address.empty()) {
    NOVA_ASSIGN_OR_RETURN(ip, LookUpHost(options.address));
  }
  if (const std::string problem =
          MemlockProblem(uint64_t{options.receive_buffers} * PortOptions().max_message_bytes);
      !problem.empty()) {
    return absl::FailedPreconditionError(problem);
  }
  NOVA_ASSIGN_OR_RETURN(const VerbsDevice device, OpenVerbsDevice(options));
  ibv_pd* pd = ibv_alloc_pd(device.context);
  if (pd == nullptr) {
    const int error = errno;
    ibv_close_device(device.context);
    return absl::ResourceExhaustedError(StrCat("ibv_alloc_pd: ", strerror(error)));
  }
  return std::make_unique<VerbsFabric>(options, ip, device, pd);
}

std::string VerbsFabricText(const Fabric& fabric) { return Cast(fabric).Text(); }
void BreakQueuePairs(Fabric* fabric) { const_cast<VerbsFabric&>(Cast(*fabric)).BreakQuietly(); }
int64_t QueuePairs(const Fabric& fabric) { return Cast(fabric).queue_pairs(); }

}  // namespace nova
