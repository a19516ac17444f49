// Every relocation of code and data that reaches symbols of the object itself.
  .text
  .global entry
entry:
  .reloc ., R_AARCH64_NONE, table
  bl function
  b function
  cbz x0, function
  b.ne function
  tbnz x0, 3, function
  adr x0, table + 5
  adrp x1, table + 8192
  add x1, x1, :lo12:table + 8192
  ldr x0, table
  ldrb w0, [x1, :lo12:table + 1]
  ldrh w0, [x1, :lo12:table + 2]
  ldr w0, [x1, :lo12:table + 4]
  ldr x0, [x1, :lo12:table + 8]
  ldr q0, [x1, :lo12:table + 16]
  str q1, [x1, :lo12:table]
  movz x2, :abs_g3:table
  movk x2, :abs_g2_nc:table
  movk x2, :abs_g1_nc:table
  movk x2, :abs_g0_nc:table
  movz x3, :abs_g2:table
  movz w4, :abs_g0:outside_small
  movz w4, :abs_g1:outside_small
  ret

  .section .text.other, "ax"
  .global function
function:
  ret

  .section .rodata, "a"
  .balign 8
  .xword table, function + 4
  .xword table - .
  .word table - ., function - . + 12, outside_small
  .hword outside_small, table - .

  .data
  .balign 16
  .xword 1, 2
  .global table
table:
  .xword 3, 4, outside_data, outside_data + 8
