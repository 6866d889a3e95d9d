#include "experiments/peers/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "common/base/status.h"
#include "experiments/peers/store.h"

namespace nova {
namespace {

// The number behind "name:" in a file of /proc.
uint64_t Field(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  uint64_t value = 0;
  for (std::string word; in >> word;) {
    if (word == name + ":" && in >> value) return value;
  }
  Fail(StrCat("this kernel does not say ", name, " in ", file));
}

constexpr uint64_t kUnit = 1024;  // of sizes in /proc/self/status

}  // namespace

double CpuSeconds() {
  rusage u;
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

uint64_t DeviceReadBytes() { return Field("/proc/self/io", "read_bytes"); }
uint64_t DeviceWrittenBytes() { return Field("/proc/self/io", "write_bytes"); }
uint64_t DeviceReadBytesOf(pid_t thread) {
  return Field(StrCat("/proc/self/task/", thread, "/io"), "read_bytes");
}
pid_t CurrentThread() { return gettid(); }
uint64_t PeakResidentBytes() { return Field("/proc/self/status", "VmHWM") * kUnit; }
uint64_t AnonymousBytes() { return Field("/proc/self/status", "RssAnon") * kUnit; }

}  // namespace nova
