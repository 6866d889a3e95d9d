#include "common/base/simulation.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/queue.h"
#include "common/base/thread.h"

namespace nova {
namespace {

double ProcessSeconds() {
  timespec ts;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) * 1e-9;
}

// Four threads contend for a mutex, a queue and time; every step is traced.
uint64_t ContendedRun(uint64_t seed, uint64_t* lines) {
  Simulation sim(seed);
  sim.Run([&sim] {
    Mutex mu;
    int shared = 0;
    BoundedQueue<int> queue(4);
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(std::make_unique<Thread>("worker." + std::to_string(t), [&, t] {
        Random random;
        for (int i = 0; i < 1300; ++i) {
          {
            MutexLock lock(&mu);
            sim.Trace(std::to_string(t) + " holds " + std::to_string(++shared));
          }
          if (random.OneIn(3)) SleepFor(static_cast<Nanos>(random.Uniform(kMillisecond)));
          if (t == 0) {
            while (!queue.TryPush(i)) SleepFor(kMicrosecond);
          } else if (t == 1) {
            sim.Trace("popped " + std::to_string(*queue.Pop()));
          } else {
            sim.Trace("free");
          }
        }
      }));
    }
  });
  *lines = sim.trace_lines();
  return sim.trace_hash();
}

TEST(SimulationTest, SameSeedGivesTheSameTraceInTwoProcesses) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  uint64_t lines = 0;
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t h = ContendedRun(301, &lines);
    _exit(write(pipe_fds[1], &h, sizeof(h)) == sizeof(h) ? 0 : 1);
  }
  const uint64_t mine = ContendedRun(301, &lines);
  uint64_t theirs = 0;
  ASSERT_EQ(read(pipe_fds[0], &theirs, sizeof(theirs)), static_cast<ssize_t>(sizeof(theirs)));
  int status;
  waitpid(child, &status, 0);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  EXPECT_EQ(mine, theirs);
  EXPECT_GE(lines, 9'000u);
  uint64_t other_lines;
  EXPECT_NE(ContendedRun(302, &other_lines), mine) << "the seed must matter";
}

TEST(SimulationTest, TenVirtualMinutesPassInUnderASecond) {
  const double before = ProcessSeconds();
  Simulation sim(1);
  Nanos slept = 0;
  sim.Run([&] {
    const Nanos start = Now();
    for (int i = 0; i < 600; ++i) SleepFor(kSecond);
    slept = Now() - start;
  });
  EXPECT_EQ(slept, 600 * kSecond);
  EXPECT_LT(ProcessSeconds() - before, 1.0);
}

TEST(SimulationTest, CondVarTimesOutInVirtualTimeAndWakesOnSignal) {
  Simulation sim(7);
  sim.Run([] {
    Mutex mu;
    CondVar cv;
    bool ready = false;
    {
      MutexLock lock(&mu);
      const Nanos start = Now();
      EXPECT_FALSE(cv.WaitUntil(&mu, start + 5 * kSecond));
      EXPECT_EQ(Now() - start, 5 * kSecond);
    }
    Thread t("signaller", [&] {
      SleepFor(kSecond);
      MutexLock lock(&mu);
      ready = true;
      cv.Signal();
    });
    MutexLock lock(&mu);
    while (!ready) EXPECT_TRUE(cv.WaitUntil(&mu, Now() + 2 * kSecond));
  });
}

TEST(SimulationTest, MutexExcludesOverYieldPoints) {
  Simulation sim(11);
  sim.Run([] {
    Mutex mu;
    int inside = 0;
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 3; ++t) {
      threads.push_back(std::make_unique<Thread>("t", [&] {
        for (int i = 0; i < 100; ++i) {
          MutexLock lock(&mu);
          ASSERT_EQ(++inside, 1);
          SleepFor(kMicrosecond);
          --inside;
        }
      }));
    }
  });
}

TEST(SimulationDeathTest, DeadlockIsReported) {
  EXPECT_DEATH(
      {
        Simulation sim(1);
        sim.Run([] {
          Notification never;
          never.Wait();
        });
      },
      "simulation deadlock");
}

TEST(ThreadTest, ProductionPrimitivesWorkAcrossThreads) {
  BoundedQueue<int> queue(2);
  int sum = 0;
  Thread consumer("consumer", [&] {
    while (auto v = queue.Pop()) sum += *v;
  });
  for (int i = 1; i <= 100; ++i) {
    while (!queue.TryPush(i)) SleepFor(10 * kMicrosecond);
  }
  queue.Close();
  consumer.Join();
  EXPECT_EQ(sum, 5050);
  Notification n;
  EXPECT_FALSE(n.WaitUntil(Now() + kMillisecond));
  n.Notify();
  EXPECT_TRUE(n.WaitUntil(Now() + kMillisecond));
}

// What a host's fibers spawn is the host's too. Its clock, and what waits by it, run at its rate; everybody
// else's time is true.
TEST(SimulationTest, AHostsClockRunsAtItsOwnRate) {
  Simulation sim(1);
  sim.Run([&sim] {
    const Simulation::Host fast{"fast", 1.01};
    sim.set_host(&fast);
    Thread thread("parent", [&] {
      Thread child("child", [&] {
        EXPECT_EQ(sim.host(), &fast);
        const Nanos true_begin = sim.now(), begin = Now();
        SleepFor(101 * kSecond);
        EXPECT_GE(Now(), begin + 101 * kSecond);
        EXPECT_NEAR(static_cast<double>(sim.now() - true_begin), 100.0 * kSecond, kMicrosecond);
        Mutex mu;
        CondVar never;
        MutexLock lock(&mu);
        const Nanos deadline = Now() + kSecond;
        EXPECT_FALSE(never.WaitUntil(&mu, deadline));
        EXPECT_GE(Now(), deadline);
      });
    });
    sim.set_host(nullptr);
    EXPECT_EQ(Now(), sim.now());
    SleepFor(kSecond);
    EXPECT_EQ(Now(), sim.now());
  });
}

}  // namespace
}  // namespace nova
