// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of files that stand for systems, built from small tables of text.
//!
//! The values are those that kernels of the named kind write, in the form in which they write them; names and numbers
//! of devices are made up.

// Each test file uses a part of this.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

use latebound_model::{EvidenceLevel, Finding};
use latebound_system::{Doctor, Facts, Root, doctor};
use tempfile::TempDir;

const PF_KTHREAD: u64 = 0x0020_0000;
pub const OTHER: u32 = 0;
pub const FIFO: u32 = 1;

/// A system made of files.
pub struct Tree {
    folder: TempDir,
    pub facts: Facts,
}

impl Tree {
    /// Nothing at all: no file, no fact.
    pub fn empty() -> Tree {
        Tree { folder: TempDir::new().unwrap(), facts: Facts::default() }
    }

    pub fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    pub fn doctor(&self) -> Doctor {
        doctor(&self.root(), &self.facts)
    }

    /// Writes one file as it is.
    pub fn file(&mut self, path: &str, content: impl AsRef<[u8]>) -> &mut Tree {
        let place = self.folder.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
        self
    }

    pub fn folder(&mut self, path: &str) -> &mut Tree {
        fs::create_dir_all(self.folder.path().join(path.trim_start_matches('/'))).unwrap();
        self
    }

    pub fn remove(&mut self, path: &str) -> &mut Tree {
        let place = self.folder.path().join(path.trim_start_matches('/'));
        if place.is_dir() {
            fs::remove_dir_all(place).unwrap()
        } else {
            fs::remove_file(place).unwrap()
        }
        self
    }

    /// Every file by the name that the system gives it, with its content.
    pub fn all_files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.folder.path()).unwrap();
                    files.push((format!("/{}", name.display()), fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }

    /// Writes one file for each line `path = value`; the kernel ends a value with a newline.
    pub fn files(&mut self, table: &str) -> &mut Tree {
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (path, value) = line.split_once(" = ").unwrap_or((line.trim_end_matches(" ="), ""));
            self.file(path, format!("{value}\n"));
        }
        self
    }

    /// Options `NAME=value` as a compressed configuration, the way the kernel shows its own.
    pub fn config(&mut self, options: &str) -> &mut Tree {
        let mut text =
            String::from("#\n# Automatically generated file; DO NOT EDIT.\n#\n# CONFIG_UNUSED is not set\n");
        for option in options.split_whitespace() {
            writeln!(text, "CONFIG_{option}").unwrap();
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let bytes = gzip.finish().unwrap();
        self.file("/proc/config.gz", bytes)
    }

    fn stat(pid: i32, comm: &[u8], kernel: bool, policy: u32, rt_priority: u32) -> Vec<u8> {
        let flags = if kernel { PF_KTHREAD | 0x40 } else { 0x40_0000 };
        let priority = if policy == FIFO { -1 - i64::from(rt_priority) } else { 20 };
        let mut line = format!("{pid} (").into_bytes();
        line.extend_from_slice(comm);
        line.extend_from_slice(
            format!(
                ") S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 {priority} 0 1 0 3 0 0 18446744073709551615 0 0 0 0 0 0 0 \
                 2147483647 0 0 0 0 17 0 {rt_priority} {policy} 0 0 0 0 0 0 0 0 0 0 0\n"
            )
            .as_bytes(),
        );
        line
    }

    pub fn kernel_thread(&mut self, pid: i32, comm: &str, policy: u32, rt_priority: u32) -> &mut Tree {
        let stat = Tree::stat(pid, comm.as_bytes(), true, policy, rt_priority);
        self.file(&format!("/proc/{pid}/stat"), stat)
    }

    /// A process with one thread.
    pub fn process(&mut self, pid: i32, comm: impl AsRef<[u8]>, policy: u32, rt_priority: u32) -> &mut Tree {
        self.user_thread(pid, pid, &comm, policy, rt_priority);
        let stat = Tree::stat(pid, comm.as_ref(), false, policy, rt_priority);
        self.file(&format!("/proc/{pid}/stat"), stat)
    }

    /// One more thread of a process.
    pub fn user_thread(
        &mut self,
        pid: i32,
        tid: i32,
        comm: impl AsRef<[u8]>,
        policy: u32,
        prio: u32,
    ) -> &mut Tree {
        let stat = Tree::stat(tid, comm.as_ref(), false, policy, prio);
        self.file(&format!("/proc/{pid}/task/{tid}/stat"), stat)
    }

    /// `/proc/self` with these effective capabilities and limits, in these cgroups.
    pub fn own(&mut self, cap_eff: &str, rtprio: &str, memlock: &str, allowed: &str) -> &mut Tree {
        self.file(
            "/proc/self/status",
            format!("Name:\tlatebound\nUid:\t0\t0\t0\t0\nCapInh:\t0000000000000000\nCapEff:\t{cap_eff}\nCpus_allowed_list:\t{allowed}\n"),
        );
        self.file(
            "/proc/self/limits",
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max locked memory         {memlock:<20} {memlock:<20} bytes     \n\
                 Max realtime priority     {rtprio:<20} {rtprio:<20}           \n"
            ),
        )
    }

    /// BTF in which these trace points have their type.
    pub fn btf(&mut self, trace_points: &str) -> &mut Tree {
        let mut blob = b"\x9f\xeb\x01\0\x18\0\0\0".to_vec();
        for name in trace_points.split_whitespace() {
            blob.extend_from_slice(b"\0btf_trace_");
            blob.extend_from_slice(name.as_bytes());
        }
        blob.push(0);
        self.file("/sys/kernel/btf/vmlinux", blob)
    }

    /// Idle states `name latency_us` of these CPUs.
    pub fn idle_states(&mut self, cpus: std::ops::Range<u32>, states: &[(&str, u32)]) -> &mut Tree {
        for cpu in cpus {
            for (number, (name, latency)) in states.iter().enumerate() {
                let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}");
                self.files(&format!(
                    "{folder}/name = {name}\n{folder}/latency = {latency}\n{folder}/disable = 0"
                ));
            }
        }
        self
    }

    /// One setting for each CPU, below its folder.
    pub fn each_cpu(&mut self, cpus: std::ops::Range<u32>, table: &str) -> &mut Tree {
        for cpu in cpus {
            for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
                self.files(&format!("/sys/devices/system/cpu/cpu{cpu}/{line}"));
            }
        }
        self
    }
}

