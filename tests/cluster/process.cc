#include "tests/cluster/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace nova {

StatusOr<std::unique_ptr<Process>> Process::Start(const std::vector<std::string>& argv,
                                                  const std::string& stderr_file) {
  if (access(argv[0].c_str(), X_OK) != 0) return absl::NotFoundError(StrCat("no program ", argv[0]));
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::InternalError("no pipe");
  const int err =
      stderr_file.empty() ? -1 : open(stderr_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out[1], STDOUT_FILENO);
    if (err >= 0) dup2(err, STDERR_FILENO);
    execv(args[0], args.data());
    _exit(127);
  }
  close(out[1]);
  if (err >= 0) close(err);
  if (pid < 0) {
    close(out[0]);
    return absl::InternalError("fork failed");
  }
  return std::unique_ptr<Process>(new Process(pid, out[0]));
}

Process::~Process() {
  Kill();
  close(out_);
}

StatusOr<std::string> Process::ReadLine(Nanos deadline_ns) {
  while (true) {
    const size_t end = buffered_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    const Nanos left = deadline_ns - Now();
    if (left <= 0) return absl::DeadlineExceededError("it says nothing");
    pollfd wait{out_, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(std::min<Nanos>(left / kMillisecond + 1, 1000))) <= 0) continue;
    char bytes[4096];
    const ssize_t n = read(out_, bytes, sizeof(bytes));
    if (n == 0) return absl::OutOfRangeError("it closed its output");
    if (n > 0) buffered_.append(bytes, static_cast<size_t>(n));
  }
}

void Process::Signal(int signal) {
  if (pid_ <= 0) return;
  kill(pid_, signal);
  siginfo_t unused;  // on a busy machine the signal is taken milliseconds later
  if (signal == SIGSTOP) waitid(P_PID, static_cast<id_t>(pid_), &unused, WSTOPPED | WEXITED | WNOWAIT);
}

void Process::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  exit_code_ = 128 + SIGKILL;
  pid_ = -1;
}

StatusOr<int> Process::Wait(Nanos deadline_ns) {
  while (pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      break;
    }
    if (Now() >= deadline_ns) return absl::DeadlineExceededError("it goes on");
    SleepFor(5 * kMillisecond);
  }
  return exit_code_;
}

namespace {

std::string Quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

int RunToEnd(const std::vector<std::string>& argv, std::string* output, const std::string& stdin_file) {
  std::string command;
  for (const std::string& a : argv) command += Quoted(a) + " ";
  FILE* pipe = popen(StrCat(command, "<", Quoted(stdin_file), " 2>&1").c_str(), "r");
  output->clear();
  std::array<char, 4096> piece;
  for (size_t n; (n = fread(piece.data(), 1, piece.size(), pipe)) > 0;) output->append(piece.data(), n);
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace nova
