// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs on disk, written whole or not at all.
