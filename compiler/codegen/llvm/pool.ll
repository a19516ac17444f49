; SPDX-License-Identifier: Apache-2.0
; The thread pool of parallel loops, on pthreads. pool.py prepends what depends on the target: the
; type %word (size_t) and @pause.
;
; One parallel region runs at a time. Its word of `slots` counts participants: the low half the
; workers that may still join, the high half those that have joined. The caller opens a region by
; writing this word and closes it by removing the free slots; it then waits only for workers that
; have joined, so a worker that wakes up late costs nothing. Chunks of the loop are handed out by a
; counter. A caller that finds the pool busy (a nested loop, or another thread of the program) runs
; its loop alone. After a fork the state belongs to the parent process, which `process` shows, and is
; initialised again.
;
; All definitions are weak: any number of objects link into one program and share one pool.

%pool = type {
  i32,        ;  0 process: whose workers these are; 0 before first use, -1 during initialisation
  i32,        ;  1 busy: a region is running
  i32,        ;  2 limit: set by vdla_set_threads; 0 for the default
  i32,        ;  3 workers: the number of threads started
  i32,        ;  4 region: the number of regions so far
  i32,        ;  5 slots
  i32,        ;  6 sleeping: the number of workers that sleep until the next region
  i32,        ;  7 waiting: the caller sleeps until all workers have left
  i32,        ;  8 next: the next chunk to hand out
  i32,        ;  9 chunks: their number
  i64,        ; 10 length of a chunk
  i64,        ; 11 extent of the loop
  ptr,        ; 12 body
  ptr,        ; 13 closure
  [8 x i64],  ; 14 mutex; as large as any C library's, and all zeros initialise it
  [8 x i64],  ; 15 condition variable: a region was opened
  [8 x i64],  ; 16 condition variable: the last worker has left
  i32,        ; 17 spins: how often to poll before sleeping; 0 if threads outnumber processors
  i32         ; 18 default: the number of threads without a limit; 0 if not yet known
}

@vdla_pool = weak_odr hidden global %pool zeroinitializer, align 64
@vdla_pool_variable = private constant [13 x i8] c"VDLA_THREADS\00"

declare i32 @getpid() nounwind
declare ptr @getenv(ptr) nounwind
declare i64 @strtoll(ptr, ptr, i32) nounwind
declare i32 @sched_getaffinity(i32, %word, ptr) nounwind
declare i32 @pthread_create(ptr, ptr, ptr, ptr) nounwind
declare i32 @pthread_detach(%word) nounwind
declare i32 @pthread_mutex_lock(ptr) nounwind
declare i32 @pthread_mutex_unlock(ptr) nounwind
declare i32 @pthread_cond_wait(ptr, ptr) nounwind
declare i32 @pthread_cond_broadcast(ptr) nounwind
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; --- number of threads ----------------------------------------------------------------------------

; The number of processors in this process's affinity mask.
define linkonce_odr hidden i32 @vdla_pool_processors() noinline nounwind {
entry:
  %mask = alloca [16 x i64], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %size = zext i8 128 to %word
  %unused = call i32 @sched_getaffinity(i32 0, %word %size, ptr %mask)
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %place = getelementptr inbounds [16 x i64], ptr %mask, i64 0, i64 %i
  %bits = load i64, ptr %place, align 8
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum.next = add i64 %sum, %ones
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 16
  br i1 %more, label %loop, label %done

done:
  %count = trunc i64 %sum.next to i32
  %least = call i32 @llvm.smax.i32(i32 %count, i32 1)
  ret i32 %least
}

; VDLA_THREADS, limited to 256, if it is a positive number; else the number of processors.
define linkonce_odr hidden i32 @vdla_pool_default() noinline nounwind {
entry:
  %text = call ptr @getenv(ptr @vdla_pool_variable)
  %set = icmp ne ptr %text, null
  br i1 %set, label %read, label %count

read:
  %number = call i64 @strtoll(ptr %text, ptr null, i32 10)
  %sound = icmp sgt i64 %number, 0
  br i1 %sound, label %bound, label %count

bound:
  %limited = call i64 @llvm.umin.i64(i64 %number, i64 256)
  %narrow = trunc i64 %limited to i32
  ret i32 %narrow

count:
  %processors = call i32 @vdla_pool_processors()
  %few = call i32 @llvm.smin.i32(i32 %processors, i32 256)
  ret i32 %few
}

