# Ways to call abs, which another library defines. Every call stores its result behind those before.
  .text
  .global entry
entry:
  push %rbx
  mov (%rdi), %rbx
  mov $-5, %edi
  call abs
  mov %eax, (%rbx)
  mov $-6, %edi
  call jump
  mov %eax, 4(%rbx)
  mov $-7, %edi
  call *pointer(%rip)
  mov %eax, 8(%rbx)
  mov $-8, %edi
  mov abs@GOTPCREL(%rip), %rax
  call *%rax
  mov %eax, 12(%rbx)
  mov $-9, %edi
  call *abs@GOTPCREL(%rip)
  mov %eax, 16(%rbx)
  mov $-10, %edi
  lea abs(%rip), %rax
  call *%rax
  mov %eax, 20(%rbx)
  mov $-11, %edi
  push abs@GOTPCREL(%rip)
  pop %rax
  call *%rax
  mov %eax, 24(%rbx)
  mov $-12, %edi
  movabs $abs, %rax
  call *%rax
  mov %eax, 28(%rbx)
  mov value@GOTPCREL(%rip), %rax
  mov (%rax), %eax
  mov %eax, 32(%rbx)
  xor %eax, %eax
  pop %rbx
  ret
jump:
  jmp abs@PLT

  .data
  .balign 8
pointer:
  .quad abs
  .global value
value:
  .long 13
