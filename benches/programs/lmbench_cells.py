# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times operations of lmbench without and with a tuner in turns, and compares them, for benches/tune-vs-off.

Usage: lmbench_cells.py run LATEBOUND LMBENCH ROUNDS PATTERN EACH CONFIG     in the guest; a line of JSON for each cell that was timed
       lmbench_cells.py table FILE ROUNDS PATTERN                            the table of such lines; fails if a cell is not timed in each round
       lmbench_cells.py list                                                 the cells
"""
import json, math, os, re, shutil, signal, socket, statistics, subprocess, sys, time

# The folder with the files that are read, made and deleted: ext4 on the scratch disk.
FILES = "/run/files"
FILE = FILES + "/file"
NUMBER = r"(\d+(?:\.\d+)?)"


def microseconds(said):
    return re.escape(said) + ": " + NUMBER + " microseconds", lambda value: value * 1000


def bandwidth(before):
    return before + NUMBER + r"(?: MB/sec)?", lambda value: 1e9 / value


def context(size, processes):
    return rf'"size={size}k ovr={NUMBER[1:-1]}\n{processes} {NUMBER}', lambda value: value * 1000


# A row for each program that runs: its cells, the program, all that it says, and how a number of that becomes nanoseconds. A bandwidth is
# timed as nanoseconds for a megabyte, a file of `lat_fs` as nanoseconds for a file: more is worse in each. Sizes and options are those of
# which lmbench's own `getsummary` makes the columns, with 4 MB as the memory (2 MB where two buffers are needed). A cell of two rows is their mean.
ROWS = [
    (["2: null call"], "lat_syscall -N 3 null", *microseconds("Simple syscall")),
    (["2: null I/O"], "lat_syscall -N 3 read", *microseconds("Simple read")),
    (["2: null I/O"], "lat_syscall -N 3 write", *microseconds("Simple write")),
    (["2: stat"], f"lat_syscall -N 3 stat {FILE}", *microseconds("Simple stat")),
    (["2: open clos"], f"lat_syscall -N 3 open {FILE}", *microseconds("Simple open/close")),
    (["2: slct TCP"], "lat_select -N 3 -n 100 tcp", *microseconds("Select on 100 tcp fd's")),
    (["2: sig inst"], "lat_sig -N 3 install", *microseconds("Signal handler installation")),
    (["2: sig hndl"], "lat_sig -N 3 catch", *microseconds("Signal handler overhead")),
    (["2: fork proc"], "lat_proc -N 3 fork", *microseconds("Process fork+exit")),
    (["2: exec proc"], "lat_proc -N 3 exec", *microseconds("Process fork+execve")),
    (["2: sh proc"], "lat_proc -N 3 shell", *microseconds("Process fork+/bin/sh -c")),
    (["3: 2p/0k"], "lat_ctx -N 3 -s 0 2", *context(0, 2)),
    (["3: 2p/16k"], "lat_ctx -N 3 -s 16 2", *context(16, 2)),
    (["3: 2p/64k"], "lat_ctx -N 3 -s 64 2", *context(64, 2)),
    (["3: 8p/16k"], "lat_ctx -N 3 -s 16 8", *context(16, 8)),
    (["3: 8p/64k"], "lat_ctx -N 3 -s 64 8", *context(64, 8)),
    (["3: 16p/16k"], "lat_ctx -N 3 -s 16 16", *context(16, 16)),
    (
        ["4: 0k file create", "4: 0k file delete", "4: 10k file create", "4: 10k file delete"],
        f"lat_fs -N 3 {FILES}",
        rf"0k\s+\d+\s+{NUMBER}\s+{NUMBER}\n(?:[14]k\s.*\n)*10k\s+\d+\s+{NUMBER}\s+{NUMBER}",
        lambda value: 1e9 / value,
    ),
    (["4: mmap latency"], f"lat_mmap -N 3 4m {FILE}", r"4\.194304 " + NUMBER, lambda value: value * 1000),
    (["4: prot fault"], f"lat_sig -N 3 prot {FILE}", *microseconds("Protection fault")),
    (["4: page fault"], f"lat_pagefault -N 3 {FILE}", *microseconds(f"Pagefaults on {FILE}")),
    (["5: 2p/0k"], "lat_ctx -N 3 -s 0 2", *context(0, 2)),
    (["5: pipe"], "lat_pipe -N 3", *microseconds("Pipe latency")),
    (["5: AF UNIX"], "lat_unix -N 3", *microseconds("AF_UNIX sock stream latency")),
    (["5: UDP"], "lat_udp -N 3 127.0.0.1", *microseconds("UDP latency using 127.0.0.1")),
    (["5: TCP"], "lat_tcp -N 3 127.0.0.1", *microseconds("TCP latency using 127.0.0.1")),
    (["5: TCP conn"], "lat_connect -N 3 127.0.0.1", *microseconds("TCP/IP connection cost to 127.0.0.1")),
    (
        ["6: L1 cache", "6: L2 cache", "6: main mem"],
        "lat_mem_rd -N 3 4 128",
        rf'"stride=128\n(?:\d.*\n)*0\.00098 {NUMBER}\n(?:\d.*\n)*0\.12500 {NUMBER}\n(?:\d.*\n)*4\.00000 {NUMBER}',
        lambda value: value,
    ),
    (["7: pipe"], "bw_pipe -N 3 -m 64k -M 1m", *bandwidth("Pipe bandwidth: ")),
    (["7: AF UNIX"], "bw_unix -N 3 -m 64k -M 1m", *bandwidth("AF_UNIX sock stream bandwidth: ")),
    (["7: TCP"], "bw_tcp -N 3 -m 64k -M 1m 127.0.0.1", *bandwidth(r"0\.065536 ")),
    (["7: file reread"], f"bw_file_rd -N 3 4m io_only {FILE}", *bandwidth(r"4\.19 ")),
    (["7: mmap reread"], f"bw_mmap_rd -N 3 4m mmap_only {FILE}", *bandwidth(r"4\.19 ")),
    (["7: bcopy (libc)"], "bw_mem -N 3 2m bcopy", *bandwidth(r"2\.10 ")),
    (["7: bcopy (hand)"], "bw_mem -N 3 2m fcp", *bandwidth(r"2\.10 ")),
    (["7: mem read"], "bw_mem -N 3 4m frd", *bandwidth(r"4\.19 ")),
    (["7: mem write"], "bw_mem -N 3 4m fwr", *bandwidth(r"4\.19 ")),
]


def cells(pattern):
    return list(dict.fromkeys(cell for row in ROWS for cell in row[0] if re.search(pattern, cell)))


def unit(cell):
    return "ns/MB" if cell.startswith("7") else "ns"


def tell(**what):
    print(json.dumps(what), flush=True)


class Tuner:
    """`latebound tune run`, while it is wanted."""

    def __init__(self, config):
        self.config = config
        self.child = None

    def with_(self):
        if self.child is not None:
            return
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ready.settimeout(120)
        ready.bind("/run/ready")
        command = ["/run/latebound-binary", "tune", "run", "--config", self.config, "--journal", "/run/journal"]
        said = open("/run/said", "w")
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, "NOTIFY_SOCKET": "/run/ready"})
        try:
            ready.recv(64)
        except TimeoutError:
            sys.exit("the tuner is not ready after two minutes: " + open("/run/said").read())
        ready.close()
        os.unlink("/run/ready")

    def without(self):
        if self.child is None:
            return
        self.running()
        self.child.send_signal(signal.SIGINT)
        self.child.wait()
        tell(tuner=open("/run/said").read())
        self.child = None

    def running(self):
        if self.child is not None and self.child.poll() is not None:
            sys.exit("the tuner has ended: " + open("/run/said").read())


def run(latebound, lmbench, rounds, pattern, each, config):
    shutil.copy(latebound, "/run/latebound-binary")
    shutil.copytree(lmbench, "/run/lmbench")
    # Debian's lat_proc runs this copy, and times a failure without it.
    os.makedirs("/var/tmp/lmbench", exist_ok=True)
    shutil.copy(lmbench + "/hello", "/var/tmp/lmbench/hello")
    with open("/run/tune.toml", "w") as file:
        file.write(config + "\n")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.mkdir(FILES)
    subprocess.run(["mkfs.ext4", "-q", "/dev/vda"], check=True)
    subprocess.run(["mount", "/dev/vda", FILES], check=True)
    with open(FILE, "wb") as file:
        file.write(bytes(4 << 20))
    os.sync()
    # The CPU is never idle: time by instructions passes in the same way with a program that waits.
    subprocess.Popen(["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"])
    # What calibrates lmbench takes long, and is the same each time.
    environment = {**os.environ, "ENOUGH": each, "TIMING_O": "0", "LOOP_O": "0", "PATH": os.environ["PATH"] + ":/run/lmbench"}
    for server in ("lat_udp", "lat_tcp", "lat_connect", "bw_tcp"):
        subprocess.run([f"/run/lmbench/{server}", "-s"], env=environment, stdout=sys.stderr, check=False)
    tuner = Tuner("/run/tune.toml")
    for number in range(1, rounds + 1):
        for state in ("with", "without") if number % 2 else ("without", "with"):
            tuner.with_() if state == "with" else tuner.without()
            for names, command, pattern_of_all, nanoseconds in ROWS:
                if not any(re.search(pattern, name) for name in names):
                    continue
                begun = time.monotonic()
                try:
                    done = subprocess.run(
                        command.split(), executable="/run/lmbench/" + command.split()[0], cwd="/run/lmbench", env=environment,
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                    )
                    said = done.stdout
                except subprocess.TimeoutExpired as late:
                    said = f"{late}: {late.stdout}"
                found = re.fullmatch(pattern_of_all, said.strip())
                if found is None or any(float(value) == 0 for value in found.groups()):
                    tell(round=number, state=state, command=command, said=said)
                    continue
                for name, value in zip(names, found.groups()):
                    tell(round=number, state=state, cell=name, ns=nanoseconds(float(value)), took=round(time.monotonic() - begun, 3))
            tuner.running()
    tuner.without()
    tell(ended=True)


def interval(ratios):
    """The interval of two order statistics that holds the median in at least 95 % of cases."""
    n = len(ratios)
    # The largest k with P(fewer than k of n are below the median) at most 2.5 %.
    k = 0
    while sum(math.comb(n, i) for i in range(k + 1)) / 2**n <= 0.025:
        k += 1
    return (ratios[k - 1], ratios[n - k]) if k else None


def table(file, rounds, pattern):
    times, failures, ended = {}, [], False
    for line in open(file):
        one = json.loads(line)
        if "cell" in one:
            times.setdefault(one["cell"], {}).setdefault(one["round"], {}).setdefault(one["state"], []).append(one["ns"])
        elif "said" in one:
            failures.append(f"round {one['round']}, {one['state']}: {one['command']}: not understood: {one['said']!r}")
        elif "ended" in one:
            ended = True
    if not ended:
        failures.append("the run did not come to its end")
    above = []
    print(f"{'table and column of the paper':30} {'n':>3} {'without':>17} {'with/without':>12}  interval of 95 % or more")
    for cell in cells(pattern):
        values = sum(cell in row[0] for row in ROWS)
        pairs = [one for one in times.get(cell, {}).values() if all(len(one.get(state, [])) == values for state in ("with", "without"))]
        n = len(pairs)
        if n < rounds:
            failures.append(f"{cell}: timed in {n} rounds of {rounds}")
        if n == 0:
            print(f"{cell:30}   0 not timed")
            continue
        ratios = sorted(statistics.mean(one["with"]) / statistics.mean(one["without"]) for one in pairs)
        base = statistics.median(statistics.mean(one["without"]) for one in pairs)
        found = interval(ratios)
        said = f"{found[0]:.4f} to {found[1]:.4f}" if found else f"too few rounds; {ratios[0]:.4f} to {ratios[-1]:.4f} met"
        if (found[1] if found else ratios[-1]) > 1.02:
            above.append(cell)
        print(f"{cell:30} {n:3} {base:11.{1 if base < 1000 else 0}f} {unit(cell):5} {statistics.median(ratios):12.4f}  {said}")
    print(f"\n{len(cells(pattern))} cells; above 1.02 by the upper end: {', '.join(above) or 'none'}")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


match sys.argv[1:]:
    case ["run", latebound, lmbench, rounds, pattern, each, config]:
        run(latebound, lmbench, int(rounds), pattern, each, config)
    case ["table", file, rounds, pattern]:
        sys.exit(table(file, int(rounds), pattern))
    case ["list"]:
        print(*cells("."), sep="\n")
    case _:
        sys.exit(__doc__)
