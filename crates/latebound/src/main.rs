// SPDX-License-Identifier: MIT OR Apache-2.0
//! latebound: how late can this Linux system be, why, and what can be done about it?

fn main() {}
