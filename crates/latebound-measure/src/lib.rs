// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time measuring loops and loads.
