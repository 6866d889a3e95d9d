#include "common/base/program.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace nova {
namespace {

// Hears what programs say to $NOTIFY_SOCKET.
class ServiceManager {
 public:
  ServiceManager() : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const std::string name = StrCat("@nova-program-test-", getpid());
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name.data() + 1, name.size() - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), size), 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~ServiceManager() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  std::string Next() { return Receive(0); }                // waits
  std::string NextNow() { return Receive(MSG_DONTWAIT); }  // empty: there is none
  void Drain() {
    while (!NextNow().empty()) {
    }
  }
  int Waiting() {
    int n = 0;
    while (!NextNow().empty()) ++n;
    return n;
  }

 private:
  std::string Receive(int flags) {
    char text[64];
    const ssize_t n = recv(fd_, text, sizeof(text), flags);
    return std::string(text, n < 0 ? 0 : static_cast<size_t>(n));
  }
  const int fd_;
};

TEST(ProgramTest, TellsItsServiceManagerThatItIsReady) {
  ServiceManager manager;
  Program program("nova_test", "test");
  program.ServePages("127.0.0.1:0");
  program.Ready("node", "127.0.0.1:1");
  EXPECT_EQ(manager.NextNow(), "READY=1");
}

// Whoever is told that a service is well whatever it says would never restart one that hangs.
TEST(ProgramTest, ItsServiceManagerHearsThatItIsWellAsLongAsItIs) {
  ServiceManager manager;
  setenv("WATCHDOG_USEC", "30000", 1);
  Program program("nova_test", "test");
  program.ServePages("127.0.0.1:0");
  std::atomic<bool> well{true};
  std::atomic<int> asked{0};
  program.BeWatched([&] {
    ++asked;
    return well.load();
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  well = false;
  for (const int so_far = asked; asked < so_far + 2;) SleepFor(kMillisecond);  // what was under way is over
  manager.Drain();
  for (const int so_far = asked; asked < so_far + 3;) SleepFor(kMillisecond);
  EXPECT_EQ(manager.Waiting(), 0);
  well = true;
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  program.StopPages();
  const int so_far = asked;
  SleepFor(50 * kMillisecond);
  EXPECT_EQ(asked, so_far) << "it was asked after StopPages";
  unsetenv("WATCHDOG_USEC");
}

TEST(ProgramTest, NobodyAsksWhetherItIsWellWhereNobodyWatchesOrAnotherProcessIsWatched) {
  ServiceManager manager;
  for (const bool of_another : {false, true}) {
    if (of_another) {
      setenv("WATCHDOG_USEC", "3000", 1);
      setenv("WATCHDOG_PID", "1", 1);
    }
    Program program("nova_test", "test");
    program.ServePages("127.0.0.1:0");
    program.BeWatched([]() -> bool {
      ADD_FAILURE() << "it was asked";
      return true;
    });
    SleepFor(20 * kMillisecond);
  }
  EXPECT_EQ(manager.Waiting(), 0);
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
}

}  // namespace
}  // namespace nova
