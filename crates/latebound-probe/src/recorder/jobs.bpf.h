/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recorder's programs of jobs: what a watched thread is at between two waits, and the responses of its jobs.
 *
 * A job goes from the end of one wait at a fixed place (`job_cycles`) to the next entry into it. Until the place is fixed, the waits are
 * counted by place. A part of recorder.bpf.c, whose maps and functions it uses. Threads that nobody watches leave each program here at once.
 */
#ifndef LATEBOUND_JOBS_BPF_H
#define LATEBOUND_JOBS_BPF_H

/* Whether marks begin and end jobs (marks.bpf.h), and not the wait between them. */
const volatile bool marked = false;
/* By the number of a system call: enum lb_call_class. */
const volatile __u8 call_classes[LB_CALLS] = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct lb_site);
	__type(value, struct lb_site_counts);
} sites SEC(".maps");

/* By slot. Apart from the threads, so that user space can set it in place. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_cycle);
} job_cycles SEC(".maps");

static __always_inline const struct lb_cycle *job_cycle(const struct lb_flight_watched *thread)
{
	__u32 slot = thread->slot;

	return bpf_map_lookup_elem(&job_cycles, &slot);
}

/* The wait between two jobs of a thread; none where it is not fixed. */
static __always_inline const struct lb_site *job_site(const struct lb_flight_watched *thread)
{
	const struct lb_cycle *cycle = job_cycle(thread);

	return cycle && cycle->site.call ? &cycle->site : 0;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/mutex_types.h, rwsem.h and rtmutex.h: the owner is the task's address, with flags in its lowest bits. */
typedef struct {
	__s64 counter;
} atomic64_t;

struct mutex {
	atomic64_t owner;
};

struct rw_semaphore {
	atomic64_t owner;
};

struct rt_mutex_base {
	struct task_struct *owner;
};

/* CONFIG_PREEMPT_RT: what its rw_semaphore and rwlock_t are made of (include/linux/rwbase_rt.h). */
struct rwbase_rt {
	struct rt_mutex_base rtmutex;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct vm_area_struct {
	struct file *vm_file;
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

#pragma clang attribute pop

/* include/linux/sched.h: __TASK_STOPPED and __TASK_TRACED; TASK_FROZEN since 6.1 (f5d39b020809). */
#define TASK_STOPPED_OR_TRACED (0x4 | 0x8)
#define TASK_FROZEN 0x8000
/* include/linux/sched/jobctl.h, since 5.2 */
#define JOBCTL_TRAP_FREEZE (1UL << 23)

/* include/uapi/linux/stat.h */
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFIFO 0010000

/* include/uapi/linux/futex.h */
#define FUTEX_CMD_MASK 127
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_LOCK_PI2 13
#define FUTEX_TID_MASK 0x3fffffff

/* include/uapi/linux/time.h */
#define CLOCK_MONOTONIC 1
#define TIMER_ABSTIME 1

/* include/trace/events/lock.h */
#define LCB_F_SPIN (1U << 0)
#define LCB_F_READ (1U << 1)
#define LCB_F_WRITE (1U << 2)
#define LCB_F_RT (1U << 3)
#define LCB_F_PERCPU (1U << 4)
#define LCB_F_MUTEX (1U << 5)

/* include/linux/mm_types.h */
#define VM_FAULT_MAJOR 0x4

/* ---- threads that are switched out, whoever they are ---- */

/* The number of the system call that a user thread is in, and 1; 0 of one that is in none. */
static __always_inline __u16 call_of(struct task_struct *task)
{
	struct pt_regs *regs;
	__s32 call;

	if (task->flags & (PF_KTHREAD | PF_IDLE))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	call = CALL_NUMBER(regs);
	return call < 0 || call >= 0xffff ? 0 : call + 1;
}

static __always_inline __u8 sleep_flags(struct task_struct *task)
{
	__u8 flags = LB_FLAG_JOBS;

	if (LB_NUMBER(task, in_iowait))
		flags |= LB_FLAG_IO_WAIT;
	if (task->__state & TASK_STOPPED_OR_TRACED)
		flags |= LB_FLAG_STOPPED;
	/* task_struct::frozen alone is set of whoever waits for its vfork and of who is stopped as well. */
	if ((task->__state & TASK_FROZEN) ||
	    (LB_NUMBER(task, frozen) && (LB_NUMBER(task, jobctl) & JOBCTL_TRAP_FREEZE)))
		flags |= LB_FLAG_FROZEN;
	return flags;
}

/* ---- watched threads ---- */

/*
 * Whether a thread can have jobs, by what the rule says of it alone: threads that nobody watches ask no map. Where there is a rule, the jobs of
 * threads that are watched by name besides are not followed.
 */
static __always_inline bool may_have_jobs(const struct task_struct *task)
{
	return watch_rule == LB_WATCH_NAMED || rule_names(task);
}

/* The current thread, where it is watched. */
static __always_inline struct lb_flight_watched *watched_current(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (watch_rule == LB_WATCH_NAMED)
		return find_watched(task, false);
	return rule_names(task) ? find_watched(task, true) : 0;
}

/* What an open file is. */
static __noinline __u32 file_kind(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **all = BPF_CORE_READ(table, fd), *file = 0;
	char name[12] = {};
	__u16 mode;

	if (fd >= BPF_CORE_READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), all + fd) || !file)
		return LB_OBJECT_FILE;
	mode = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
	if (mode == S_IFREG)
		return LB_OBJECT_REGULAR;
	if (mode == S_IFIFO)
		return LB_OBJECT_PIPE;
	if (mode == S_IFSOCK)
		return LB_OBJECT_SOCKET;
	/* fs/eventfd.c, timerfd.c and eventpoll.c name their files so. */
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (name[0] != '[')
		return LB_OBJECT_FILE;
	if (name[1] == 't' && name[6] == 'f')
		return LB_OBJECT_TIMERFD;
	if (name[1] == 'e' && name[6] == 'f')
		return LB_OBJECT_EVENTFD;
	if (name[1] == 'e' && name[6] == 'p')
		return LB_OBJECT_EPOLL;
	return LB_OBJECT_FILE;
}

/*
 * Who holds a lock of user space. A lock that lends priority has its owner's thread id in the word itself (futex(2)). Else the C library's
 * mutex around the word may have it: glibc keeps it 8 bytes behind (struct __pthread_mutex_s, 2.31 to 2.42), musl in the word itself of all but
 * the plain kind (pthread_impl.h, _m_lock of 1.2). It is an owner where it is a watched thread, or user space finds it to be of the same
 * process.
 */
static __noinline __s32 futex_owner(__u64 address, bool inherits)
{
	__s32 word = 0, tid;
	__u64 places[2] = { address + 8, address };
	int i;

	if (inherits)
		return bpf_probe_read_user(&word, sizeof(word), (void *)address) ? 0 : word & FUTEX_TID_MASK;
	for (i = 0; i < 2; i++) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)places[i]))
			continue;
		tid = word & FUTEX_TID_MASK;
		/* Lock words are 0, 1 and 2, and counters small. A thread id that is as small belongs to the kernel. */
		if (tid > 2 && tid != current_tid())
			return tid;
	}
	return 0;
}

