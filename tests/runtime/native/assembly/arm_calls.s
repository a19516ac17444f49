@ Ways to call abs, which another library defines, and functions of the other instruction set. Every
@ call stores its result behind those before.
  .syntax unified
  .arch armv7-a
  .text
  .arm
  .global entry
  .type entry, %function
entry:
  push {r4, r5, r6, lr}
  ldr r4, [r0]
  mvn r0, #4
  bl abs
  str r0, [r4], #4
  mvn r0, #5
  bl arm_jump
  str r0, [r4], #4
  mvn r0, #6
  bl thumb_call
  str r0, [r4], #4
  mvn r0, #7
  bl thumb_jump
  str r0, [r4], #4
  ldr r1, =pointer
  ldr r1, [r1]
  mvn r0, #8
  blx r1
  str r0, [r4], #4
  ldr r1, offset
here:
  ldr r1, [pc, r1]
  mvn r0, #9
  blx r1
  str r0, [r4], #4
  movw r1, #:lower16:abs
  movt r1, #:upper16:abs
  mvn r0, #10
  blx r1
  str r0, [r4], #4
  mvn r0, #11
  bl to_thumb
  str r0, [r4], #4
  mvn r0, #12
  bl thumb_condition
  str r0, [r4], #4
  mov r0, #0
  pop {r4, r5, r6, pc}
offset:
  .word abs(GOT_PREL) + (. - here - 8)
  .ltorg

  .global arm_jump
  .type arm_jump, %function
arm_jump:
  cmp r0, #0
  bxge lr
  b abs

  .section .text.to, "ax"
  .arm
  .global to_thumb
  .type to_thumb, %function
to_thumb:
  b thumb_jump

  .section .text.thumb, "ax"
  .thumb
  .global thumb_call
  .type thumb_call, %function
  .thumb_func
thumb_call:
  push {r4, lr}
  nop
  bl abs
  pop {r4, pc}
  .global thumb_jump
  .type thumb_jump, %function
  .thumb_func
thumb_jump:
  b.w abs
  .global thumb_condition
  .type thumb_condition, %function
  .thumb_func
thumb_condition:
  cmp r0, #0
  blt.w arm_jump
  bx lr

  .data
pointer:
  .word abs
