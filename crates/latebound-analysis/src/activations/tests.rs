// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events whose activations are known.

use super::*;

/// Names of the tests: function 0x51 is `f51`, and there is one disk.
struct Told;

impl Names for Told {
    fn function(&self, address: u64) -> Option<String> {
        (address != 0x99).then(|| format!("f{address:x}"))
    }

    fn disk(&self, device: u32) -> Option<String> {
        (device == 0x80_0000).then(|| "sda".to_owned())
    }
}

/// Feeds events and reads what came out.
struct Bench(Activations);

fn named(tid: i32, comm: &str) -> Named {
    Named { tid: Tid(tid), prio: 120, comm: super::kept::comm_of(comm.as_bytes()) }
}

impl Bench {
    /// Threads 10 to 19 are the kernel's, 20 to 29 workers.
    fn new() -> Bench {
        Bench(Activations::new(Box::new(|tid| {
            let kind = match tid.0 {
                2 | 10..20 => ThreadKind::Kernel,
                20..30 => ThreadKind::Worker,
                404 => return None,
                _ => ThreadKind::User,
            };
            Some((kind, b"looked-up".to_vec()))
        })))
    }

    fn at(&mut self, at: u64, cpu: u32, tid: i32, context: Context, happened: Happened<'_>) {
        self.0.observe(&Moment { at: Nanos(at), cpu: Cpu(cpu), tid: Tid(tid), context }, &happened);
    }

    fn task(&mut self, at: u64, cpu: u32, tid: i32, happened: Happened<'_>) {
        self.at(at, cpu, tid, Context::Task, happened);
    }

    fn hard(&mut self, at: u64, cpu: u32, happened: Happened<'_>) {
        self.at(at, cpu, 100, Context::HardIrq, happened);
    }

    fn switch(&mut self, at: u64, cpu: u32, prev: (i32, &str), next: (i32, &str)) {
        let (prev, next) = (named(prev.0, prev.1), named(next.0, next.1));
        self.task(at, cpu, prev.tid.0, Happened::Switch { prev, next });
    }

    /// Every series that has values or merges: its id, how many, the greatest, merged, crossed.
    fn series(&self) -> Vec<(String, u64, u64, u64, u64)> {
        let all = Mechanism::ALL.into_iter().collect();
        let series = self.0.series(&all, &Told).into_iter();
        series
            .map(|one| {
                let max = one.histogram.max().unwrap_or_default().0;
                (one.id, one.histogram.count(), max, one.merged, one.cross_cpu)
            })
            .collect()
    }

    fn lost(&self) -> Vec<u64> {
        self.0.losses().into_iter().map(|loss| loss.count.unwrap()).collect()
    }
}

fn of(id: &str, count: u64, max: u64, merged: u64, crossed: u64) -> (String, u64, u64, u64, u64) {
    (id.to_owned(), count, max, merged, crossed)
}

#[test]
fn interrupts_and_vectors_last_from_entry_to_exit_on_their_cpu() {
    let mut bench = Bench::new();
    bench.hard(100, 0, Happened::IrqEntry { irq: 5, name: b"eth0" });
    bench.hard(110, 1, Happened::IrqEntry { irq: 5, name: b"usb" });
    bench.hard(130, 0, Happened::IrqExit { irq: 5, wakes_thread: false });
    bench.hard(150, 1, Happened::IrqExit { irq: 5, wakes_thread: false });
    bench.hard(200, 0, Happened::VectorEntry("local_timer"));
    bench.hard(205, 0, Happened::VectorEntry("irq_work"));
    bench.hard(215, 0, Happened::VectorExit("irq_work"));
    bench.hard(230, 0, Happened::VectorExit("local_timer"));
    bench.hard(240, 1, Happened::VectorExit("local_timer"));
    bench.hard(250, 1, Happened::IrqExit { irq: 5, wakes_thread: false });
    let expected = [
        of("hard_irq/5-eth0/execution", 1, 30, 0, 0),
        of("hard_irq/5-usb/execution", 1, 40, 0, 0),
        of("vector/irq_work/execution", 1, 10, 0, 0),
        of("vector/local_timer/execution", 1, 30, 0, 0),
    ];
    assert_eq!(bench.series(), expected);
    assert_eq!(bench.lost(), [1, 1], "an exit of each without an entry");
}