static __always_inline bool same_site(const struct lb_site *a, const struct lb_site *b)
{
	return a->call == b->call && a->object_kind == b->object_kind && a->object == b->object;
}

/*
 * A job was released at this moment: by so many periods after the one before, rounded, one fewer was missed. One of less than half a period makes
 * up for one that was missed before.
 */
static __always_inline void count_release(struct lb_flight_watched *thread, __u64 at)
{
	const struct lb_cycle *cycle = job_cycle(thread);
	__u64 period = cycle ? cycle->period_ns : 0, distance = 0;

	if (!period)
		return;
	if (at > thread->released_at_ns)
		distance = at - thread->released_at_ns;
	if (thread->released_at_ns)
		thread->missed += (__s64)((distance + period / 2) / period) - 1;
	thread->released_at_ns = at;
}

/* A job is complete at this moment. */
static __noinline int complete_job(struct lb_flight_watched *thread, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct lb_job *job = &thread->job;
	__u64 response;

	response = now - job->released_at_ns;
	if ((__s64)response < 0)
		response = 0;
	thread->prio = task->prio;
	thread->policy = task->policy;
	thread->kernel = 0;
	copy_comm(thread->comm, task->comm);
	count_latency(thread, LB_WAKEUP_JOB, response);
	count_release(thread, job->released_at_ns);
	submit_late(task, thread->slot, response, LB_WAKEUP_JOB, job->by_timer ? job->released_at_ns : 0,
		    job->released_at_ns, job->started_at_ns, now);
	return 0;
}

