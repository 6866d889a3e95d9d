#include "experiments/peers/measurement.h"

#include <algorithm>

#include "experiments/peers/process.h"

namespace nova {

Measurement::Counts Measurement::CountsOf(const Clients& clients) {
  return {Now(), CpuSeconds(), OperationsOf(clients), DeviceReadBytes(), DeviceWrittenBytes()};
}

void Measurement::WaitUntil(Nanos until) {
  peak_anonymous_bytes_ = std::max(peak_anonymous_bytes_, AnonymousBytes());
  while (Now() < until) {
    SleepUntil(std::min(until, Now() + kWindow));
    peak_anonymous_bytes_ = std::max(peak_anonymous_bytes_, AnonymousBytes());
  }
}

void Measurement::Begin(const Clients& clients) { from_ = CountsOf(clients); }

Report Measurement::End(const Clients& clients) {
  const Counts to = CountsOf(clients);
  for (const auto& c : clients) c->End();
  const auto operations = static_cast<double>(to.operations - from_.operations);
  const auto per_operation = [&](uint64_t before, uint64_t after) {
    return Ratio(static_cast<double>(after - before) / 1024, operations);
  };
  Histogram latency;
  uint64_t stalls = 0;
  for (const auto& c : clients) {
    latency.Merge(c->latency());
    stalls += c->stalls();
  }
  const auto ms = [](uint64_t ns) { return static_cast<double>(ns) * 1e-6; };
  Report report;
  report.Add("operations", "K op/s", operations / (static_cast<double>(to.at - from_.at) * 1e-9) / 1e3);
  report.Add("CPU with background work", "us/op",
             Ratio((to.cpu_seconds - from_.cpu_seconds) * 1e6, operations));
  report.Add("read from the device", "KiB/op", per_operation(from_.read_bytes, to.read_bytes));
  report.Add("written to files", "KiB/op", per_operation(from_.written_bytes, to.written_bytes));
  report.Add("p99.9 of an operation", "ms", ms(latency.Percentile(99.9)));
  report.Add("longest operation", "ms", ms(latency.max()));
  report.Add("operations over 100 ms", "", static_cast<double>(stalls));
  return report;
}

}  // namespace nova