#[test]
fn a_softirq_waits_from_its_first_raise_and_further_raises_are_merged() {
    let mut bench = Bench::new();
    bench.hard(10, 0, Happened::SoftirqRaise(3));
    bench.hard(20, 0, Happened::SoftirqRaise(3));
    bench.task(50, 0, 100, Happened::SoftirqEntry(3));
    bench.task(75, 0, 100, Happened::SoftirqExit(3));
    bench.task(80, 0, 100, Happened::SoftirqEntry(1));
    bench.task(85, 1, 100, Happened::SoftirqExit(1));
    assert_eq!(
        bench.series(),
        [of("softirq/NET_RX/latency", 1, 40, 1, 0), of("softirq/NET_RX/execution", 1, 25, 0, 0)]
    );
    assert_eq!(bench.lost(), [1, 1], "one run was not raised, one end had no beginning");
}

#[test]
fn a_work_item_is_split_at_its_activation_and_its_workers_wake_up() {
    let mut bench = Bench::new();
    bench.hard(10, 0, Happened::WorkQueue { work: 0x1 });
    bench.hard(14, 0, Happened::WorkActivate { work: 0x1 });
    bench.hard(15, 0, Happened::Wakeup(named(21, "kworker/1:0")));
    bench.switch(30, 1, (0, "swapper/1"), (21, "kworker/1:0"));
    bench.task(40, 1, 21, Happened::WorkStart { work: 0x1, function: 0x51 });
    // A wake-up while it runs an item is the function's own affair.
    bench.task(45, 0, 100, Happened::Wakeup(named(21, "kworker/1:0")));
    // An item in a softirq on top of it.
    bench.at(50, 1, 21, Context::Softirq, Happened::WorkStart { work: 0x2, function: 0x99 });
    bench.at(53, 1, 21, Context::Softirq, Happened::WorkEnd { work: 0x2 });
    bench.task(60, 1, 21, Happened::WorkEnd { work: 0x1 });
    bench.task(61, 1, 21, Happened::WorkEnd { work: 0x1 });
    let expected = [
        of("work/0x99/execution", 1, 3, 0, 0),
        of("work/f51/latency", 1, 30, 0, 1),
        of("work/f51/execution", 1, 20, 0, 0),
        of("work/f51/queue_to_activate", 1, 4, 0, 0),
        of("work/f51/activate_to_start", 1, 26, 0, 1),
        of("work/f51/wake_to_start", 1, 25, 0, 0),
    ];
    assert_eq!(bench.series(), expected);
    assert_eq!(bench.lost(), [1, 1], "one was never queued, one ended twice");
    let worst = bench.0.worst(&[Mechanism::Work].into(), &Told);
    let [worst] = worst.as_slice() else { panic!("{worst:?}") };
    assert_eq!((worst.series.as_str(), worst.latency()), ("work/f51/latency", Nanos(30)));
    assert_eq!(worst.requester_context, Some(Context::HardIrq));
    assert_eq!(worst.requester.as_ref().unwrap().comm, "looked-up", "its switch was not seen");
    let runner = worst.runner.as_ref().unwrap();
    assert!(runner.kernel && runner.comm == "kworker/1:0", "{runner:?}");
    assert_eq!((worst.requested_cpu, worst.started_cpu), (Some(Cpu(0)), Cpu(1)));
}

#[test]
fn a_kernel_thread_waits_from_its_wake_up_unless_it_runs() {
    let mut bench = Bench::new();
    bench.task(10, 0, 100, Happened::Wakeup(named(11, "kswapd0")));
    bench.task(15, 1, 100, Happened::Wakeup(named(11, "kswapd0")));
    bench.switch(30, 1, (100, "a"), (11, "kswapd0"));
    bench.task(40, 0, 100, Happened::Wakeup(named(11, "kswapd0")));
    bench.switch(50, 1, (11, "kswapd0"), (100, "a"));
    // Preempted before, it goes on without a request; a thread of user space is not watched.
    bench.switch(70, 0, (101, "b"), (11, "kswapd0"));
    bench.switch(75, 0, (11, "kswapd0"), (102, "c"));
    bench.task(80, 0, 102, Happened::Wakeup(named(101, "b")));
    bench.switch(90, 0, (102, "c"), (101, "b"));
    let expected = [
        of("kernel_thread/kswapd0/latency", 1, 20, 0, 1),
        of("kernel_thread/kswapd0/execution", 2, 20, 0, 0),
    ];
    assert_eq!(bench.series(), expected);
    assert!(bench.lost().is_empty());
}

