# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks /dev/latebound_tune for what no well-meaning owner does, in a guest: commands of wrong sizes and directions, bad
addresses, tables at the edges of what is allowed for threads that are, that are not and that must not be, reads of odd sizes, in
any order, and closes it in between. Says how many commands the module took and how many it refused, and that no thread that it must not
touch was taken; whether the kernel minded is in its log."""
import errno
import fcntl
import glob
import os
import random
import struct

DEVICE = "/dev/latebound_tune"
INFO, START, THREAD, SERVES, COUNTS, STOP = range(0xF0, 0xF6)
SIZES = {INFO: (2, 8), START: (3, 8), THREAD: (1, 120), SERVES: (1, 16), COUNTS: (2, 32), STOP: (0, 0)}


def number(command, direction=None, size=None):
    usual, length = SIZES[command]
    direction = usual if direction is None else direction
    return direction << 30 | (length if size is None else size) << 16 | ord("L") << 8 | command


def threads():
    """(id, start, name, whether of the kernel) of every thread."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            stat = open(path, encoding="ascii").read()
        except OSError:
            continue
        name = stat[stat.index("(") + 1:stat.rindex(")")]
        rest = stat[stat.rindex(")") + 2:].split()
        found.append((int(path.split("/")[2]), int(rest[19]), name, bool(int(rest[6]) & 0x00200000)))
    return found


def table(thread, start, levels):
    return struct.pack("=IIQ", thread, 0, start) + bytes(levels) + bytes(4)


def give(device, thread, start, levels):
    return fcntl.ioctl(device, number(THREAD), table(thread, start, levels))


def refused(device, wanted, *arguments):
    try:
        give(device, *arguments)
    except OSError as error:
        return error.errno == wanted
    return False


def rules(everybody):
    """What the module must keep to, whatever its owner asks."""
    device = os.open(DEVICE, os.O_RDWR)
    flat = [0] + [40] * 99
    kernel = {name: (tid, start) for tid, start, name, is_kernel in everybody if is_kernel}
    worker, user = kernel["kswapd0"], next(one for one in everybody if one[0] == os.getpid())
    kept = [refused(device, errno.EINVAL, *worker, flat)]  # before START
    fcntl.ioctl(device, number(START), struct.pack("=II", 60, 0))
    kept += [
        refused(device, errno.EINVAL, *worker, [0] + [60] * 99),  # at the watchdog
        refused(device, errno.EINVAL, *worker, [1] + [40] * 99),  # for no priority at all
        refused(device, errno.ESRCH, worker[0], worker[1] + 1, flat),  # another life of that id
        refused(device, errno.ESRCH, 0x3FFFFFFF, 0, flat),
        refused(device, errno.EPERM, *user[:2], flat),
        refused(device, errno.EPERM, *kernel["migration/0"], flat),
    ]
    try:
        os.open(DEVICE, os.O_RDWR)
        kept.append(False)
    except OSError as error:
        kept.append(error.errno == errno.EBUSY)
    give(device, *worker, flat)
    fcntl.ioctl(device, number(STOP))
    kept.append(refused(device, errno.ESHUTDOWN, *worker, flat))
    os.close(device)
    return all(kept), kept


def anything(device, everybody):
    command = random.choice(list(SIZES))
    direction, size = SIZES[command]
    tid, start, _, _ = random.choice(everybody)
    data = bytes(random.choices([0, 1, 2, 98, 255], k=max(size, 8)))
    if command == START:
        data = struct.pack("=II", random.choice([0, 1, 2, 98, 99, 100, 0xFFFFFFFF]), 0)
    if command == THREAD:
        level = random.choice([0, 1, 50, 97, 98, 255])
        data = table(tid, start + random.choice([0, 0, 0, 1]), [0] + [level] * 99)
    if command == SERVES:
        data = struct.pack("=IIQ", random.choice([0, 0, 1, 2, 3, 0xFFFFFFFF]), tid, random.choice([0, 1, 1 << 63]))
    if command == STOP and random.random() < 0.9:
        return 0
    what = random.random()
    if what < 0.1:
        direction, size = random.randrange(4), random.choice([0, 1, size + 8, 16383])
    if what > 0.9:
        return fcntl.ioctl(device, number(command, direction, size), random.choice([0, 1, 4095]))
    return fcntl.ioctl(device, number(command, direction, size), bytearray(data).ljust(1024, b"\xff"), True)


def main():
    random.seed(20)
    taken = denied = 0
    everybody = threads()
    for _ in range(40):
        device = os.open(DEVICE, os.O_RDWR)
        for _ in range(60):
            try:
                anything(device, everybody)
                taken += 1
                os.read(device, random.choice([0, 1, 31, 32, 100, 4096]))
            except OSError:
                denied += 1
        os.close(device)
    kept, which = rules(everybody)
    print("hostile", "taken" if taken > 100 else taken, "refused" if denied > 100 else denied, "kept" if kept else which)


main()
