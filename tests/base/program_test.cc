#include "common/base/program.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace nova {
namespace {

TEST(ProgramTest, TellsItsServiceManagerThatItIsReady) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const std::string name = StrCat("@nova-program-test-", getpid());
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, name.data() + 1, name.size() - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
            0);
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  Program program("nova_test", "test");
  program.ServePages("127.0.0.1:0");
  program.Ready("node", "127.0.0.1:1");
  unsetenv("NOTIFY_SOCKET");
  char text[64] = "";
  ASSERT_GT(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT), 0);
  EXPECT_STREQ(text, "READY=1");
  close(fd);
  program.StopPages();
}

}  // namespace
}  // namespace nova
