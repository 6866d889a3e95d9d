// What the kernel counts of this process, as /proc says it.
//
// Thread safety: all.   Errors: a count that this kernel does not keep ends the program with one line.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace nova {

double CpuSeconds();            // of all threads, those that have ended included
uint64_t DeviceReadBytes();     // read from disks for this process, page faults and reading ahead included
uint64_t DeviceWrittenBytes();  // pages of files that it made dirty, and will be written
uint64_t DeviceReadBytesOf(pid_t thread);
pid_t CurrentThread();
uint64_t PeakResidentBytes();  // mapped files included
uint64_t AnonymousBytes();     // resident, of no file

}  // namespace nova
