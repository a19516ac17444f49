; SPDX-License-Identifier: Apache-2.0
; Calls of kernels in a row, with the time after each.
;
; A table of 64-bit words: the clock's number, the count of calls, count + 1 times in nanoseconds,
; then an entry, its tensors and their number for each call. The first time is that of the start.
; The calls end at the first status other than 0, which is the result; the place of that call is
; then in the word of the first time.

declare i32 @clock_gettime(i32, ptr)

define internal i64 @now(i32 %clock) {
  %time = alloca [2 x i64], align 8
  %ignored = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %result = add i64 %whole, %rest
  ret i64 %result
}

define i32 @vdla_call_chain(ptr %table) {
entry:
  %clock_word = load i64, ptr %table
  %clock = trunc i64 %clock_word to i32
  %count_at = getelementptr i64, ptr %table, i64 1
  %count = load i64, ptr %count_at
  %times = getelementptr i64, ptr %table, i64 2
  %last_time = getelementptr i64, ptr %times, i64 %count
  %calls = getelementptr i64, ptr %last_time, i64 1
  %start = call i64 @now(i32 %clock)
  store i64 %start, ptr %times
  br label %step

step:
  %index = phi i64 [ 0, %entry ], [ %next, %passed ]
  %first_word = mul i64 %index, 3
  %function_at = getelementptr i64, ptr %calls, i64 %first_word
  %tensors_at = getelementptr i64, ptr %function_at, i64 1
  %number_at = getelementptr i64, ptr %function_at, i64 2
  %function = load ptr, ptr %function_at
  %tensors = load ptr, ptr %tensors_at
  %number_word = load i64, ptr %number_at
  %number = trunc i64 %number_word to i32
  %status = call i32 %function(ptr %tensors, i32 %number)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %passed, label %failed

passed:
  %next = add i64 %index, 1
  %time_at = getelementptr i64, ptr %times, i64 %next
  %time = call i64 @now(i32 %clock)
  store i64 %time, ptr %time_at
  %done = icmp eq i64 %next, %count
  br i1 %done, label %end, label %step

failed:
  store i64 %index, ptr %times
  ret i32 %status

end:
  ret i32 0
}
