// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this Linux system is and what makes it late, read under an injectable root.