/* The counts of the place at which a watched thread waits; none where it shares its slot, since jobs are followed by slot. */
static __always_inline struct lb_site_counts *counts_of(const struct lb_flight_watched *thread, __s32 tid)
{
	struct lb_site key = thread->job.in;
	struct lb_site_counts *counts, fresh = {};
	struct lb_flight_cpu *cpu;

	if (thread->slot == SHARED_SLOT)
		return 0;
	key.tid = tid;
	counts = bpf_map_lookup_elem(&sites, &key);
	if (counts)
		return counts;
	if (!bpf_map_update_elem(&sites, &key, &fresh, BPF_NOEXIST))
		return bpf_map_lookup_elem(&sites, &key);
	cpu = this_cpu();
	if (cpu)
		__sync_fetch_and_add(&cpu->waits_refused, 1);
	return 0;
}

/* The end of a wait lies at this moment. Only the CPU on which a thread runs, or that switches to it, counts for it. */
static __always_inline void count_interval(struct lb_site_counts *counts, __u64 end)
{
	__u64 interval;

	if (counts->last_end_ns && end > counts->last_end_ns) {
		interval = end - counts->last_end_ns;
		counts->intervals++;
		counts->interval_sum_ns += interval;
		interval /= 1000;
		if (interval > LB_LONGEST_INTERVAL_US)
			interval = LB_LONGEST_INTERVAL_US;
		counts->interval_squares_us += interval * interval;
	}
	counts->last_end_ns = end;
}

/* A watched thread slept in a system call and was woken at `woken`. */
static __noinline int count_wait(struct lb_flight_watched *thread, __s32 tid, __u64 woken, bool by_timer)
{
	struct lb_site_counts *counts = counts_of(thread, tid);
	__u64 slept = 0;

	if (!counts)
		return 0;
	counts->waits++;
	if (woken > thread->job.slept_at_ns)
		slept = woken - thread->job.slept_at_ns;
	counts->slept_ns += slept;
	if (slept > counts->slept_most_ns)
		counts->slept_most_ns = slept;
	counts->ended_by_timer += by_timer;
	/* The times that it asks for were counted when it did, of those that it does not sleep for as well. */
	if (!thread->job.absolute_ns)
		count_interval(counts, woken);
	return 0;
}

/* A watched thread asks to sleep until a time: the distances of these are its period, however late it is. */
static __noinline int count_absolute(struct lb_flight_watched *thread, __s32 tid)
{
	struct lb_site_counts *counts = counts_of(thread, tid);

	if (counts)
		count_interval(counts, thread->job.absolute_ns);
	return 0;
}

/* A watched thread that is switched out goes to sleep. */
static __always_inline void job_sleeps(struct lb_flight_watched *thread, __u64 now)
{
	thread->job.slept_at_ns = now;
}

/* A watched thread runs that was woken: released at `due`. */
static __always_inline void job_wakes(struct lb_flight_watched *thread, struct task_struct *task, __u64 due,
				      bool by_timer, __u64 now)
{
	struct lb_job *job = &thread->job;

	if (!may_have_jobs(task)) {
		/* It was renamed, or is no real-time thread any more: its calls are not seen, and its job has no end. */
		__builtin_memset(job, 0, sizeof(*job));
		return;
	}
	if (job->waiting) {
		job->released_at_ns = due;
		job->started_at_ns = now;
		job->by_timer = by_timer;
	} else if (!marked && job->in.call && job->slept_at_ns && !job_site(thread)) {
		count_wait(thread, task->pid, due, by_timer);
	}
}

/* ---- system calls of watched threads ---- */

