#include "common/rdma/fabric_metrics.h"

namespace nova {

void AddFabricCounters(Metrics* metrics, const std::string& prefix,
                       const std::function<std::optional<FabricCounters>()>& read) {
  const auto add = [&](const char* name, auto FabricCounters::*field) {
    metrics->AddFamily(prefix + name, [read, field] {
      const std::optional<FabricCounters> counters = read();
      if (!counters) return Metrics::Samples();
      return Metrics::Samples{{"", static_cast<double>((*counters).*field)}};
    });
  };
  add("_regions", &FabricCounters::regions);
  add("_connections", &FabricCounters::connections);
  add("_pending_requests", &FabricCounters::pending_requests);
  add("_bytes_sent_total", &FabricCounters::bytes_sent);
  add("_bytes_written_total", &FabricCounters::bytes_written);
  add("_bytes_read_total", &FabricCounters::bytes_read);
  add("_protocol_errors_total", &FabricCounters::protocol_errors);
  add("_access_errors_total", &FabricCounters::access_errors);
}

void AddFabricMetrics(Metrics* metrics, const Fabric* fabric) {
  AddFabricCounters(metrics, "nova_fabric", [fabric] { return fabric->counters(); });
  metrics->AddCallback("nova_fabric_verbs", [fabric] { return fabric->name() == "verbs" ? 1.0 : 0.0; });
}

}  // namespace nova
