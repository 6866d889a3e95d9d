// FiberContext: a place on a stack of its own at which a thread goes on, and back: what the fibers of a
// Simulation are switched with. A seed of the chaos switches very often, and swapcontext makes a system call
// each time, for a signal mask that no fiber has of its own.
//
// Thread safety: none; a context is switched to by the thread that switched away from it, or made it.
// Ownership:     the stack is the caller's, for as long as the context may be switched to.
#pragma once

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace nova {

struct FiberContext {
#ifdef __x86_64__
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

// The first switch to it begins `entry`, which never returns.
void MakeFiberContext(FiberContext* context, char* stack, size_t stack_bytes, void (*entry)());
// The caller goes on when somebody switches to `from`.
void SwitchFiberContext(FiberContext* from, FiberContext* to);

}  // namespace nova