/// All capabilities of kernels with CAP_CHECKPOINT_RESTORE (40).
pub const ALL_CAPABILITIES: &str = "000001ffffffffff";
pub const NO_CAPABILITIES: &str = "0000000000000000";

const STOCK_TRACE_POINTS: &str = "sched_switch sched_waking irq_handler_entry irq_handler_exit softirq_raise \
    softirq_entry softirq_exit hrtimer_expire_entry workqueue_execute_start tasklet_entry block_rq_issue \
    writeback_start nmi_handler";

const CGROUP2: &str =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

/// A server of four CPUs with PREEMPT_RT 6.12, tuned by somebody who knows how, with the tracers that a bound needs.
pub fn tuned_rt_box() -> Tree {
    let mut tree = Tree::empty();
    tree.facts = Facts {
        hostname: Some("press".into()),
        kernel_release: Some("6.12.57-rt-amd64".into()),
        kernel_version: Some("#1 SMP PREEMPT_RT Debian 6.12.57-1 (2026-01-05)".into()),
        machine: Some("x86_64".into()),
        allowed: Some("0-3".parse().unwrap()),
        hypervisor_signature: None,
        left_over: Vec::new(),
    };
    tree.config(
        "PREEMPT_RT=y PREEMPT=y HZ=1000 HIGH_RES_TIMERS=y NO_HZ_FULL=y RCU_NOCB_CPU=y BPF_SYSCALL=y DEBUG_INFO_BTF=y \
         IRQSOFF_TRACER=y PREEMPT_TRACER=y IRQ_FORCED_THREADING=y ARCH_HAS_PREEMPT_LAZY=y",
    )
    .files(
        "/proc/cmdline = root=/dev/sda1 isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3 processor.max_cstate=1
         /proc/sys/kernel/sched_rt_runtime_us = -1
         /proc/sys/kernel/sched_rt_period_us = 1000000
         /proc/sys/kernel/timer_migration = 0
         /proc/sys/kernel/nmi_watchdog = 0
         /proc/sys/kernel/soft_watchdog = 0
         /proc/sys/kernel/watchdog_thresh = 10
         /proc/sys/kernel/numa_balancing = 0
         /proc/sys/vm/compaction_proactiveness = 0
         /proc/sys/vm/compact_unevictable_allowed = 0
         /sys/kernel/realtime = 1
         /sys/kernel/mm/transparent_hugepage/enabled = always madvise [never]
         /sys/kernel/mm/ksm/run = 0
         /sys/devices/system/cpu/online = 0-3
         /sys/devices/system/cpu/isolated = 2-3
         /sys/devices/system/cpu/nohz_full = 2-3
         /sys/devices/system/cpu/smt/active = 0
         /sys/devices/system/cpu/cpuidle/current_driver = intel_idle
         /sys/devices/system/cpu/cpuidle/current_governor = menu
         /sys/devices/system/clocksource/clocksource0/current_clocksource = tsc
         /sys/devices/system/clocksource/clocksource0/available_clocksource = tsc hpet acpi_pm
         /sys/devices/virtual/workqueue/cpumask = 3
         /proc/irq/24/smp_affinity_list = 0-1
         /proc/irq/25/smp_affinity_list = 0-1
         /sys/class/dmi/id/sys_vendor = Supermicro
         /etc/os-release = ID=debian",
    )
    .each_cpu(
        0..4,
        "cpufreq/scaling_governor = performance
         cpufreq/scaling_driver = intel_pstate",
    )
    .idle_states(0..4, &[("POLL", 0), ("C1", 2)])
    .file("/dev/cpu_dma_latency", 2_000_000_000i32.to_ne_bytes())
    .file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) E-2278GE\nmicrocode\t: 0xf4\nflags\t\t: fpu tsc\n")
    .file("/proc/meminfo", "MemTotal:       32768000 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n")
    .file("/proc/stat", "cpu  500 0 300 99200 0 0 0 0 0 0\n")
    .file(
        "/proc/interrupts",
        "            CPU0       CPU1       CPU2       CPU3       \n \
         24:         10          0          0          0  IR-PCI-MSI-0000:00:17.0    0-edge      ahci[0000:00:17.0]\n \
         25:          0        999          0          0  IR-PCI-MSI-0000:01:00.0    0-edge      eth0\n\
         LOC:       5000       5000         40         41   Local timer interrupts\n",
    )
    .file("/proc/self/cgroup", "0::/\n")
    .file("/proc/self/mountinfo", CGROUP2)
    .own(ALL_CAPABILITIES, "0", "8388608", "0-3")
    .btf(&format!(
        "{STOCK_TRACE_POINTS} sched_entry_tp sched_exit_tp sched_set_need_resched_tp preempt_disable preempt_enable \
         irq_disable irq_enable"
    ))
    .process(1, "systemd", OTHER, 0)
    .process(900, "motion", FIFO, 80)
    .kernel_thread(14, "rcu_preempt", FIFO, 1)
    .kernel_thread(15, "rcub/0", FIFO, 1)
    .kernel_thread(16, "rcuc/0", FIFO, 1)
    .kernel_thread(17, "irq_work/0", FIFO, 1)
    .kernel_thread(18, "migration/0", FIFO, 99)
    .kernel_thread(19, "ktimers/0", FIFO, 1)
    .kernel_thread(20, "ksoftirqd/0", OTHER, 0)
    .kernel_thread(80, "irq/24-ahci[0000:00:17.0]", FIFO, 50)
    .kernel_thread(81, "irq/25-eth0", FIFO, 50);
    for cpu in 0..4 {
        let folder = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}");
        tree.files(&format!("{folder}/runtime = 50000000\n{folder}/period = 1000000000"));
    }
    tree
}

