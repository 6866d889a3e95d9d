#include "experiments/peers/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "common/base/exit.h"
#include "common/base/status.h"
#include "experiments/peers/store.h"

namespace nova {
namespace {

struct Child {
  pid_t pid = -1;
  int from = -1;  // what it writes
};

void WriteAll(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(to, text.data(), text.size());
    if (n <= 0) Fail("a child cannot tell its results");
    text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string ReadAll(int from) {
  std::string text;
  std::array<char, 65536> piece;
  for (ssize_t n; (n = read(from, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<size_t>(n));
  return text;
}

// `body` gets where to write, and returns when the child is to end.
Child Start(const std::function<void(int to)>& body) {
  std::fflush(nullptr);
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) Fail("no pipe can be made");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) Fail("no process can be made");
  if (pid > 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  close(ends[0]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitBadInput);  // it ended before it could be heard of
  body(ends[1]);
  std::fflush(nullptr);
  _exit(0);
}

int Reap(Child child) {
  close(child.from);
  int status = 0;
  if (waitpid(child.pid, &status, 0) != child.pid) Fail("a child is lost");
  return status;
}

void CheckEnded(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFEXITED(status)) _exit(kExitBadInput);
  ExitWithError(StrCat("a run was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                       "); a control group kills so what needs more memory than it has"));
}

}  // namespace

std::string TextInChild(const std::function<std::string()>& body) {
  const Child child = Start([&](int to) { WriteAll(to, body()); });
  std::string text = ReadAll(child.from);
  CheckEnded(Reap(child));
  return text;
}

Report ReportInChild(const std::function<Report()>& body) {
  std::istringstream in(TextInChild([&] {
    const Report report = body();
    std::ostringstream out;
    out.precision(17);
    for (const Figure& f : report.figures) out << f.name << '\t' << f.unit << '\t' << f.value << '\n';
    out << '\n';
    for (const uint64_t n : report.per_100_ms) out << n << ' ';
    return out.str();
  }));
  Report report;
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const size_t unit = line.find('\t'), value = line.find('\t', unit + 1);
    report.Add(line.substr(0, unit), line.substr(unit + 1, value - unit - 1),
               std::stod(line.substr(value + 1)));
  }
  for (uint64_t n; in >> n;) report.per_100_ms.push_back(n);
  return report;
}

void RunInChild(const std::function<void()>& body) {
  TextInChild([&] {
    body();
    return std::string();
  });
}

void RunUntilKilled(const std::function<void()>& body) {
  const int status = Reap(Start([&](int) { body(); }));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return;
  CheckEnded(status);
  Fail("a run that was to kill its process returned");
}

pid_t StartHolder(const std::function<std::string()>& hold, std::string* error) {
  const Child child = Start([&](int to) {
    const std::string failed = hold();
    WriteAll(to, failed);
    close(to);
    while (failed.empty()) pause();
  });
  *error = ReadAll(child.from);
  if (!error->empty()) {
    Reap(child);
    return -1;
  }
  close(child.from);
  return child.pid;
}

void EndHolder(pid_t holder) {
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
}

}  // namespace nova
