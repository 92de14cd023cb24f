// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF probes: what the kernel does, counted in the kernel.