define weak_odr i32 @vdla_threads() noinline nounwind {
entry:
  %limit.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 2
  %limit = load atomic i32, ptr %limit.place monotonic, align 4
  %limited = icmp ne i32 %limit, 0
  br i1 %limited, label %set, label %unset

set:
  ret i32 %limit

unset:
  %default.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 18
  %known = load atomic i32, ptr %default.place monotonic, align 4
  %is.known = icmp ne i32 %known, 0
  br i1 %is.known, label %old, label %ask

old:
  ret i32 %known

ask:
  %default = call i32 @vdla_pool_default()
  store atomic i32 %default, ptr %default.place monotonic, align 4
  ret i32 %default
}

define weak_odr void @vdla_set_threads(i32 %count) noinline nounwind {
  %least = call i32 @llvm.smax.i32(i32 %count, i32 0)
  %limit = call i32 @llvm.smin.i32(i32 %least, i32 256)
  %limit.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 2
  store atomic i32 %limit, ptr %limit.place monotonic, align 4
  ret void
}

; --- workers --------------------------------------------------------------------------------------

; Runs chunks of the region until none is left.
define linkonce_odr hidden void @vdla_pool_work() noinline nounwind {
entry:
  %next.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 8
  %chunks = load i32, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 9), align 4
  %length = load i64, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 10), align 8
  %extent = load i64, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 11), align 8
  %body = load ptr, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 12), align 8
  %closure = load ptr, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 13), align 8
  br label %take

take:
  %chunk = atomicrmw add ptr %next.place, i32 1 monotonic, align 4
  %any = icmp ult i32 %chunk, %chunks
  br i1 %any, label %run, label %done

run:
  %wide = zext i32 %chunk to i64
  %begin = mul i64 %wide, %length
  %full = add i64 %begin, %length
  %end = call i64 @llvm.umin.i64(i64 %full, i64 %extent)
  call void %body(ptr %closure, i64 %begin, i64 %end) nounwind
  br label %take

done:
  ret void
}