/* The place of a system call that is entered, in the thread. */
static __always_inline __s32 describe_call(struct lb_job *job, struct pt_regs *regs, __u32 number)
{
	__u64 first = ARGUMENT_0(regs), second = ARGUMENT_1(regs), time[2];
	__s32 owner = 0;
	bool inherits;

	job->in.call = number + 1;
	job->in.object_kind = LB_OBJECT_NONE;
	job->in.object = 0;
	job->absolute_ns = 0;
	job->slept_at_ns = 0;
	switch (number < LB_CALLS ? call_classes[number & (LB_CALLS - 1)] : LB_CALL_PLAIN) {
	case LB_CALL_FUTEX:
		second &= FUTEX_CMD_MASK;
		inherits = second == FUTEX_LOCK_PI || second == FUTEX_LOCK_PI2;
		/* To wake who waits at an address is no wait there: it would end a job of a thread that does both. */
		if (!inherits && second != FUTEX_WAIT && second != FUTEX_WAIT_BITSET && second != FUTEX_WAIT_REQUEUE_PI)
			break;
		job->in.object_kind = inherits ? LB_OBJECT_FUTEX_PI : LB_OBJECT_FUTEX;
		job->in.object = first;
		owner = futex_owner(first, inherits);
		break;
	case LB_CALL_FUTEX_WAIT:
		job->in.object_kind = LB_OBJECT_FUTEX;
		job->in.object = first;
		owner = futex_owner(first, false);
		break;
	case LB_CALL_FILE:
		job->in.object_kind = file_kind(first);
		job->in.object = (__u32)first;
		break;
	case LB_CALL_SLEEP:
		job->in.object_kind = LB_OBJECT_SLEEP;
		break;
	case LB_CALL_CLOCK_SLEEP:
		if (!(second & TIMER_ABSTIME)) {
			job->in.object_kind = LB_OBJECT_SLEEP;
			break;
		}
		job->in.object_kind = LB_OBJECT_SLEEP_ABSOLUTE;
		if (first == CLOCK_MONOTONIC && !bpf_probe_read_user(time, sizeof(time), (void *)ARGUMENT_2(regs)))
			job->absolute_ns = time[0] * 1000000000 + time[1];
		break;
	}
	return owner;
}

static __always_inline void record_call(const struct lb_job *job, __u32 number, __s32 owner)
{
	struct lb_flight_record *record;
	__u64 position;

	record = reserve(this_cpu(), &position);
	if (!record)
		return;
	record->at_ns = job->entered_at_ns;
	record->kind = LB_CALL_ENTRY;
	record->flags = 0;
	if (owner && bpf_map_lookup_elem(&watched, &owner))
		record->flags = LB_FLAG_OWNER_WATCHED;
	record->number = number + 1;
	record->prev_tid = current_tid();
	record->next_tid = owner;
	record->value[0] = job->in.object_kind;
	record->value[1] = job->in.object;
	record->value[2] = 0;
	record->value[3] = 0;
	publish(&record->sequence, position);
}

/*
 * From Linux 7.0 on a thread can be preempted within a program of a trace point, and until it goes on, the kernel begins that one on this CPU for
 * nobody else (kernel/trace/bpf_trace.c, __bpf_trace_run: bpf_prog::active). So there perf runs a program first, with preemption off
 * (include/trace/perf.h, 6.13 and later). That one is skipped while another thread is preempted within a call of bpf(2) that touches a map
 * (include/linux/bpf.h, bpf_disable_instrumentation: bpf_prog_active), as this tool makes them. An event is lost where both are skipped.
 */
enum lb_turn { LB_BY_PERF, LB_BY_TYPE };

/* Whether perf runs programs at system calls before those that follow the kernel's types. */
const volatile bool perf_first = false;

/* Whether this program is the one to do the work. That of perf leaves a mark for the other. */
static __always_inline bool is_its_turn(struct lb_job *job, enum lb_turn turn)
{
	bool taken = job->taken;

	if (turn == LB_BY_PERF) {
		job->taken = 1;
		return true;
	}
	if (perf_first)
		job->taken = 0;
	return !(perf_first && taken);
}

