; The thread pool on which parallel loops run, on pthreads; pool.py puts in front of it what depends on the machine:
; the type %word (size_t) and @pause.
;
; One region runs at a time. Its word of `seats` says who takes part: the low half is how many workers may still sit
; down, the high half how many sit. The caller opens a region by writing the word, closes it by taking the free seats
; away, and has to wait only for those that sat down: a worker that wakes late costs nothing. Pieces of the loop are
; handed out by a counter. Who finds the pool busy, be it a loop inside of a loop or another thread of the program, runs
; the loop alone. After a fork the state is another process's, which its number shows, and is begun afresh.
;
; All definitions are weak, so that any number of objects link into one program and share one pool.

%pool = type {
  i32,        ;  0 process: whose workers these are; 0 nobody's, -1 in the making
  i32,        ;  1 busy: a region runs
  i32,        ;  2 limit: of vdla_set_threads; 0 none
  i32,        ;  3 workers: how many were started
  i32,        ;  4 region: counts the regions
  i32,        ;  5 seats
  i32,        ;  6 sleeping: workers that wait for the next region
  i32,        ;  7 waiting: the caller sleeps until all have stood up
  i32,        ;  8 next: the piece to hand out
  i32,        ;  9 pieces
  i64,        ; 10 length of a piece
  i64,        ; 11 extent of the loop
  ptr,        ; 12 body
  ptr,        ; 13 closure
  [8 x i64],  ; 14 mutex; room for that of any C library, which all begin as zeros
  [8 x i64],  ; 15 condition: there is a region
  [8 x i64],  ; 16 condition: the last has stood up
  i32,        ; 17 spins: looks at a word before sleep; 0 where threads outnumber processors
  i32         ; 18 default: threads without a limit; 0 not known yet
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

; --- how many threads ------------------------------------------------------------------------------------------------

; The processors that this process may use.
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

; What VDLA_THREADS says, from 1 to 256; else the processors.
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

; --- the work --------------------------------------------------------------------------------------------------------

; Run pieces of the region until none is left.
define linkonce_odr hidden void @vdla_pool_work() noinline nounwind {
entry:
  %next.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 8
  %pieces = load i32, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 9), align 4
  %length = load i64, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 10), align 8
  %extent = load i64, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 11), align 8
  %body = load ptr, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 12), align 8
  %closure = load ptr, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 13), align 8
  br label %take

take:
  %piece = atomicrmw add ptr %next.place, i32 1 monotonic, align 4
  %any = icmp ult i32 %piece, %pieces
  br i1 %any, label %run, label %done

run:
  %wide = zext i32 %piece to i64
  %begin = mul i64 %wide, %length
  %full = add i64 %begin, %length
  %end = call i64 @llvm.umin.i64(i64 %full, i64 %extent)
  call void %body(ptr %closure, i64 %begin, i64 %end) nounwind
  br label %take

done:
  ret void
}

