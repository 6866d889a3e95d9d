#include "experiments/peers/plot.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace nova {
namespace {

bool RunGnuplot(const std::string& script) {
  std::string program = "gnuplot", argument = script;
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t pid;
  if (posix_spawnp(&pid, "gnuplot", nullptr, nullptr, argv, environ) != 0) return false;
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

void PlotBars(const std::string& png, const std::string& title, const std::vector<std::string>& engines,
              const std::vector<PlotRow>& rows) {
  const std::string script = png + ".gp";
  std::ofstream out(script);
  out << "set terminal pngcairo size " << 300 + 170 * rows.size() << ",600\nset output '" << png
      << "'\nset title '" << title << "'\n"
      << "set style data histograms\nset style fill solid 0.8 border -1\nset boxwidth 0.9\nset grid "
         "ytics\nset ylabel 'thousand operations/s'\n"
      << "set yrange [0:*]\nset key outside\n$table << END\ncell";
  for (const std::string& e : engines) out << " \"" << e << '"';
  for (const PlotRow& row : rows) {
    out << "\n\"" << row.label << '"';
    for (const double v : row.values) out << ' ' << v;
  }
  out << "\nEND\nplot for [i=2:" << engines.size() + 1 << "] $table using i:xtic(1) title columnheader(i)\n";
  out.close();
  if (!out || !RunGnuplot(script)) {
    std::fprintf(stderr, "no picture %s: gnuplot failed or is missing; its script is %s\n", png.c_str(),
                 script.c_str());
    return;
  }
  std::remove(script.c_str());
}

}  // namespace nova
