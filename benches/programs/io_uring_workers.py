# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shows which scheduling policy and priority the workers of a ring of io_uring have, by when the task set its own.

Usage: io_uring_workers.py before|after

Reads /dev/zero by a request that io_uring has to give to a worker (IOSQE_ASYNC), as SCHED_FIFO 60. `before`: the task sets its priority before its
first request. `after`: it sets it between the first and the second. Needs root. Numbers and layouts are those of linux/io_uring.h (5.1 to 7.3).
"""
import ctypes, mmap, os, struct, sys

IO_URING_SETUP, IO_URING_ENTER = 425, 426
IORING_OFF_SQES, IORING_OP_READ, IOSQE_ASYNC, IORING_ENTER_GETEVENTS = 0x10000000, 22, 1 << 4, 1
BOTH = mmap.PROT_READ | mmap.PROT_WRITE

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    answer = libc.syscall(number, *arguments)
    if answer < 0:
        sys.exit(f"io_uring: system call {number}: {os.strerror(ctypes.get_errno())}")
    return answer


class Ring:
    def __init__(self):
        # struct io_uring_params: ten numbers, then the offsets of the submission queue: head, tail, mask, entries, flags, dropped, array.
        params = (ctypes.c_uint32 * 30)()
        self.file = call(IO_URING_SETUP, 8, ctypes.byref(params))
        self.entries, self.tail_at, self.array_at = params[0], params[11], params[16]
        self.queue = mmap.mmap(self.file, self.array_at + 4 * self.entries, mmap.MAP_SHARED, BOTH)
        self.requests = mmap.mmap(self.file, 64 * self.entries, mmap.MAP_SHARED, BOTH, offset=IORING_OFF_SQES)

    def read_by_worker(self, file, buffer):
        """One request, and a wait until it is done."""
        (tail,) = struct.unpack_from("I", self.queue, self.tail_at)
        at = tail % self.entries
        request = IORING_OP_READ, IOSQE_ASYNC, 0, file, 0, ctypes.addressof(buffer), len(buffer)
        struct.pack_into("BBHiQQI", self.requests, 64 * at, *request)
        struct.pack_into("I", self.queue, self.array_at + 4 * at, at)
        struct.pack_into("I", self.queue, self.tail_at, tail + 1)
        call(IO_URING_ENTER, self.file, 1, 1, IORING_ENTER_GETEVENTS, None, 0)


def workers():
    """The workers of this process, each with its policy and priority."""
    for task in map(int, os.listdir("/proc/self/task")):
        with open(f"/proc/self/task/{task}/comm") as file:
            comm = file.read().strip()
        if comm.startswith("iou-wrk-"):
            policy = "SCHED_FIFO" if os.sched_getscheduler(task) == os.SCHED_FIFO else "SCHED_OTHER"
            yield f"{policy} {os.sched_getparam(task).sched_priority}"


if sys.argv[1:] not in (["before"], ["after"]):
    sys.exit("usage: io_uring_workers.py before|after")
ring, buffer, zeros = Ring(), ctypes.create_string_buffer(4096), os.open("/dev/zero", os.O_RDONLY)
if sys.argv[1] == "after":
    ring.read_by_worker(zeros, buffer)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
ring.read_by_worker(zeros, buffer)
print(f"{os.uname().release}: priority set {sys.argv[1]} the first request: the task SCHED_FIFO 60, its worker {', '.join(workers())}")