/// A laptop with a distribution's kernel 6.1: everything as it comes.
pub fn stock_laptop() -> Tree {
    let mut tree = Tree::empty();
    tree.facts = Facts {
        hostname: Some("lap".into()),
        kernel_release: Some("6.1.0-40-amd64".into()),
        kernel_version: Some("#1 SMP PREEMPT_DYNAMIC Debian 6.1.153-1 (2025-09-20)".into()),
        machine: Some("x86_64".into()),
        allowed: Some("0-7".parse().unwrap()),
        hypervisor_signature: None,
        left_over: Vec::new(),
    };
    // Debian keeps the configuration in /boot only.
    tree.file(
        "/boot/config-6.1.0-40-amd64",
        "CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ=250\nCONFIG_HIGH_RES_TIMERS=y\n\
         CONFIG_NO_HZ_FULL=y\nCONFIG_BPF_SYSCALL=y\nCONFIG_IRQ_FORCED_THREADING=y\n# CONFIG_RT_GROUP_SCHED is not set\n",
    )
    .files(
        "/proc/cmdline = BOOT_IMAGE=/boot/vmlinuz-6.1.0-40-amd64 root=/dev/nvme0n1p2 ro quiet
         /proc/sys/kernel/sched_rt_runtime_us = 950000
         /proc/sys/kernel/sched_rt_period_us = 1000000
         /proc/sys/kernel/timer_migration = 1
         /proc/sys/kernel/nmi_watchdog = 1
         /proc/sys/kernel/soft_watchdog = 1
         /proc/sys/kernel/watchdog_thresh = 10
         /proc/sys/kernel/numa_balancing = 0
         /proc/sys/vm/compaction_proactiveness = 20
         /proc/sys/vm/compact_unevictable_allowed = 1
         /sys/kernel/debug/sched/preempt = none (voluntary) full
         /sys/kernel/mm/transparent_hugepage/enabled = [always] madvise never
         /sys/kernel/mm/ksm/run = 1
         /sys/devices/system/cpu/online = 0-7
         /sys/devices/system/cpu/isolated =
         /sys/devices/system/cpu/nohz_full = (null)
         /sys/devices/system/cpu/smt/active = 1
         /sys/devices/system/cpu/cpuidle/current_driver = intel_idle
         /sys/devices/system/cpu/cpuidle/current_governor = menu
         /sys/devices/system/clocksource/clocksource0/current_clocksource = hpet
         /sys/devices/system/clocksource/clocksource0/available_clocksource = hpet acpi_pm
         /proc/irq/16/smp_affinity_list = 0-7
         /sys/class/dmi/id/sys_vendor = LENOVO
         /etc/os-release = ID=debian
         /etc/default/grub = GRUB_CMDLINE_LINUX=\"\"
         /usr/sbin/update-grub = #!/bin/sh",
    )
    .each_cpu(
        0..8,
        "cpufreq/scaling_governor = powersave
         cpufreq/scaling_driver = intel_cpufreq
         cpufreq/cpuinfo_min_freq = 400000
         cpufreq/cpuinfo_max_freq = 4600000
         cpufreq/cpuinfo_transition_latency = 20000",
    )
    .idle_states(0..8, &[("POLL", 0), ("C1E", 10), ("C6", 85), ("C8", 200), ("C10", 890)])
    .file("/dev/cpu_dma_latency", 2_000_000_000i32.to_ne_bytes())
    .file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: 11th Gen Intel(R) Core(TM) i7\nmicrocode\t: 0xbe\nflags\t\t: fpu tsc\n")
    .file("/proc/meminfo", "MemTotal:       16384000 kB\nSwapTotal:       2097148 kB\nSwapFree:        1048572 kB\n")
    .file("/proc/stat", "cpu  5000 10 3000 90000 100 0 50 0 0 0\n")
    .file(
        "/proc/interrupts",
        "            CPU0       CPU1       CPU2       CPU3       CPU4       CPU5       CPU6       CPU7       \n  \
         16:         10          0          0          0          0          0          0          0  IO-APIC   16-fasteoi   i801_smbus\n\
         NMI:          1          1          1          1          1          1          1          1   Non-maskable interrupts\n",
    )
    .file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n")
    .file("/proc/self/mountinfo", CGROUP2)
    .own(ALL_CAPABILITIES, "0", "8388608", "0-7")
    .btf(STOCK_TRACE_POINTS)
    .process(1, "systemd", OTHER, 0)
    .process(700, "irqbalance", OTHER, 0)
    .process(701, b"caf\xe9 ) S (x", OTHER, 0)
    .kernel_thread(14, "rcu_preempt", OTHER, 0)
    .kernel_thread(18, "migration/0", FIFO, 99)
    .kernel_thread(20, "ksoftirqd/0", OTHER, 0)
    .kernel_thread(80, "irq/16-i801_smbus", FIFO, 50);
    tree
}

