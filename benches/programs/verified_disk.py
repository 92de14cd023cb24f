# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a verified device of a file system's image, in memory: /dev/mapper/verified, on /dev/ram0 with its hashes on /dev/ram1.

Usage: verified_disk.py IMAGE

The kernel compares what is read with the hashes in a softirq (dm-verity's option try_verify_in_tasklet). The tree of hashes is of version 1, without
salt, as drivers/md/dm-verity-target.c reads it (6.1 to 7.3): the root's level first. Needs root, brd, dm_verity and dmsetup.
"""
import hashlib, os, subprocess, sys

BLOCK = 4096
os.environ["PATH"] += ":/usr/sbin:/sbin"
# dmsetup makes the node itself: nobody else may be there who does.
os.environ["DM_DISABLE_UDEV"] = "1"


def level_above(blocks):
    """The blocks with the digests of these, the last one filled up with zeroes."""
    digests = b"".join(hashlib.sha256(block).digest() for block in blocks)
    return [digests[at : at + BLOCK].ljust(BLOCK, b"\0") for at in range(0, len(digests), BLOCK)]


if len(sys.argv) != 2:
    sys.exit("usage: verified_disk.py IMAGE")
with open(sys.argv[1], "rb") as file:
    image = file.read()
data = [image[at : at + BLOCK] for at in range(0, len(image), BLOCK)]
levels = [level_above(data)]
while len(levels[-1]) > 1:
    levels.append(level_above(levels[-1]))
root = hashlib.sha256(levels[-1][0]).hexdigest()
hashes = b"".join(block for level in reversed(levels) for block in level)
subprocess.run(["modprobe", "brd", "rd_nr=2", f"rd_size={len(image) // 1024}"], check=True)
subprocess.run(["modprobe", "dm_verity"], check=True)
for device, content in (("/dev/ram0", image), ("/dev/ram1", hashes)):
    with open(device, "wb") as file:
        file.write(content)
table = f"0 {len(image) // 512} verity 1 /dev/ram0 /dev/ram1 {BLOCK} {BLOCK} {len(data)} 0 sha256 {root} - 1 try_verify_in_tasklet"
subprocess.run(["dmsetup", "create", "verified", "--readonly", "--table", table], check=True)
