#include "tests/cluster/wait_for_stoc.h"

namespace nova {

bool WaitForStoc(ProcessCluster* cluster, const std::string& stoc,
                 const std::function<bool(const nlohmann::json& stoc)>& wanted, Nanos deadline,
                 nlohmann::json* status) {
  for (; Now() < deadline; SleepFor(200 * kMillisecond)) {
    std::string said;
    if (cluster->Nova({"status", "--json"}, &said) != 0) continue;
    *status = nlohmann::json::parse(said, nullptr, false);
    for (const auto& s : status->value("stocs", nlohmann::json::array())) {
      if (s.value("name", "") == stoc && wanted(s)) return true;
    }
  }
  return false;
}

}  // namespace nova
