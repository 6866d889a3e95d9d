#include "common/base/fiber_context.h"

#include <cstdint>

namespace nova {

#ifdef __x86_64__

namespace {

constexpr size_t kSavedRegisters = 6;

// What a function leaves as it found it (System V ABI) is kept on its stack; the masks of the floating point
// units nobody changes.
__attribute__((naked, noinline)) void Switch(void** /*keep*/, void* /*next*/) {
  asm("pushq %rbp\n\t"
      "pushq %rbx\n\t"
      "pushq %r12\n\t"
      "pushq %r13\n\t"
      "pushq %r14\n\t"
      "pushq %r15\n\t"
      "movq %rsp, (%rdi)\n\t"
      "movq %rsi, %rsp\n\t"
      "popq %r15\n\t"
      "popq %r14\n\t"
      "popq %r13\n\t"
      "popq %r12\n\t"
      "popq %rbx\n\t"
      "popq %rbp\n\t"
      "ret");
}

}  // namespace

// As a call would have left the stack: the address that `entry` would return to, that of `entry`, registers.
void MakeFiberContext(FiberContext* context, char* stack, size_t stack_bytes, void (*entry)()) {
  auto* top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack + stack_bytes) & ~uintptr_t{15});
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (size_t i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  context->stack_pointer = top;
}

void SwitchFiberContext(FiberContext* from, FiberContext* to) {
  Switch(&from->stack_pointer, to->stack_pointer);
}

#else

void MakeFiberContext(FiberContext* context, char* stack, size_t stack_bytes, void (*entry)()) {
  getcontext(&context->context);
  context->context.uc_stack.ss_sp = stack;
  context->context.uc_stack.ss_size = stack_bytes;
  context->context.uc_link = nullptr;
  makecontext(&context->context, entry, 0);
}

void SwitchFiberContext(FiberContext* from, FiberContext* to) { swapcontext(&from->context, &to->context); }

#endif

}  // namespace nova