; Joins the region if a slot is free, and leaves it when no chunk is left.
define linkonce_odr hidden void @vdla_pool_join() noinline nounwind {
entry:
  %slots.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 5
  %first = load atomic i32, ptr %slots.place monotonic, align 4
  br label %try

try:
  %slots = phi i32 [ %first, %entry ], [ %now, %again ]
  %free = and i32 %slots, 65535
  %full = icmp eq i32 %free, 0
  br i1 %full, label %done, label %enter

enter:
  %reduced = add i32 %slots, 65535
  %pair = cmpxchg ptr %slots.place, i32 %slots, i32 %reduced seq_cst seq_cst, align 4
  %now = extractvalue { i32, i1 } %pair, 0
  %joined = extractvalue { i32, i1 } %pair, 1
  br i1 %joined, label %work, label %again

again:
  br label %try

work:
  call void @vdla_pool_work()
  %before = atomicrmw sub ptr %slots.place, i32 65536 seq_cst, align 4
  %last = icmp eq i32 %before, 65536
  br i1 %last, label %look, label %done

look:
  %waiting.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 7
  %waiting = load atomic i32, ptr %waiting.place seq_cst, align 4
  %wake = icmp ne i32 %waiting, 0
  br i1 %wake, label %signal, label %done

signal:
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %left.cond = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 16
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %told = call i32 @pthread_cond_broadcast(ptr %left.cond)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; Polls a word briefly until it equals (or differs from) `value`; returns whether it did.
define linkonce_odr hidden i1 @vdla_pool_spin(ptr %place, i32 %value, i1 %equal) noinline nounwind {
entry:
  %spins.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 17
  %spins = load atomic i32, ptr %spins.place monotonic, align 4
  br label %look

look:
  %left = phi i32 [ %spins, %entry ], [ %fewer, %more ]
  %word = load atomic i32, ptr %place seq_cst, align 4
  %same = icmp eq i32 %word, %value
  %reached = icmp eq i1 %same, %equal
  br i1 %reached, label %done, label %wait

wait:
  %none = icmp sle i32 %left, 0
  br i1 %none, label %done, label %more

more:
  call void @pause()
  %fewer = sub i32 %left, 1
  br label %look

done:
  ret i1 %reached
}

; A worker thread: joins every region, and sleeps in between.
define linkonce_odr hidden ptr @vdla_pool_worker(ptr %start) noinline nounwind {
entry:
  %region.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 4
  %sleeping.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 6
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %open.cond = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 15
  br label %loop

loop:
  %seen = load atomic i32, ptr %region.place seq_cst, align 4
  call void @vdla_pool_join()
  %opened.soon = call i1 @vdla_pool_spin(ptr %region.place, i32 %seen, i1 false)
  br i1 %opened.soon, label %loop, label %sleep

sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %more = atomicrmw add ptr %sleeping.place, i32 1 seq_cst, align 4
  br label %check

check:
  %now = load atomic i32, ptr %region.place seq_cst, align 4
  %still = icmp eq i32 %now, %seen
  br i1 %still, label %wait, label %wake

wait:
  %woken = call i32 @pthread_cond_wait(ptr %open.cond, ptr %mutex)
  br label %check

wake:
  %less = atomicrmw sub ptr %sleeping.place, i32 1 seq_cst, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %loop
}

; --- the caller -----------------------------------------------------------------------------------

; Claims the pool if it is free, after initialising it in a new process; returns whether it did.
define linkonce_odr hidden i1 @vdla_pool_claim() noinline nounwind {
entry:
  %process.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 0
  %process = call i32 @getpid()
  %owner = load atomic i32, ptr %process.place acquire, align 4
  %ours = icmp eq i32 %owner, %process
  br i1 %ours, label %claim, label %foreign

foreign:
  %made = icmp eq i32 %owner, -1
  br i1 %made, label %busy, label %begin

begin:
  %pair = cmpxchg ptr %process.place, i32 %owner, i32 -1 acquire monotonic, align 4
  %begun = extractvalue { i32, i1 } %pair, 1
  br i1 %begun, label %clear, label %busy

clear:
  store i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 1), align 4
  store i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 3), align 4
  store i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 5), align 4
  store i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 6), align 4
  store i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 7), align 4
  call void @llvm.memset.p0.i64(ptr align 8 getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 14), i8 0, i64 192, i1 false)
  store atomic i32 %process, ptr %process.place release, align 4
  br label %claim

claim:
  %busy.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 1
  %was = cmpxchg ptr %busy.place, i32 0, i32 1 acquire monotonic, align 4
  %got = extractvalue { i32, i1 } %was, 1
  ret i1 %got

busy:
  ret i1 false
}

; Starts workers until there are `wanted`, or the system refuses; returns how many may join.
define linkonce_odr hidden i32 @vdla_pool_start(i32 %wanted) noinline nounwind {
entry:
  %thread = alloca %word, align 8
  %workers.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 3
  %spins.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 17
  %before = load i32, ptr %workers.place, align 4
  %enough = icmp sge i32 %before, %wanted
  br i1 %enough, label %done, label %measure

measure:
  %processors = call i32 @vdla_pool_processors()
  %crowded = icmp sge i32 %wanted, %processors
  %spins = select i1 %crowded, i32 0, i32 2000
  store atomic i32 %spins, ptr %spins.place monotonic, align 4
  br label %start

start:
  %count = phi i32 [ %before, %measure ], [ %one.more, %started ]
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @vdla_pool_worker, ptr null)
  %succeeded = icmp eq i32 %failed, 0
  br i1 %succeeded, label %started, label %keep

started:
  %handle = load %word, ptr %thread, align 8
  %detached = call i32 @pthread_detach(%word %handle)
  %one.more = add i32 %count, 1
  %more = icmp slt i32 %one.more, %wanted
  br i1 %more, label %start, label %keep

keep:
  %total = phi i32 [ %count, %start ], [ %one.more, %started ]
  store i32 %total, ptr %workers.place, align 4
  br label %done

