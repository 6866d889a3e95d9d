// Report: what one run of a cell measured.
//
// Thread safety: plain data.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace nova {

inline constexpr double kNotReached = -1;  // of a figure that this run does not have; printed as "-"

struct Figure {
  std::string name;  // without commas: it is a column of a CSV
  std::string unit;
  double value = kNotReached;
};

struct Report {
  std::vector<Figure> figures;       // the same ones, in the same order, in every run of a cell
  std::vector<uint64_t> per_100_ms;  // operations; empty: the cell does not count them

  void Add(std::string name, std::string unit, double value) {
    figures.push_back({std::move(name), std::move(unit), value});
  }
};

Report MedianOf(
    const std::vector<Report>& runs);  // of each figure by itself; without per_100_ms. REQUIRES: a run
double Ratio(double a, double b);      // kNotReached when `b` is 0

// A figure a line, an engine a column: reports[i] is engines[i]'s.
void PrintTable(const std::string& title, const std::vector<std::string>& engines,
                const std::vector<Report>& reports);
// per_100_ms in one line, where there are any.
void PrintSeries(const std::string& engine, const Report& report);
// "cell,engine,run,figure,unit,value", a figure a line; then per_100_ms, each with the figure "operations in
// 100 ms".
void WriteCsv(std::ostream& out, const std::string& title, const std::string& engine, int run,
              const Report& report);

}  // namespace nova