#[test]
fn an_interrupt_thread_is_asked_for_by_its_handlers_return() {
    let mut bench = Bench::new();
    bench.0.know_thread(Tid(12), ThreadKind::Kernel, b"irq/40-eth0-tx");
    let exit = |wakes_thread| Happened::IrqExit { irq: 40, wakes_thread };
    for at in [100, 200] {
        bench.hard(at, 0, Happened::IrqEntry { irq: 40, name: b"eth0-tx" });
        bench.hard(at + 10, 0, exit(true));
    }
    bench.hard(220, 0, Happened::Wakeup(named(12, "irq/40-eth0-tx")));
    bench.switch(300, 0, (100, "a"), (12, "irq/40-eth0-tx"));
    // The one that runs takes it up by itself.
    bench.hard(310, 1, Happened::IrqEntry { irq: 40, name: b"eth0-tx" });
    bench.hard(320, 1, exit(true));
    bench.switch(330, 0, (12, "irq/40-eth0-tx"), (100, "a"));
    bench.hard(340, 0, Happened::IrqEntry { irq: 40, name: b"eth0-tx" });
    bench.hard(345, 0, exit(true));
    bench.hard(350, 0, Happened::IrqEntry { irq: 40, name: b"eth0-tx" });
    bench.hard(355, 0, exit(true));
    let series = bench.series();
    let thread: Vec<_> = series.iter().filter(|one| one.0.starts_with("threaded_irq")).collect();
    assert_eq!(
        thread,
        [
            &of("threaded_irq/irq/40-eth0-tx/latency", 1, 190, 1, 0),
            &of("threaded_irq/irq/40-eth0-tx/execution", 1, 30, 0, 0)
        ],
        "the merged one is the last; the second was before the series was known"
    );
}

#[test]
fn a_timer_is_late_by_its_own_clock_and_not_before_its_hard_expiry() {
    let mut bench = Bench::new();
    let real = 1_700_000_000_000_000_000i64;
    bench.0.set_clock_offsets(&[real, 0, real + 37_000_000_000]);
    bench.task(10, 0, 100, Happened::TimerStart { timer: 1, expires: 1_000 });
    bench.task(11, 0, 100, Happened::TimerStart { timer: 2, expires: real + 1_000 });
    bench.task(12, 0, 100, Happened::TimerStart { timer: 3, expires: 2_000 });
    bench.task(13, 0, 100, Happened::TimerStart { timer: 4, expires: 100 });
    bench.task(14, 0, 100, Happened::TimerCancel { timer: 4 });
    bench.hard(1_300, 0, Happened::TimerEntry { timer: 1, now: 1_200 });
    bench.hard(1_310, 0, Happened::TimerExit { timer: 1 });
    bench.hard(1_350, 0, Happened::TimerEntry { timer: 2, now: real + 1_200 });
    bench.hard(1_390, 0, Happened::TimerExit { timer: 2 });
    bench.at(1_400, 0, 100, Context::Softirq, Happened::TimerEntry { timer: 3, now: 1_400 });
    bench.at(1_405, 0, 100, Context::Softirq, Happened::TimerExit { timer: 3 });
    bench.hard(1_500, 0, Happened::TimerEntry { timer: 4, now: 1_500 });
    bench.hard(1_501, 0, Happened::TimerExit { timer: 4 });
    bench.hard(1_502, 0, Happened::TimerExit { timer: 4 });
    let expected = [
        of("hrtimer/hard/latency", 2, 350, 0, 0),
        of("hrtimer/hard/execution", 3, 40, 0, 0),
        of("hrtimer/soft/latency", 1, 0, 0, 0),
        of("hrtimer/soft/execution", 1, 5, 0, 0),
    ];
    assert_eq!(bench.series(), expected);
    assert_eq!(bench.lost(), [1, 1], "one ended twice, one was not armed");
}