static __always_inline int enters_call(struct pt_regs *regs, long number, enum lb_turn turn)
{
	struct lb_flight_watched *thread = watched_current();
	const struct lb_site *site;
	struct lb_job *job;
	__u64 now;
	__s32 owner;

	if (!thread)
		return 0;
	now = bpf_ktime_get_ns();
	job = &thread->job;
	if (!is_its_turn(job, turn))
		return 0;
	owner = describe_call(job, regs, number);
	job->entered_at_ns = now;
	/* Set where the end of the call before it was not seen. */
	job->waiting = 0;
	LB_ALONE(preemptible && turn == LB_BY_TYPE, record_call(job, number, owner));
	site = job_site(thread);
	if (!marked && !site && job->absolute_ns)
		count_absolute(thread, current_tid());
	if (site && same_site(site, &job->in)) {
		if (job->started_at_ns)
			complete_job(thread, now);
		job->started_at_ns = 0;
		job->waiting = 1;
	}
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call_entry, struct pt_regs *regs, long number)
{
	return enters_call(regs, number, LB_BY_TYPE);
}

SEC("tracepoint/raw_syscalls/sys_enter")
int on_call_entry_by_perf(void *ctx)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	return enters_call(regs, CALL_NUMBER(regs), LB_BY_PERF);
}

static __always_inline int leaves_call(enum lb_turn turn)
{
	struct lb_flight_watched *thread = watched_current();
	struct lb_job *job;
	__u64 now;

	if (!thread)
		return 0;
	now = bpf_ktime_get_ns();
	job = &thread->job;
	if (!is_its_turn(job, turn))
		return 0;
	LB_ALONE(preemptible && turn == LB_BY_TYPE, record_at(this_cpu(), now, LB_CALL_EXIT, 0, 0, 0, 0, 0));
	if (job->waiting && !job->started_at_ns) {
		/* What it would have waited for was there. A time that had passed is when the job was due. */
		job->by_timer = job->absolute_ns && job->absolute_ns < now;
		job->released_at_ns = job->by_timer ? job->absolute_ns : job->entered_at_ns;
		job->started_at_ns = now;
		/* Since when it was there is not seen. */
		thread->releases_unknown += !job->by_timer;
	}
	job->waiting = 0;
	job->in.call = 0;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_call_exit)
{
	return leaves_call(LB_BY_TYPE);
}

SEC("tracepoint/raw_syscalls/sys_exit")
int on_call_exit_by_perf(void *ctx)
{
	return leaves_call(LB_BY_PERF);
}

/* ---- what else a watched thread does ---- */

static __always_inline void record_fault(struct file *file, unsigned long address)
{
	struct lb_flight_record *record;
	__u64 position;

	record = reserve(this_cpu(), &position);
	if (!record)
		return;
	record->at_ns = bpf_ktime_get_ns();
	record->kind = LB_FAULT_ENTRY;
	record->flags = 0;
	record->number = 0;
	record->prev_tid = current_tid();
	record->next_tid = 0;
	record->value[0] = address;
	record->value[1] = 0;
	if (file)
		bpf_probe_read_kernel_str(&record->value[1], 3 * sizeof(__u64),
					  BPF_CORE_READ(file, f_path.dentry, d_name.name));
	publish(&record->sequence, position);
}

/* A program of a function can be preempted on every kernel. */
SEC("fentry/handle_mm_fault")
int BPF_PROG(on_fault_entry, struct vm_area_struct *vma, unsigned long address)
{
	if (watched_current())
		LB_ALONE(true, record_fault(vma->vm_file, address));
	return 0;
}

SEC("fexit/handle_mm_fault")
int BPF_PROG(on_fault_exit, struct vm_area_struct *vma, unsigned long address, unsigned int flags, void *regs,
	     unsigned int result)
{
	if (watched_current())
		LB_ALONE(true, record_at(this_cpu(), bpf_ktime_get_ns(), LB_FAULT_EXIT, !!(result & VM_FAULT_MAJOR), 0,
					 0, 0, 0));
	return 0;
}

