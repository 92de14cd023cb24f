// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file per verb. A verb starts the parts, keeps them in step, and hands their results to the Run and the report.

pub(crate) mod bound;
pub(crate) mod bound_live;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod defer;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod measure;
pub(crate) mod observe;
pub(crate) mod preemption;
pub(crate) mod push;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod tune;
