// MetricHelp: one sentence on each metric of Nova's processes: the HELP lines of /metrics.
//
// Thread safety: pure.
#pragma once

#include <string_view>

namespace nova {

// `family`: the name without labels. Empty: a metric that is not in the list.
std::string_view MetricHelp(std::string_view family);

}  // namespace nova