/// A guest of two CPUs under KVM like many in clouds: 6.18, cgroup version 1, no DMI.
pub fn guest() -> Tree {
    let mut tree = Tree::empty();
    tree.facts = Facts {
        hostname: Some("vm".into()),
        kernel_release: Some("6.18.44-fc".into()),
        kernel_version: Some("#1 SMP PREEMPT_DYNAMIC @0".into()),
        machine: Some("x86_64".into()),
        allowed: Some("0-1".parse().unwrap()),
        hypervisor_signature: Some("KVMKVMKVM".into()),
        left_over: Vec::new(),
    };
    tree.config(
        "PREEMPT_NONE=y PREEMPT_BUILD=y PREEMPT_DYNAMIC=y HZ=250 HIGH_RES_TIMERS=y RT_GROUP_SCHED=y BPF_SYSCALL=y \
         IRQ_FORCED_THREADING=y ARCH_HAS_PREEMPT_LAZY=y",
    )
    .files(
        "/proc/cmdline = console=ttyS0 quiet
         /proc/sys/kernel/sched_rt_runtime_us = 950000
         /proc/sys/kernel/sched_rt_period_us = 1000000
         /proc/sys/kernel/timer_migration = 1
         /proc/sys/kernel/nmi_watchdog = 0
         /proc/sys/kernel/soft_watchdog = 1
         /proc/sys/kernel/watchdog_thresh = 10
         /proc/sys/kernel/numa_balancing = 0
         /proc/sys/vm/compaction_proactiveness = 20
         /proc/sys/vm/compact_unevictable_allowed = 1
         /sys/kernel/debug/sched/preempt = (none) voluntary full lazy
         /sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never
         /sys/kernel/mm/ksm/run = 0
         /sys/devices/system/cpu/online = 0-1
         /sys/devices/system/cpu/isolated =
         /sys/devices/system/cpu/smt/active = 0
         /sys/devices/system/cpu/cpuidle/current_driver = haltpoll
         /sys/devices/system/cpu/cpuidle/current_governor_ro = haltpoll
         /sys/devices/system/clocksource/clocksource0/current_clocksource = tsc
         /sys/devices/system/clocksource/clocksource0/available_clocksource = tsc kvm-clock
         /proc/irq/36/smp_affinity_list = 0-1
         /sys/fs/cgroup/cpu/cpu.rt_runtime_us = 950000
         /sys/fs/cgroup/cpu/tasks = 1
         /etc/os-release = ID=debian",
    )
    .idle_states(0..2, &[("POLL", 0), ("haltpoll idle", 1)])
    .file("/dev/cpu_dma_latency", 2_000_000_000i32.to_ne_bytes())
    .file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC\nmicrocode\t: 0x1000065\nflags\t\t: fpu tsc hypervisor\n")
    .file("/proc/meminfo", "MemTotal:       24684092 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n")
    .file("/proc/stat", "cpu  5954 0 3347 226667 527 0 42 13 0 0\n")
    .file(
        "/proc/interrupts",
        "           CPU0       CPU1       \n 36:          0      67581 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\nERR:          0\n",
    )
    .file("/proc/self/cgroup", "3:cpuset:/\n1:cpu:/\n0::/\n")
    .file(
        "/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
         34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
    )
    .own(ALL_CAPABILITIES, "0", "8388608", "0-1")
    .btf(&format!("{STOCK_TRACE_POINTS} sched_entry_tp sched_exit_tp sched_set_need_resched_tp"))
    .process(1, "init", OTHER, 0)
    .kernel_thread(14, "ksoftirqd/0", OTHER, 0)
    .kernel_thread(15, "rcu_preempt", OTHER, 0)
    .kernel_thread(18, "migration/0", FIFO, 99)
    .kernel_thread(50, "irq/36-virtio1", FIFO, 50);
    tree
}