done:
  %there = phi i32 [ %before, %entry ], [ %total, %keep ]
  %used = call i32 @llvm.smin.i32(i32 %there, i32 %wanted)
  ret i32 %used
}

; Describes the region: about eight chunks per thread, so a slow thread delays the end little.
define linkonce_odr hidden void @vdla_pool_describe(ptr %body, ptr %closure, i64 %extent, i32 %threads) noinline nounwind {
  %wide = zext i32 %threads to i64
  %many = mul i64 %wide, 8
  %even = udiv i64 %extent, %many
  %length = call i64 @llvm.umax.i64(i64 %even, i64 1)
  %less = sub i64 %length, 1
  %up = add i64 %extent, %less
  %chunks.wide = udiv i64 %up, %length
  %chunks = trunc i64 %chunks.wide to i32
  store atomic i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 8) monotonic, align 4
  store i32 %chunks, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 9), align 4
  store i64 %length, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 10), align 8
  store i64 %extent, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 11), align 8
  store ptr %body, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 12), align 8
  store ptr %closure, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 13), align 8
  ret void
}

; Opens the region and wakes sleeping workers.
define linkonce_odr hidden void @vdla_pool_open(i32 %workers) noinline nounwind {
entry:
  %slots.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 5
  %region.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 4
  %sleeping.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 6
  store atomic i32 %workers, ptr %slots.place seq_cst, align 4
  %region = atomicrmw add ptr %region.place, i32 1 seq_cst, align 4
  %sleeping = load atomic i32, ptr %sleeping.place seq_cst, align 4
  %some = icmp ne i32 %sleeping, 0
  br i1 %some, label %wake, label %done

wake:
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %open.cond = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 15
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %told = call i32 @pthread_cond_broadcast(ptr %open.cond)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; Closes the region and waits until the last worker has left.
define linkonce_odr hidden void @vdla_pool_close() noinline nounwind {
entry:
  %slots.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 5
  %before = atomicrmw and ptr %slots.place, i32 -65536 seq_cst, align 4
  %gone = call i1 @vdla_pool_spin(ptr %slots.place, i32 0, i1 true)
  br i1 %gone, label %done, label %sleep

sleep:
  %waiting.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 7
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %left.cond = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 16
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  ; An exchange, not a store: under QEMU's AArch64 the load below may pass a store, which would lose
  ; the wake-up.
  %announced = atomicrmw xchg ptr %waiting.place, i32 1 seq_cst, align 4
  br label %check

check:
  %left = load atomic i32, ptr %slots.place seq_cst, align 4
  %some = icmp ne i32 %left, 0
  br i1 %some, label %wait, label %wake

wait:
  %woken = call i32 @pthread_cond_wait(ptr %left.cond, ptr %mutex)
  br label %check

wake:
  store atomic i32 0, ptr %waiting.place seq_cst, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; Runs body(closure, begin, end) over [0, extent) in chunks, on up to vdla_threads() threads, this
; one included.
define weak_odr i32 @vdla_parallel(ptr %body, ptr %closure, i64 %extent) noinline nounwind {
entry:
  %several = icmp sgt i64 %extent, 1
  br i1 %several, label %limit, label %alone

limit:
  %threads = call i32 @vdla_threads()
  %others = sub i32 %threads, 1
  %any = icmp sgt i32 %others, 0
  br i1 %any, label %claim, label %alone

claim:
  %ours = call i1 @vdla_pool_claim()
  br i1 %ours, label %share, label %alone

share:
  %extent.less = sub i64 %extent, 1
  %others.wide = zext i32 %others to i64
  %useful = call i64 @llvm.umin.i64(i64 %extent.less, i64 %others.wide)
  %wanted = trunc i64 %useful to i32
  %workers = call i32 @vdla_pool_start(i32 %wanted)
  %all = add i32 %workers, 1
  call void @vdla_pool_describe(ptr %body, ptr %closure, i64 %extent, i32 %all)
  call void @vdla_pool_open(i32 %workers)
  call void @vdla_pool_work()
  call void @vdla_pool_close()
  store atomic i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 1) release, align 4
  ret i32 0

alone:
  call void %body(ptr %closure, i64 0, i64 %extent) nounwind
  ret i32 0
}
