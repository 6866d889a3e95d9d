#include "common/base/metrics.h"

#include "absl/strings/str_cat.h"

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

void Metrics::AddCallback(const std::string& name, std::function<double()> read) {
  MutexLock lock(&mu_);
  callbacks_[name] = std::move(read);
}

std::string Metrics::PrometheusText() const {
  MutexLock lock(&mu_);
  std::string out;
  for (const auto& [name, c] : counters_) absl::StrAppend(&out, name, " ", c->value(), "\n");
  for (const auto& [name, g] : gauges_) absl::StrAppend(&out, name, " ", g->value(), "\n");
  for (const auto& [name, read] : callbacks_) absl::StrAppend(&out, name, " ", read(), "\n");
  for (const auto& [name, h] : histograms_) {
    for (const double q : {0.5, 0.9, 0.99, 0.999}) {
      absl::StrAppend(&out, WithLabel(name, "", absl::StrCat("quantile=\"", q, "\"")), " ",
                      h->Percentile(q * 100), "\n");
    }
    absl::StrAppend(&out, WithLabel(name, "_sum", ""), " ", h->sum(), "\n");
    absl::StrAppend(&out, WithLabel(name, "_count", ""), " ", h->count(), "\n");
  }
  return out;
}

}  // namespace nova