/// A Raspberry Pi with a 6.6 kernel: no DMI, a device tree, CPU 0 off line.
pub fn aarch64_board() -> Tree {
    let mut tree = Tree::empty();
    tree.facts = Facts {
        hostname: Some("pi".into()),
        kernel_release: Some("6.6.51+rpt-rpi-v8".into()),
        kernel_version: Some("#1 SMP PREEMPT Debian 1:6.6.51-1+rpt3 (2024-10-08)".into()),
        machine: Some("aarch64".into()),
        allowed: Some("1-3".parse().unwrap()),
        hypervisor_signature: None,
        left_over: Vec::new(),
    };
    tree.files(
        "/proc/cmdline = console=tty1 root=PARTUUID=1 rootwait
         /proc/sys/kernel/sched_rt_runtime_us = 950000
         /proc/sys/kernel/sched_rt_period_us = 1000000
         /proc/sys/kernel/timer_migration = 1
         /proc/sys/kernel/soft_watchdog = 0
         /sys/devices/system/cpu/online = 1-3
         /sys/devices/system/cpu/isolated =
         /sys/devices/system/cpu/cpu1/topology/thread_siblings_list = 1
         /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor = ondemand
         /sys/devices/system/cpu/cpu1/cpufreq/scaling_driver = cpufreq-dt
         /sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_min_freq = 600000
         /sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq = 1800000
         /sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_transition_latency = 4294967295
         /sys/devices/system/cpu/cpuidle/current_driver = none
         /sys/devices/system/clocksource/clocksource0/current_clocksource = arch_sys_counter
         /sys/devices/system/clocksource/clocksource0/available_clocksource = arch_sys_counter
         /proc/irq/11/smp_affinity_list = 0-3
         /boot/firmware/cmdline.txt = console=tty1
         /etc/os-release = ID=debian",
    )
    .file("/proc/device-tree/model", b"Raspberry Pi 4 Model B Rev 1.4\0")
    .file("/proc/cpuinfo", "processor\t: 1\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\n")
    // No newline at the end, as a file of one value may come.
    .file("/sys/devices/system/cpu/possible", "0-3")
    .file(
        "/proc/interrupts",
        "           CPU1       CPU2       CPU3\n 11:    1234    5678    90     GICv2  30 Level     arch_timer\n\
         IPI0:     10     20     30       Rescheduling interrupts\n",
    )
    .own(NO_CAPABILITIES, "95", "unlimited", "1-3")
    .process(1, "systemd", OTHER, 0)
    .kernel_thread(14, "ksoftirqd/1", OTHER, 0);
    tree
}

