#include "common/base/program.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "common/base/exit.h"
#include "common/base/failpoint.h"
#include "common/base/glog_output.h"
#include "common/base/log.h"

namespace nova {

namespace {

// What sd_notify does, for units of Type=notify. Nobody listens: nothing.
void TellServiceManager(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@') || std::strlen(path) >= sizeof(to.sun_path))
    return;
  to.sun_family = AF_UNIX;
  std::strcpy(to.sun_path, path);
  if (path[0] == '@') to.sun_path[0] = '\0';  // the abstract namespace
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  if (sendto(fd, state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&to), size) < 0) {
    NOVA_LOG(WARNING) << "the service manager at " << path << " was not told: " << strerror(errno);
  }
  close(fd);
}

// How often the service manager wants to hear of this process, at least; 0: it does not.
Nanos WatchedWithin() {
  const char* const usec = std::getenv("WATCHDOG_USEC");
  const char* const pid = std::getenv("WATCHDOG_PID");  // for whom that is meant
  int64_t us = 0;
  if (usec == nullptr || !absl::SimpleAtoi(usec, &us) || us <= 0) return 0;
  if (pid != nullptr && pid != std::to_string(getpid())) return 0;
  return us * kMicrosecond;
}

// A login's soft limit is 1024, for programs that select(2). A StoC has a descriptor for each log that is
// written, a node one for each connection.
void OpenAsManyFilesAsAllowed() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

Program::Program(const char* path, std::string title)
    : title_(std::move(title)), text_([] { return std::string("starting"); }) {
  sigemptyset(&stop_);
  sigaddset(&stop_, SIGTERM);
  sigaddset(&stop_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop_, nullptr);
  signal(SIGPIPE, SIG_IGN);
  OpenAsManyFilesAsAllowed();
  InstallGlog(path);
  if (const Status s = ArmFailPointsFromEnv(); !s.ok())
    ExitWithError(StrCat("$NOVA_FAILPOINTS: ", s.message()));
}

void Program::ServePages(const std::string& address) {
  auto pages = HttpServer::Start(
      address, {{"/", {"text/html; charset=utf-8", [this] { return Page(); }}},
                {"/metrics", {"text/plain; version=0.0.4", [this] { return metrics_.PrometheusText(); }}}});
  if (!pages.ok()) ExitWithError(std::string(pages.status().message()));
  pages_ = *std::move(pages);
}

std::string Program::Page() {
  std::string text;
  {
    MutexLock lock(&mu_);
    text = text_();
  }
  return StrCat(
      "<!doctype html><html><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\"><title>",
      title_, "</title></head><body><pre>",
      absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}),
      "</pre><p><a href=\"/metrics\">metrics</a></p></body></html>\n");
}

void Program::SetPage(std::function<std::string()> text) {
  MutexLock lock(&mu_);
  text_ = std::move(text);
}

void Program::StopPages() {
  end_watch_.Notify();
  watch_ = nullptr;
  pages_ = nullptr;
}

Program::~Program() { StopPages(); }

void Program::Ready(const std::string& name, const std::string& address) {
  std::printf("ready %s %s %s\n", name.c_str(), address.c_str(), pages_->address().c_str());
  std::fflush(stdout);
  TellServiceManager("READY=1");
}

void Program::BeWatched(std::function<bool()> is_well) {
  const Nanos within = WatchedWithin();
  if (within == 0) return;
  watch_ = std::make_unique<Thread>("watchdog", [this, period = within / 3, is_well = std::move(is_well)] {
    while (!end_watch_.WaitUntil(Now() + period)) {
      if (is_well()) TellServiceManager("WATCHDOG=1");
    }
  });
}

bool Program::WaitForSignal(Nanos deadline_ns) {
  for (;;) {
    int received;
    if (deadline_ns == kNever) {
      received = sigwaitinfo(&stop_, nullptr);
    } else {
      const Nanos left = std::max<Nanos>(0, deadline_ns - Now());
      const timespec wait{left / kSecond, left % kSecond};
      received = sigtimedwait(&stop_, nullptr, &wait);
      if (received < 0 && errno == EAGAIN) return false;
    }
    if (received < 0) continue;  // interrupted
    NOVA_LOG(INFO) << title_ << " stops (signal " << received << ")";
    TellServiceManager("STOPPING=1");
    return true;
  }
}

bool Program::WaitForSignalOr(const Notification& end) {
  while (!end.WaitUntil(0)) {
    if (WaitForSignal(Now() + kSecond / 2)) return true;
  }
  return false;
}

}  // namespace nova
