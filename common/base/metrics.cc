#include "common/base/metrics.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/metric_help.h"

namespace nova {
namespace {

template <typename T>
T* FindOrAdd(std::map<std::string, std::unique_ptr<T>>& all, const std::string& name) {
  auto& slot = all[name];
  if (slot == nullptr) slot = std::make_unique<T>();
  return slot.get();
}

// name{a="b"} + c="d" -> name{a="b",c="d"}, with `suffix` after the bare name.
std::string WithLabel(const std::string& name, std::string_view suffix, std::string_view label) {
  const size_t brace = name.find('{');
  const std::string bare = name.substr(0, brace);
  std::string labels = brace == std::string::npos ? "" : name.substr(brace + 1, name.size() - brace - 2);
  if (!label.empty()) labels += (labels.empty() ? "" : ",") + std::string(label);
  return absl::StrCat(bare, absl::string_view(suffix.data(), suffix.size()), labels.empty() ? "" : "{",
                      labels, labels.empty() ? "" : "}");
}

}  // namespace

Counter* Metrics::counter(const std::string& name) {
  MutexLock lock(&mu_);
  return FindOrAdd(counters_, name);
}

Gauge* Metrics::gauge(const std::string& name) {
  MutexLock lock(&mu_);
  return FindOrAdd(gauges_, name);
}

Histogram* Metrics::histogram(const std::string& name) {
  MutexLock lock(&mu_);
  return FindOrAdd(histograms_, name);
}

void Metrics::AddHistogram(const std::string& name, std::function<void(Histogram*)> add) {
  MutexLock lock(&mu_);
  sums_[name] = std::move(add);
}

void Metrics::AddCallback(const std::string& name, std::function<double()> read) {
  MutexLock lock(&mu_);
  callbacks_[name] = std::move(read);
}

void Metrics::AddFamily(const std::string& name, std::function<Samples()> read) {
  MutexLock lock(&mu_);
  sampled_[name] = std::move(read);
}

std::string Metrics::PrometheusText() const {
  struct Family {
    const char* type;
    std::string samples;
  };
  std::map<std::string, Family> families;  // samples of one stand together, whatever their labels
  const auto samples_of = [&](const std::string& name, const char* type) {
    return &families.try_emplace(name.substr(0, name.find('{')), Family{type, ""}).first->second.samples;
  };
  // Their names say what they are.
  const auto type_of = [](const std::string& name) {
    return name.substr(0, name.find('{')).ends_with("_total") ? "counter" : "gauge";
  };
  MutexLock lock(&mu_);
  for (const auto& [name, c] : counters_) {
    absl::StrAppend(samples_of(name, "counter"), name, " ", c->value(), "\n");
  }
  for (const auto& [name, g] : gauges_)
    absl::StrAppend(samples_of(name, "gauge"), name, " ", g->value(), "\n");
  const auto add = [&](const std::string& name, double value) {
    std::string* const samples = samples_of(name, type_of(name));
    if (value == std::floor(value) && std::abs(value) < 1e15) {
      absl::StrAppend(samples, name, " ", static_cast<int64_t>(value), "\n");  // all digits of bytes
    } else {
      absl::StrAppend(samples, name, " ", value, "\n");
    }
  };
  for (const auto& [name, read] : callbacks_) add(name, read());
  for (const auto& [name, read] : sampled_) {
    for (const auto& [labels, value] : read()) add(WithLabel(name, "", labels), value);
  }
  const auto summarize = [&](const std::string& name, const Histogram& h) {
    std::string* const samples = samples_of(name, "summary");
    for (const double q : {0.5, 0.9, 0.99, 0.999}) {
      absl::StrAppend(samples, WithLabel(name, "", absl::StrCat("quantile=\"", q, "\"")), " ",
                      h.Percentile(q * 100), "\n");
    }
    absl::StrAppend(samples, WithLabel(name, "_sum", ""), " ", h.sum(), "\n");
    absl::StrAppend(samples, WithLabel(name, "_count", ""), " ", h.count(), "\n");
  };
  for (const auto& [name, h] : histograms_) summarize(name, *h);
  for (const auto& [name, add] : sums_) {
    const auto sum = std::make_unique<Histogram>();
    add(sum.get());
    summarize(name, *sum);
  }
  std::string out;
  for (const auto& [name, family] : families) {
    const std::string_view help = MetricHelp(name);
    if (!help.empty())
      absl::StrAppend(&out, "# HELP ", name, " ", absl::string_view(help.data(), help.size()), "\n");
    absl::StrAppend(&out, "# TYPE ", name, " ", family.type, "\n", family.samples);
  }
  return out;
}

}  // namespace nova
