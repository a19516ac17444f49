// Ways to call abs, which another library defines. Every call stores its result behind those before.
  .text
  .global entry
entry:
  stp x19, x30, [sp, -16]!
  ldr x19, [x0]
  mov w0, -5
  bl abs
  str w0, [x19], 4
  mov w0, -6
  bl jump
  str w0, [x19], 4
  adrp x1, pointer
  ldr x1, [x1, :lo12:pointer]
  mov w0, -7
  blr x1
  str w0, [x19], 4
  adrp x1, :got:abs
  ldr x1, [x1, :got_lo12:abs]
  mov w0, -8
  blr x1
  str w0, [x19], 4
  adrp x1, abs
  add x1, x1, :lo12:abs
  mov w0, -9
  blr x1
  str w0, [x19], 4
  movz x1, :abs_g3:abs
  movk x1, :abs_g2_nc:abs
  movk x1, :abs_g1_nc:abs
  movk x1, :abs_g0_nc:abs
  mov w0, -10
  blr x1
  str w0, [x19], 4
  mov w0, -11
  bl condition
  str w0, [x19], 4
  ldr x1, :got:abs
  mov w0, -12
  blr x1
  str w0, [x19], 4
  adrp x1, :got:value
  ldr x1, [x1, :got_lo12:value]
  ldr w0, [x1]
  str w0, [x19], 4
  mov w0, 0
  ldp x19, x30, [sp], 16
  ret
jump:
  b abs
condition:
  tbnz w0, 31, abs
  ret

  .data
  .balign 8
pointer:
  .xword abs
  .global value
value:
  .word 13