#[test]
fn a_block_request_is_found_by_its_sector_and_by_its_order_without_one() {
    let mut bench = Bench::new();
    let device = 0x80_0000;
    let start = |sector| Happened::BlockStart { device, sector, bytes: None };
    let end = |sector| Happened::BlockEnd { device, sector, bytes: None };
    bench.task(10, 0, 100, start(8));
    bench.task(20, 0, 100, start(16));
    bench.task(30, 0, 100, start(0));
    bench.task(40, 0, 100, start(0));
    bench.hard(50, 1, end(16));
    bench.hard(60, 0, end(0));
    bench.hard(70, 0, end(8));
    bench.hard(80, 0, end(0));
    bench.hard(90, 0, end(24));
    // In parts: 8 sectors, of which 3 end first.
    bench.task(100, 0, 100, Happened::BlockStart { device, sector: 64, bytes: Some(4096) });
    bench.hard(150, 0, Happened::BlockEnd { device, sector: 64, bytes: Some(1536) });
    bench.hard(200, 0, Happened::BlockEnd { device, sector: 67, bytes: Some(2560) });
    assert_eq!(bench.series(), [of("block_request/sda/latency", 5, 100, 0, 1)]);
    assert_eq!(bench.lost(), [1], "one ended that had not begun");
    assert_eq!(bench.0.worst(&[Mechanism::BlockRequest].into(), &Told)[0].runner, None);
}

#[test]
fn nothing_is_paired_across_events_that_are_missing() {
    let mut bench = Bench::new();
    bench.task(10, 0, 100, Happened::TimerStart { timer: 1, expires: 100 });
    bench.task(11, 1, 100, Happened::WorkQueue { work: 1 });
    bench.task(12, 1, 100, Happened::Wakeup(named(11, "k")));
    bench.task(13, 1, 100, Happened::BlockStart { device: 7, sector: 8, bytes: None });
    bench.hard(14, 0, Happened::IrqEntry { irq: 1, name: b"x" });
    bench.hard(15, 1, Happened::IrqEntry { irq: 1, name: b"x" });
    bench.task(16, 0, 100, Happened::SoftirqRaise(1));
    bench.0.lost(Cpu(0));
    bench.hard(500, 0, Happened::IrqExit { irq: 1, wakes_thread: false });
    bench.hard(505, 1, Happened::IrqExit { irq: 1, wakes_thread: false });
    bench.hard(510, 0, Happened::TimerEntry { timer: 1, now: 510 });
    bench.task(520, 0, 20, Happened::WorkStart { work: 1, function: 1 });
    bench.switch(530, 0, (100, "a"), (11, "k"));
    bench.hard(540, 0, Happened::BlockEnd { device: 7, sector: 8, bytes: None });
    bench.task(550, 0, 100, Happened::SoftirqEntry(1));
    assert_eq!(bench.series(), [of("hard_irq/1-x/execution", 1, 490, 0, 0)], "of the other CPU");
    let losses = bench.0.losses();
    let forgotten = losses.iter().find(|loss| loss.place.contains("forgotten")).unwrap();
    assert_eq!(forgotten.count, Some(4), "{losses:?}");
    assert_eq!(losses.len(), 6, "{losses:?}");
}

#[test]
fn a_thread_of_kthreadd_is_the_kernels_and_its_number_is_used_again() {
    let mut bench = Bench::new();
    bench.task(1, 0, 2, Happened::Fork { parent: Tid(2), child: Tid(404) });
    bench.switch(2, 0, (0, "swapper/0"), (404, "new"));
    bench.switch(5, 0, (404, "new"), (0, "swapper/0"));
    bench.task(6, 0, 100, Happened::Fork { parent: Tid(100), child: Tid(404) });
    bench.switch(7, 0, (0, "swapper/0"), (404, "program"));
    bench.switch(9, 0, (404, "program"), (0, "swapper/0"));
    bench.task(10, 0, 2, Happened::Fork { parent: Tid(2), child: Tid(404) });
    bench.switch(11, 0, (0, "swapper/0"), (404, "kworker/0:7"));
    bench.switch(12, 0, (404, "kworker/0:7"), (0, "swapper/0"));
    assert_eq!(bench.series(), [of("kernel_thread/new/execution", 1, 3, 0, 0)], "no worker is among them");
}

#[test]
fn two_things_of_one_name_are_told_apart() {
    let mut bench = Bench::new();
    for tid in [11, 12] {
        bench.switch(10, 0, (0, "swapper/0"), (tid, "twin"));
        bench.switch(20, 0, (tid, "twin"), (0, "swapper/0"));
    }
    let ids: Vec<String> = bench.series().into_iter().map(|one| one.0).collect();
    assert_eq!(ids, ["kernel_thread/twin/execution", "kernel_thread/twin:12/execution"]);
}
