// Metrics: named counters, gauges and histograms of one process, and their Prometheus text.
//
// Names are nova_<component>_<what>_<unit>, with labels in the name: `nova_stoc_bytes_total{op="read"}`. A
// metric lives as long as its registry: look it up once and keep the pointer.
//
// Thread safety: all. Counter and Gauge are one relaxed atomic.
// Ownership: Metrics owns them; the sources of callbacks outlive the last PrometheusText.
// Errors: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/histogram.h"
#include "common/base/mutex.h"

namespace nova {

// A sum that only rises.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A value that rises and falls.
class Gauge {
 public:
  void Set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void Add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

class Metrics {
 public:
  // Each of these three finds the metric of that name or makes it.
  Counter* counter(const std::string& name);
  Gauge* gauge(const std::string& name);
  // Exposed as a summary: quantiles, _sum, _count.
  Histogram* histogram(const std::string& name);
  // A histogram that is the sum of others, of several threads: `add` adds them to its argument. Called as
  // AddCallback's.
  void AddHistogram(const std::string& name, std::function<void(Histogram*)> add);
  // `read` is called by each PrometheusText, under the lock: it must not call back into this object.
  void AddCallback(const std::string& name, std::function<double()> read);

  // Samples of one metric with labels that come and go, as they are when asked: by their labels,
  // `range="7"`. `read` is called as AddCallback's.
  using Samples = std::map<std::string, double>;
  void AddFamily(const std::string& name, std::function<Samples()> read);

  // All metrics, in the text format of Prometheus.
  std::string PrometheusText() const;

 private:
  mutable Mutex mu_;
  std::map<std::string, std::unique_ptr<Counter>> counters_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::unique_ptr<Gauge>> gauges_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::unique_ptr<Histogram>> histograms_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::function<void(Histogram*)>> sums_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::function<double()>> callbacks_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::function<Samples()>> sampled_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
