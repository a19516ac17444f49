# Every relocation of code and data that reaches symbols of the object itself.
  .text
  .global entry
entry:
  .reloc ., R_X86_64_NONE, table
  call function
  call function@PLT
  jmp function + 3
  lea table(%rip), %rax
  lea table + 100(%rip), %rax
  movabs $table, %rax
  ret

  .section .text.other, "ax"
  .global function
function:
  ret

  .section .rodata, "a"
  .balign 8
  .quad table, function + 4
  .quad table - .
  .long table - ., function - . + 12

  .data
  .balign 16
  .quad 1, 2
  .global table
table:
  .quad 3, 4, outside_data, outside_data + 8
