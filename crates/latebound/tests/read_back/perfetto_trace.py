#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a Perfetto trace with Perfetto's own published schema, and checks what every such trace must hold.

    perfetto_trace.py FILE

Every field is known to the schema, slices nest and balance on declared tracks, each flow has both ends at one time, what is on other
threads' tracks belongs to a job, and the leaves of a job add up to it. Prints a JSON object: the jobs, and how many slices and flows
there are."""

import collections
import json
import pathlib
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


# What is written, by the schema's names: a number that belongs to another field would be known all the same.
WRITTEN = {
    "Trace": {"packet"},
    "TracePacket": {
        "clock_snapshot", "timestamp", "timestamp_clock_id", "track_descriptor", "track_event", "trusted_packet_sequence_id"
    },
    "ClockSnapshot": {"clocks", "primary_trace_clock"},
    "Clock": {"clock_id", "timestamp"},
    "TrackDescriptor": {"uuid", "name", "process", "thread", "parent_uuid"},
    "ProcessDescriptor": {"pid", "process_name"},
    "ThreadDescriptor": {"pid", "tid", "thread_name"},
    "TrackEvent": {
        "categories", "debug_annotations", "flow_ids", "name", "terminating_flow_ids", "track_uuid", "type"
    },
    "DebugAnnotation": {"name", "string_value", "uint_value"},
}


def known(message, path):
    """Fails where a message below this one has a field that the schema lacks, has with another type, or that is not one of those written."""
    unknown = [field.field_number for field in unknown_fields.UnknownFieldSet(message)]
    assert not unknown, (path, unknown)
    for field, value in message.ListFields():
        assert field.name in WRITTEN[message.DESCRIPTOR.name], (path, field.name)
        if field.message_type:
            for one in value if field.is_repeated else [value]:
                known(one, f"{path}.{field.name}")


data = pathlib.Path(sys.argv[1]).read_bytes()
trace = schema.Trace.FromString(data)
known(trace, "Trace")
# A repeated field that is packed where the schema does not pack it would come back in other bytes.
assert trace.SerializeToString(deterministic=True) == data

clock = schema.BUILTIN_CLOCK_MONOTONIC
first, *packets = trace.packet
assert first.WhichOneof("data") == "clock_snapshot", first
assert first.clock_snapshot.primary_trace_clock == clock
assert [one.clock_id for one in first.clock_snapshot.clocks] == [clock]
assert all(packet.trusted_packet_sequence_id for packet in trace.packet)

tracks, open_slices, jobs, kept = {}, collections.defaultdict(list), [], []
leaves = collections.defaultdict(list)
leaves_at, arrives_at = {}, {}
last = 0
for packet in packets:
    if packet.WhichOneof("data") == "track_descriptor":
        track = packet.track_descriptor
        assert track.uuid and track.uuid not in tracks, track
        assert not track.HasField("parent_uuid") or track.parent_uuid in tracks, track
        assert track.name or track.process.process_name or track.thread.thread_name, track
        if track.HasField("thread"):
            # The process is not known, so a thread stands for one.
            assert track.thread.tid == track.thread.pid == tracks[track.parent_uuid].process.pid, track
        tracks[track.uuid] = track
        continue
    assert packet.WhichOneof("data") == "track_event", packet
    assert packet.timestamp_clock_id == clock and packet.timestamp >= last, packet
    event, at = packet.track_event, packet.timestamp
    last = at
    stack = open_slices[event.track_uuid]
    if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
        assert event.name and len(event.categories) == 1 and event.track_uuid in tracks, packet
        for flow in event.terminating_flow_ids:
            assert leaves_at[flow] == at and flow not in arrives_at, packet
            arrives_at[flow] = at
        for flow in event.flow_ids:
            assert flow not in leaves_at, packet
            leaves_at[flow] = at
        stack.append((at, event))
        continue
    assert event.type == schema.TrackEvent.TYPE_SLICE_END, packet
    start, begin = stack.pop()
    track = tracks[event.track_uuid]
    if track.name.startswith("jobs of "):
        if stack:
            assert len(stack) == 1, packet
            leaves[event.track_uuid].append((start, at))
        else:
            notes = {one.name: one for one in begin.debug_annotations}
            job = {"track": track.name, "name": begin.name, "category": begin.categories[0], "start": start, "end": at}
            for name in ("release_ns", "start_ns", "response_ns", "latency_ns"):
                job[name] = notes[name].uint_value if name in notes else None
            own = leaves.pop(event.track_uuid, [])
            assert job["release_ns"] == start <= job["start_ns"] <= at, job
            assert all(start <= begun <= ended <= at for begun, ended in own), (job, own)
            # The response, or the latency of what has only a start.
            length = job["response_ns"] if job["category"] == "job" else job["latency_ns"]
            assert sum(ended - begun for begun, ended in own) == length == at - start, (job, own)
            jobs.append(job)
    else:
        assert begin.terminating_flow_ids and begin.name.startswith("kept "), begin
        kept.append((start, at))
assert not any(open_slices.values()), open_slices
assert leaves_at == arrives_at, (leaves_at, arrives_at)
for start, end in kept:
    assert any(job["start"] <= start <= end <= job["end"] for job in jobs), (start, end, jobs)
print(json.dumps({"jobs": jobs, "kept": len(kept), "flows": len(leaves_at)}))