; Take part in the region if there is a seat.
define linkonce_odr hidden void @vdla_pool_join() noinline nounwind {
entry:
  %seats.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 5
  %first = load atomic i32, ptr %seats.place monotonic, align 4
  br label %try

try:
  %seats = phi i32 [ %first, %entry ], [ %now, %again ]
  %free = and i32 %seats, 65535
  %full = icmp eq i32 %free, 0
  br i1 %full, label %done, label %sit

sit:
  %taken = add i32 %seats, 65535
  %pair = cmpxchg ptr %seats.place, i32 %seats, i32 %taken seq_cst seq_cst, align 4
  %now = extractvalue { i32, i1 } %pair, 0
  %sits = extractvalue { i32, i1 } %pair, 1
  br i1 %sits, label %work, label %again

again:
  br label %try

work:
  call void @vdla_pool_work()
  %before = atomicrmw sub ptr %seats.place, i32 65536 seq_cst, align 4
  %last = icmp eq i32 %before, 65536
  br i1 %last, label %look, label %done

look:
  %waiting.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 7
  %waiting = load atomic i32, ptr %waiting.place seq_cst, align 4
  %wake = icmp ne i32 %waiting, 0
  br i1 %wake, label %signal, label %done

signal:
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %stood = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 16
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %told = call i32 @pthread_cond_broadcast(ptr %stood)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; Look at a word until it is, or is not, `value`, but not for long; whether it came so.
define linkonce_odr hidden i1 @vdla_pool_spin(ptr %place, i32 %value, i1 %equal) noinline nounwind {
entry:
  %spins.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 17
  %spins = load atomic i32, ptr %spins.place monotonic, align 4
  br label %look

look:
  %left = phi i32 [ %spins, %entry ], [ %fewer, %more ]
  %word = load atomic i32, ptr %place seq_cst, align 4
  %same = icmp eq i32 %word, %value
  %so = icmp eq i1 %same, %equal
  br i1 %so, label %done, label %wait

wait:
  %none = icmp sle i32 %left, 0
  br i1 %none, label %done, label %more

more:
  call void @pause()
  %fewer = sub i32 %left, 1
  br label %look

done:
  ret i1 %so
}

; A worker: waits for regions, takes part in each, for ever.
define linkonce_odr hidden ptr @vdla_pool_worker(ptr %start) noinline nounwind {
entry:
  %region.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 4
  %sleeping.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 6
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %opened = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 15
  br label %loop

loop:
  %seen = load atomic i32, ptr %region.place seq_cst, align 4
  call void @vdla_pool_join()
  %soon = call i1 @vdla_pool_spin(ptr %region.place, i32 %seen, i1 false)
  br i1 %soon, label %loop, label %sleep

sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %more = atomicrmw add ptr %sleeping.place, i32 1 seq_cst, align 4
  br label %check

check:
  %now = load atomic i32, ptr %region.place seq_cst, align 4
  %still = icmp eq i32 %now, %seen
  br i1 %still, label %wait, label %wake

wait:
  %woken = call i32 @pthread_cond_wait(ptr %opened, ptr %mutex)
  br label %check

wake:
  %less = atomicrmw sub ptr %sleeping.place, i32 1 seq_cst, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %loop
}

; --- the caller ------------------------------------------------------------------------------------------------------

; Whether the pool is this process's and free; if so it is busy from now on.
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

; Start workers until there are `wanted`, as far as the system lets us; how many there are.
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
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %started, label %keep

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

; Write down the region: about eight pieces a thread, so that a slow thread holds nobody up for long.
define linkonce_odr hidden void @vdla_pool_describe(ptr %body, ptr %closure, i64 %extent, i32 %threads) noinline nounwind {
  %wide = zext i32 %threads to i64
  %many = mul i64 %wide, 8
  %even = udiv i64 %extent, %many
  %length = call i64 @llvm.umax.i64(i64 %even, i64 1)
  %less = sub i64 %length, 1
  %up = add i64 %extent, %less
  %pieces.wide = udiv i64 %up, %length
  %pieces = trunc i64 %pieces.wide to i32
  store atomic i32 0, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 8) monotonic, align 4
  store i32 %pieces, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 9), align 4
  store i64 %length, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 10), align 8
  store i64 %extent, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 11), align 8
  store ptr %body, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 12), align 8
  store ptr %closure, ptr getelementptr inbounds (%pool, ptr @vdla_pool, i32 0, i32 13), align 8
  ret void
}

; Open the region and wake who sleeps.
define linkonce_odr hidden void @vdla_pool_open(i32 %workers) noinline nounwind {
entry:
  %seats.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 5
  %region.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 4
  %sleeping.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 6
  store atomic i32 %workers, ptr %seats.place seq_cst, align 4
  %region = atomicrmw add ptr %region.place, i32 1 seq_cst, align 4
  %sleeping = load atomic i32, ptr %sleeping.place seq_cst, align 4
  %some = icmp ne i32 %sleeping, 0
  br i1 %some, label %wake, label %done

wake:
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %opened = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 15
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %told = call i32 @pthread_cond_broadcast(ptr %opened)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; Close the region and wait until the last has stood up.
define linkonce_odr hidden void @vdla_pool_close() noinline nounwind {
entry:
  %seats.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 5
  %before = atomicrmw and ptr %seats.place, i32 -65536 seq_cst, align 4
  %gone = call i1 @vdla_pool_spin(ptr %seats.place, i32 0, i1 true)
  br i1 %gone, label %done, label %sleep

sleep:
  %waiting.place = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 7
  %mutex = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 14
  %stood = getelementptr inbounds %pool, ptr @vdla_pool, i32 0, i32 16
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  ; An exchange, not a store: QEMU's AArch64 lets the load below overtake a store, and the wake-up would be lost.
  %announced = atomicrmw xchg ptr %waiting.place, i32 1 seq_cst, align 4
  br label %check

check:
  %left = load atomic i32, ptr %seats.place seq_cst, align 4
  %some = icmp ne i32 %left, 0
  br i1 %some, label %wait, label %wake

wait:
  %woken = call i32 @pthread_cond_wait(ptr %stood, ptr %mutex)
  br label %check

wake:
  store atomic i32 0, ptr %waiting.place seq_cst, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; Run body(closure, begin, end) over [0, extent), in pieces, on up to vdla_threads() threads, this one among them.
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
