// A bar chart of the engines beside each other, by gnuplot (deploy/packages.sh --experiments installs it).
//
// Thread safety: one thread.   Errors: one line on stderr; the script stays beside the picture, FILE.gp, to
//                be run by hand.
#pragma once

#include <string>
#include <vector>

namespace nova {

struct PlotRow {
  std::string label;           // of a group of bars
  std::vector<double> values;  // one an engine
};
void PlotBars(const std::string& png, const std::string& title, const std::vector<std::string>& engines,
              const std::vector<PlotRow>& rows);

}  // namespace nova