/// The finding of this name.
pub fn finding<'a>(findings: &'a [Finding], id: &str) -> &'a Finding {
    findings
        .iter()
        .find(|finding| finding.id == id)
        .unwrap_or_else(|| panic!("no finding {id} in {findings:#?}"))
}

/// All that `doctor` says, as plain text.
pub fn text(doctor: &Doctor) -> String {
    let mut text = String::new();
    for EvidenceLevel { evidence, available, reason } in &doctor.evidence {
        writeln!(text, "{evidence}: {}: {reason}", if *available { "yes" } else { "no" }).unwrap();
    }
    for finding in &doctor.findings {
        writeln!(text, "\n[{}] {}: {}", finding.severity.name(), finding.id, finding.title).unwrap();
        for (name, value) in [("value", &finding.value), ("source", &finding.source), ("cost", &finding.cost)]
        {
            writeln!(text, "  {name}: {value}").unwrap();
        }
        if let Some(remedy) = &finding.remedy {
            writeln!(text, "  remedy: {remedy}").unwrap();
        }
    }
    text
}

/// Compares with a file under `tests/golden`; `LATEBOUND_BLESS=1` writes it anew.
pub fn assert_golden(name: &str, actual: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("LATEBOUND_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == actual,
        "{} differs; read it, then LATEBOUND_BLESS=1 cargo test -p latebound-system\n{actual}",
        path.display()
    );
}
