// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs rendered for people. No clock, no files.
