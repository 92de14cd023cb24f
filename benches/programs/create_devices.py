# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real-time task that creates a device of the device mapper each period, and so waits for a new kernel thread each time.

Usage: create_devices.py NAME PRIORITY PERIOD COMMAND…

NAME is the task's, PERIOD is in seconds. COMMAND is started once the task has its priority, for what is to run beside: behind a task that computes
this program would take long to start. Each device has a workqueue for times without memory, and that a thread of its own (drivers/md/dm.c,
alloc_dev). A process of ordinary priority removes all of them when the task has ended: whoever removes one waits for RCU with a lock that a
creation needs. Needs root and dm_mod. Numbers and layouts are those of linux/dm-ioctl.h (6.1 to 7.3).
"""
import ctypes, fcntl, gc, os, signal, struct, sys, time

# _IOWR(DM_IOCTL, number, struct dm_ioctl)
DM_DEV_CREATE, DM_DEV_REMOVE = (3 << 30 | 312 << 16 | 0xFD << 8 | number for number in (3, 4))
MCL_CURRENT, MCL_FUTURE = 1, 2

if len(sys.argv) < 5:
    sys.exit("usage: create_devices.py NAME PRIORITY PERIOD COMMAND…")
task, priority, period, command = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
control = os.open("/dev/mapper/control", os.O_RDWR)


def call(request, name):
    """One request about a device without a table."""
    version, sizes = (4, 0, 0), (312, 312)
    fcntl.ioctl(control, request, bytearray(struct.pack("<5I28x128s129s7x", *version, *sizes, name, b"")))


def remove_all(names):
    """Once nobody is there who creates."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with os.fdopen(names, "rb") as lines:
        for name in list(lines):
            call(DM_DEV_REMOVE, name.strip())


names, created = os.pipe()
if os.fork() == 0:
    os.close(created)
    remove_all(names)
    os._exit(0)
os.close(names)
ready, begin = os.pipe()
if os.fork() == 0:
    os.close(created)
    os.close(begin)
    os.read(ready, 1)
    os.execvp(command[0], command)
with open("/proc/self/comm", "w") as file:
    file.write(task)
gc.disable()
ctypes.CDLL(None).mlockall(MCL_CURRENT | MCL_FUTURE)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
os.close(begin)
due, number = time.monotonic(), 0
while True:
    name = f"{task}-{os.getpid()}-{number}".encode()
    call(DM_DEV_CREATE, name)
    os.write(created, name + b"\n")
    number += 1
    due = max(due + period, time.monotonic())
    time.sleep(max(due - time.monotonic(), 0))
