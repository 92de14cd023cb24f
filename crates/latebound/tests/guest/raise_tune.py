# SPDX-License-Identifier: MIT OR Apache-2.0
"""Has the module latebound_tune raise threads over each kind of wait, without the tuner, in a guest with a disk that is larger than its memory: gives
every worker, kswapd and the threads of the disk a table, has a real-time task wait for them, and lowers again whatever was raised, so that
it is raised anew. Says how often each kind was, and what the kernel says of its own checks. Written for kernels that check memory and locks, where the
tuner itself takes too long to start."""
import collections
import fcntl
import glob
import mmap
import os
import re
import statistics
import struct
import subprocess
import sys
import time

DEVICE, DISK = "/dev/latebound_tune", "/dev/vda"
START, THREAD, SERVES, COUNTS, STOP = 0xC0084CF1, 0x40784CF2, 0x40104CF3, 0x80204CF4, 0x4CF5
KINDS = ["block_io", "reclaim", "work_item"]
TO, WAITS_AT = 45, 60
PAGE = 4096


def kernel_threads():
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            stat = open(path, encoding="ascii").read()
        except OSError:
            continue
        rest = stat[stat.rindex(")") + 2:].split()
        if int(rest[6]) & 0x00200000:
            yield int(path.split("/")[2]), int(rest[19]), stat[stat.index("(") + 1:stat.rindex(")")]


def fifo(thread, priority):
    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))


def give(device, given):
    """Tables to those that are new; also whom they serve."""
    number = os.stat(DISK).st_rdev
    disk = os.major(number) << 20 | os.minor(number)
    for tid, start, name in kernel_threads():
        # Where interrupts have no threads, the disk's worker stands in for one.
        of_disk = re.match("irq/.*virtio|kworker/.*kblockd", name)
        if tid in given or not (of_disk or name.startswith(("kworker/", "kswapd"))):
            continue
        try:
            fcntl.ioctl(device, THREAD, struct.pack("=IIQ", tid, 0, start) + bytes([0] + [TO] * 99) + bytes(4))
            if of_disk:
                fcntl.ioctl(device, SERVES, struct.pack("=IIQ", 0, tid, disk))
            if name.startswith("kswapd"):
                fcntl.ioctl(device, SERVES, struct.pack("=IIQ", 1, tid, int(name[6:])))
        except (ProcessLookupError, PermissionError):
            continue
        given[tid] = (os.sched_getscheduler(tid), os.sched_getparam(tid))


def waits():
    """Waits for the disk, for a worker (what is written to a pseudo terminal is handed on by one), and for pages."""
    fifo(0, WAITS_AT)
    page = mmap.mmap(-1, PAGE)
    direct, cached = os.open(DISK, os.O_RDONLY | os.O_DIRECT), os.open(DISK, os.O_RDONLY)
    master, _slave = os.openpty()
    while True:
        os.preadv(direct, [page], 0)
        os.write(master, b"\n")
        time.sleep(0.005)
        for _ in range(8):
            if len(os.read(cached, 256 * 1024)) == 0:
                os.lseek(cached, 0, os.SEEK_SET)
        time.sleep(0.005)


def keep_free():
    """Has the kernel reclaim pages long before the memory is full, so that kswapd is woken soon."""
    free = int(re.search(r"MemFree: *(\d+)", open("/proc/meminfo", encoding="ascii").read())[1])
    with open("/proc/sys/vm/min_free_kbytes", "w", encoding="ascii") as least:
        least.write(str(free * 6 // 10))


def main():
    seconds = float(sys.argv[1])
    keep_free()
    device = os.open(DEVICE, os.O_RDWR)
    fcntl.ioctl(device, START, struct.pack("=II", 98, 0))
    given = {}
    give(device, given)
    child = os.fork()
    if child == 0:
        os.close(device)
        try:
            waits()
        finally:
            os._exit(1)
    # Above who waits, and what is raised.
    fifo(0, 70)
    took, until, new = collections.defaultdict(list), time.monotonic() + seconds, 0.0
    while time.monotonic() < until:
        time.sleep(0.004)
        if time.monotonic() > new:
            give(device, given)
            new = time.monotonic() + 1
        try:
            records = os.read(device, 32 * 512)
        except BlockingIOError:
            continue
        for asked, raised, tid, task, kind, _priority, to, _from in struct.iter_unpack("=QQIIBBBB4x", records):
            if task != child or to != TO:
                sys.exit(f"raised thread {tid} to {to} for task {task}; only {child} waits, for {TO}")
            took[KINDS[kind]].append(raised - asked)
            try:
                os.sched_setscheduler(tid, *given[tid])
            except ProcessLookupError:
                del given[tid]
    os.kill(child, 9)
    os.waitpid(child, 0)
    fcntl.ioctl(device, STOP)
    raised, failed, needless, lost = struct.unpack("=QQQQ", fcntl.ioctl(device, COUNTS, bytes(32)))
    for tid, was in given.items():
        try:
            os.sched_setscheduler(tid, *was)
        except ProcessLookupError:
            pass
    os.close(device)
    for kind in KINDS:
        median = int(statistics.median(took[kind])) if took[kind] else "-"
        print(f"{kind} n {len(took[kind])} median {median} ns")
    print(f"raised {raised} failed {failed} needless {needless} lost {lost}")
    if os.path.exists("/proc/lockdep_stats"):
        # 0 after the first complaint.
        stats = open("/proc/lockdep_stats", encoding="ascii").read()
        print("lockdep", "at work" if re.search(r"debug_locks: *1", stats) else "gave up")
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    minded = [line for line in log.splitlines() if re.search("BUG|WARNING|Call Trace|INFO: (possible|rcu|task|trying)|KASAN: ", line)]
    print("\n".join(minded) or "quiet")


main()
