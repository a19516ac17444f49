@ Every relocation of Arm and Thumb code and data that reaches symbols of the object itself.
  .syntax unified
  .arch armv7-a
  .text
  .arm
  .global entry
  .type entry, %function
entry:
  .reloc ., R_ARM_NONE, table
  bl arm_function
  bl arm_function + 8
  bl thumb_function
  b arm_function
  beq arm_function
  blne arm_function
  movw r0, #:lower16:(table + 4)
  movt r0, #:upper16:(table + 4)
  movw r1, #:lower16:(table - .)
  movt r1, #:upper16:(table - .)
  movw r2, #:lower16:thumb_function
  movt r2, #:upper16:thumb_function
  bx lr

  .section .text.thumb, "ax"
  .thumb
  .global thumb_function
  .type thumb_function, %function
  .thumb_func
thumb_function:
  bl entry
  nop
  bl entry
  bl other_thumb
  b.w other_thumb
  bcs.w other_thumb
  movw r0, #:lower16:(table + 2)
  movt r0, #:upper16:(table + 2)
  movw r1, #:lower16:(table - .)
  movt r1, #:upper16:(table - .)
  bx lr

  .section .text.arm, "ax"
  .arm
  .global arm_function
  .type arm_function, %function
arm_function:
  mov pc, lr
  .reloc ., R_ARM_V4BX, table
  bx r3

  .section .text.other, "ax"
  .thumb
  .global other_thumb
  .type other_thumb, %function
  .thumb_func
other_thumb:
  bx lr

  .section .rodata, "a"
  .word thumb_function, arm_function, table + 12
  .word entry(target1), thumb_function(target1)
  .word table - ., thumb_function - .
words:
  .word 0x80000000, 0x80000008, 0x7ffffffc
  .reloc words, R_ARM_PREL31, thumb_function
  .reloc words + 4, R_ARM_PREL31, arm_function
  .reloc words + 8, R_ARM_PREL31, table

  .data
  .word 1, 2, 3
  .global table
table:
  .word 4, 5, outside_data, outside_data + 4
