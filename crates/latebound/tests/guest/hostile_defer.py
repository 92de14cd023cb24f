# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks /dev/latebound_defer for what no well-meaning owner does, in a guest: commands of wrong sizes and directions, bad
addresses, structures at the edges of what is allowed, in any order, and closes it in the middle of runs. Says how many
commands the module took and how many it refused; whether the kernel minded is in its log.

Nothing here asks for more than milliseconds of a CPU: that a run which is allowed may be long is no fault of the module."""
import fcntl
import os
import random
import signal
import struct

DEVICE = "/dev/latebound_defer"
# The commands of latebound/defer.h: number to direction, and what its structure may hold, field by field.
WORD = [0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF]
LONG = [0, 1, 1 << 32, (1 << 64) - 1]
FEW = [0, 1, 2, 3, 0xFFFFFFFF]
PLAN = [
    ("I", [0]),  # version: `main` asks the module for its own
    ("I", [0, 0, 1, 2, 0xFFFFFFFF]),  # CPU
    ("Q", [1_000_000, 2_000_000, 0, 9_999, (1 << 64) - 1]),  # period
    ("Q", [0, 0, 1_000, (1 << 63), (1 << 64) - 1]),  # jitter
    ("Q", [50_000, 0, (1 << 64) - 1]),  # timer
    ("I", [1024, 1024, 0, 1, 1000, 0xFFFFFFFF]),  # records in the ring
    ("I", [0, 0, 1, 0x7FFFFFFF, 0xFFFFFFFF]),  # requester
    ("I", [0, 0, 16, 0xFFFFFFFF]),  # train
    ("I", [0, 1, 0xFFFFFFFF]),  # flags
    ("Q", [0, 1_000_000, (1 << 64) - 1]),  # pause
]
SERIES = [
    ("H", list(range(32)) + [0xFFFF]),  # mechanism
    ("B", [0, 1, 2, 3, 255]),  # context
    ("B", [0, 0, 1, 2, 4, 8, 255]),  # flags
    ("I", [0, 1, 2, 0xFFFFFFFF]),  # CPU
    ("I", [3, 100, 0, 0xFFFFFFFF]),  # triggers
    ("I", [1, 2, 0, 1025, 0xFFFFFFFF]),  # burst
    ("I", [0, 1_000, 1_000_001, 0xFFFFFFFF]),  # execution
    ("I", [0, 1_000, 100_000_001, 0xFFFFFFFF]),  # busy
    ("I", [0, 1, 2, 255, 256, 0xFFFFFFFF]),  # index
    ("I", [0, 0, 1, 0xFFFFFFFF]),  # runner
]
COMMANDS = {
    0xD0: (2, [("I", WORD)] * 2 + [("Q", LONG)] * 4),
    0xD1: (3, PLAN),
    0xD2: (3, SERIES),
    0xD3: (0, []),
    0xD4: (0, []),
    0xD5: (3, [("I", FEW)] * 2 + [("Q", LONG)] * 10),
    0xD6: (3, [("I", FEW)] * 2 + [("Q", LONG)] * 2),
}
# In the order that makes a run, so that some are under way when the rest comes.
ORDER = [0xD1, 0xD2, 0xD2, 0xD3]


def number(direction, size, command):
    return direction << 30 | size << 16 | ord("L") << 8 | command


def ask(device, command):
    direction, fields = COMMANDS[command]
    form = "=" + "".join(kind for kind, _ in fields)
    data = struct.pack(form, *(random.choice(values) for _, values in fields))
    size = len(data)
    what = random.random()
    if what < 0.1:
        direction, size = random.randrange(4), random.choice([0, 1, size + 8, 16383])
    if what > 0.9:
        return fcntl.ioctl(device, number(direction, size, command), random.choice([0, 1, 4095]))
    return fcntl.ioctl(device, number(direction, size, command), bytearray(data).ljust(1024, b"\xff"), True)


def main():
    random.seed(20)
    # Whoever waits for a request that never comes is interrupted.
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    with open(DEVICE, "r+b", buffering=0) as device:
        info = bytearray(40)
        fcntl.ioctl(device, number(2, len(info), 0xD0), info, True)
        (version,) = struct.unpack_from("=I", info)
    PLAN[0] = ("I", [version, version, version, 0, version + 1])
    taken = refused = started = 0
    for _ in range(60):
        device = os.open(DEVICE, os.O_RDWR)
        for command in ORDER + [random.choice(list(COMMANDS)) for _ in range(20)]:
            try:
                # What makes a run is asked for until it is taken, a few times.
                for _ in range(40 if command in ORDER else 1):
                    try:
                        ask(device, command)
                        taken += 1
                        started += command == 0xD3
                        break
                    except OSError:
                        refused += 1
                os.read(device, random.choice([0, 1, 80, 4096]))
            except OSError:
                refused += 1
        os.close(device)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("hostile", "taken" if taken > 100 else taken, "refused" if refused > 100 else refused,
          "started" if started > 10 else started)


main()
