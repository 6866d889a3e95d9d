#include "common/rdma/fabric_metrics.h"
#include "common/rdma/xchg.h"

namespace nova {

void AddXchgMetrics(Metrics* metrics, std::vector<const Xchg*> xchgs) {
  metrics->AddCallback("nova_xchg_cut_off_total", [xchgs = std::move(xchgs)] {
    uint64_t n = 0;
    for (const Xchg* x : xchgs) n += x->counters().cut_off;
    return static_cast<double>(n);
  });
}

}  // namespace nova
