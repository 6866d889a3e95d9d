#include "common/rdma/sim/sim_fabric.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/rdma/sim/sim_network.h"

namespace nova {
namespace {

constexpr uint32_t kMaxPending = 16 * 1024;

class SimFabric final : public Fabric {
 public:
  SimFabric(SimNetwork::Rep* network, std::shared_ptr<SimNode> node)
      : network_(network), node_(std::move(node)) {}
  ~SimFabric() override;
  std::string_view name() const override { return "sim"; }
  StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) override {
    if (address == nullptr || size == 0) return absl::InvalidArgumentError("registering no memory");
    return node_->keys->Add(address, size, access);
  }
  void Revoke(const MemoryRegion& region) override { node_->keys->Remove(region.lkey); }
  StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) override {
    if (options.max_pending_requests == 0 || options.max_pending_requests > kMaxPending) {
      return absl::InvalidArgumentError(StrCat("max_pending_requests must be 1..", kMaxPending));
    }
    return std::make_unique<SimPort>(network_, node_, options);
  }
  StatusOr<std::string> Listen(const std::string& address, const Hello& self, std::vector<Port*> ports,
                               AcceptCheck check) override;
  FabricCounters counters() const override {
    FabricCounters c = node_->counters;
    c.regions = static_cast<int64_t>(node_->keys->size());
    return c;
  }

 private:
  SimNetwork::Rep* const network_;
  const std::shared_ptr<SimNode> node_;
};

SimFabric::~SimFabric() {
  NOVA_CHECK(node_->ports.empty()) << "a port outlives its fabric";
  std::erase_if(network_->listeners, [this](const auto& l) { return l.second.node == node_; });
  if (const auto it = network_->nodes.find(node_->name); it != network_->nodes.end() && it->second == node_) {
    network_->nodes.erase(it);
  }
}

StatusOr<std::string> SimFabric::Listen(const std::string& address, const Hello& self,
                                        std::vector<Port*> ports, AcceptCheck check) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || ports.empty()) {
    return absl::InvalidArgumentError(StrCat("not an address to listen at (host:port): ", address));
  }
  std::string bound = address;
  if (address.substr(colon) == ":0") bound = StrCat(address.substr(0, colon), ":", network_->next_port++);
  if (network_->listeners.contains(bound)) {
    return absl::UnavailableError(StrCat("cannot listen at ", address, ": Address already in use"));
  }
  SimListener listener{{self, std::move(check), ports.size()}, node_, {}};
  for (Port* port : ports) listener.ports.push_back(static_cast<SimPort*>(port));
  network_->listeners.emplace(bound, std::move(listener));
  return bound;
}

}  // namespace

// --- What a test does to the network

SimNetwork::SimNetwork(const SimNetworkOptions& options) {
  NOVA_CHECK(Simulation::Current() != nullptr) << "a simulated network outside a simulation";
  rep_ = std::make_unique<Rep>(options);
  rep_->thread = std::make_unique<Thread>("sim.network", [rep = rep_.get()] { rep->Run(); });
}

SimNetwork::~SimNetwork() {
  NOVA_CHECK(rep_->nodes.empty()) << "a fabric outlives its network";
  rep_->stopping = true;
  rep_->sim->WakeAll(rep_.get());
  rep_->thread->Join();
}

void SimNetwork::set_options(const SimNetworkOptions& options) { rep_->options = options; }

void SimNetwork::Kill(const std::string& node) {
  const auto it = rep_->nodes.find(node);
  if (it == rep_->nodes.end()) return;
  const std::shared_ptr<SimNode> dead = it->second;
  rep_->nodes.erase(it);
  rep_->sim->Trace("net kills " + node);
  dead->alive = false;
  std::erase_if(rep_->listeners, [&](const auto& l) { return l.second.node == dead; });
  for (SimPort* port : dead->ports) port->Die();
  dead->paused = false;
  rep_->sim->WakeAll(&dead->paused);
  rep_->ReleaseHeld();
}

void SimNetwork::Pause(const std::string& node) {
  if (const auto it = rep_->nodes.find(node); it != rep_->nodes.end()) it->second->paused = true;
}

void SimNetwork::Resume(const std::string& node) {
  const auto it = rep_->nodes.find(node);
  if (it == rep_->nodes.end()) return;
  it->second->paused = false;
  rep_->sim->WakeAll(&it->second->paused);
  rep_->ReleaseHeld();
}

void SimNetwork::Cut(const std::string& from, const std::string& to) { rep_->cuts.emplace(from, to); }

void SimNetwork::Partition(const std::string& a, const std::string& b) {
  Cut(a, b);
  Cut(b, a);
}

void SimNetwork::Mend(const std::string& from, const std::string& to) {
  rep_->cuts.erase({from, to});
  rep_->ReleaseHeld();
}

void SimNetwork::Heal() {
  rep_->cuts.clear();
  rep_->ReleaseHeld();
}

std::unique_ptr<Fabric> NewSimFabric(SimNetwork* network, const std::string& node) {
  auto& entry = network->rep_->nodes[node];
  NOVA_CHECK(entry == nullptr) << "two live nodes of the name " << node;
  entry = std::make_shared<SimNode>();
  entry->name = node;
  entry->keys = std::make_unique<KeyTable>(network->rep_->random.Next());
  return std::make_unique<SimFabric>(network->rep_.get(), entry);
}

}  // namespace nova