/* Who holds a lock of the kernel; 0 where the lock does not say. */
static __always_inline struct task_struct *lock_owner(void *lock, unsigned int flags)
{
	if (flags & LCB_F_PERCPU)
		return 0;
	if (flags & LCB_F_RT) {
		/* The waiter's lock is the whole, of which the mutex is a part (kernel/locking/rwbase_rt.c). */
		if (flags & (LCB_F_READ | LCB_F_WRITE)) {
			if (!bpf_core_field_exists(struct rwbase_rt, rtmutex))
				return 0;
			return (void *)((__u64)BPF_CORE_READ((struct rwbase_rt *)lock, rtmutex.owner) & ~1ULL);
		}
		return (void *)((__u64)BPF_CORE_READ((struct rt_mutex_base *)lock, owner) & ~1ULL);
	}
	if ((flags & LCB_F_MUTEX) && bpf_core_field_exists(struct mutex, owner))
		return (void *)(BPF_CORE_READ((struct mutex *)lock, owner.counter) & ~7ULL);
	if ((flags & (LCB_F_READ | LCB_F_WRITE)) && bpf_core_field_exists(struct rw_semaphore, owner))
		return (void *)(BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter) & ~7ULL);
	return 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention_begin, void *lock, unsigned int flags)
{
	struct task_struct *owner;
	__s32 tid = 0;

	/* Who spins does not sleep. */
	if ((flags & LCB_F_SPIN) || !watched_current())
		return 0;
	owner = lock_owner(lock, flags);
	if (owner)
		tid = BPF_CORE_READ(owner, pid);
	/* On PREEMPT_RT a writer that waits for readers holds the mutex already. */
	if (tid == current_tid())
		tid = 0;
	LB_ALONE(preemptible, record_at(this_cpu(), bpf_ktime_get_ns(), LB_LOCK_BEGIN, 0, tid, (__u64)lock, 0, 0));
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *lock)
{
	if (watched_current())
		record_alone(LB_LOCK_END, 0, (__u64)lock, 0);
	return 0;
}

/* A thread frees memory itself, where an allocation finds too little (include/trace/events/vmscan.h, in 5.10, 6.12 and 7.3). */
SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_reclaim_begin)
{
	if (watched_current())
		record_alone(LB_RECLAIM_BEGIN, 0, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(on_reclaim_end)
{
	if (watched_current())
		record_alone(LB_RECLAIM_END, 0, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_group_reclaim_begin)
{
	if (watched_current())
		record_alone(LB_RECLAIM_BEGIN, 1, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(on_group_reclaim_end)
{
	if (watched_current())
		record_alone(LB_RECLAIM_END, 0, 0, 0);
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal, int number, void *info, struct k_sigaction *action)
{
	/* SIG_DFL is 0 and SIG_IGN 1: no handler runs. */
	if ((__u64)action->sa.sa_handler > 1 && watched_current())
		record_alone(LB_SIGNAL, number, 0, 0);
	return 0;
}

/* ---- block requests of the whole system ---- */

/*
 * The number of the control group of version 2 that a request is for, whoever sends it: of a page that is written back, the group that made it
 * dirty (block/blk-cgroup.c, bio_associate_blkg_from_css; fs/fs-writeback.c, wbc_init_bio). 0 where it is not known.
 */
static __always_inline __u64 request_group(struct request *rq)
{
	struct bio *bio = rq->bio;
	struct cgroup *group;

	if (!bpf_core_field_exists(struct bio, bi_blkg) || !bio || !bio->bi_blkg)
		return 0;
	group = bio->bi_blkg->blkcg->css.cgroup;
	/* The hierarchy of version 2 has the number 0 (kernel/cgroup/cgroup.c, cgrp_dfl_root). */
	if (group->root->hierarchy_id)
		return 0;
	return group->kn->id;
}

static __always_inline void record_block(enum lb_block_step step, struct request *rq)
{
	struct gendisk *disk = rq->q->disk;
	__u32 device = 0;

	/* dev_t of the kernel: 20 bits of minor number (include/linux/kdev_t.h). */
	if (disk)
		device = (__u32)disk->major << 20 | (__u32)disk->first_minor;
	LB_ALONE(preemptible, record_at(this_cpu(), bpf_ktime_get_ns(), LB_BLOCK, step, rq->__data_len, device,
					rq->__sector, request_group(rq) << 1 | (LB_NUMBER(rq, cmd_flags) & 1)));
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(on_block_insert, struct request *rq)
{
	record_block(LB_BLOCK_QUEUED, rq);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_block_issue, struct request *rq)
{
	record_block(LB_BLOCK_ISSUED, rq);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_block_complete, struct request *rq)
{
	record_block(LB_BLOCK_COMPLETED, rq);
	return 0;
}

#endif
