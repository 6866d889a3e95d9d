#include "experiments/peers/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "absl/strings/str_format.h"

namespace nova {
namespace {

std::string Text(double value) {
  if (value == kNotReached) return "-";
  return absl::StrFormat("%.*f", std::fabs(value) >= 1000 ? 0 : std::fabs(value) >= 10 ? 1 : 3, value);
}

// What was not reached is more than anything that was.
double Median(std::vector<double> values) {
  for (double& v : values) v = v == kNotReached ? std::numeric_limits<double>::infinity() : v;
  std::sort(values.begin(), values.end());
  const double middle = values[values.size() / 2];
  return std::isinf(middle) ? kNotReached : middle;
}

}  // namespace

double Ratio(double a, double b) { return b == 0 ? kNotReached : a / b; }

Report MedianOf(const std::vector<Report>& runs) {
  Report median = runs[0];
  median.per_100_ms.clear();
  for (size_t i = 0; i < median.figures.size(); ++i) {
    std::vector<double> values;
    for (const Report& r : runs) values.push_back(r.figures[i].value);
    median.figures[i].value = Median(std::move(values));
  }
  return median;
}

void PrintTable(const std::string& title, const std::vector<std::string>& engines,
                const std::vector<Report>& reports) {
  std::printf("%-46s %-9s", title.c_str(), "");
  for (const std::string& e : engines) std::printf(" %16s", e.c_str());
  std::printf("\n");
  for (size_t i = 0; i < reports[0].figures.size(); ++i) {
    std::printf("%-46s %-9s", reports[0].figures[i].name.c_str(), reports[0].figures[i].unit.c_str());
    for (const Report& r : reports) std::printf(" %16s", Text(r.figures[i].value).c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

void PrintSeries(const std::string& engine, const Report& report) {
  if (report.per_100_ms.empty()) return;
  std::printf("%s, last run, operations in each 100 ms:", engine.c_str());
  for (const uint64_t n : report.per_100_ms) std::printf(" %llu", static_cast<unsigned long long>(n));
  std::printf("\n");
  std::fflush(stdout);
}

void WriteCsv(std::ostream& out, const std::string& title, const std::string& engine, int run,
              const Report& report) {
  for (const Figure& f : report.figures) {
    out << title << ',' << engine << ',' << run << ',' << f.name << ',' << f.unit << ',' << Text(f.value)
        << '\n';
  }
  for (const uint64_t n : report.per_100_ms) {
    out << title << ',' << engine << ',' << run << ",operations in 100 ms,," << n << '\n';
  }
  out.flush();
}

}  // namespace nova
