// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of latebound as types: nanoseconds and CPUs, mechanisms and activations, events, causes,
//! histograms, and the Run that carries all of them.
//!
//! This crate owns the meaning and the JSON form of every record. It never reads a clock, a file or the
//! system: values come in, values go out.

mod activation;
mod bound;
mod call;
mod cause;
mod cgroup;
mod event;
mod evidence;
mod finding;
mod histogram;
mod job;
mod job_times;
mod keep;
mod late;
mod mark;
mod mechanism;
mod migrate;
mod name;
mod priority;
mod response;
mod run;
mod series;
mod system;
mod units;
mod wait;

pub use activation::{Activation, Context, Task};
pub use bound::{
    BOUND_SCHEMA, BlockingWindow, Bound, BoundView, BoundViews, CpuBound, CurveCorner, GrowthSample,
    InterruptRecord, MeasuredWakeup, RuleViolation, SourceKind, SourceName, SourceShare, SourceSummary,
    Variable, Verdict, ViewKind, WindowEdge, WitnessInterval, WorkloadCurve,
};
pub use call::CallArguments;
pub use cause::{
    Cause, CauseKind, Explanation, IdleMeanwhile, KnownBy, Signature, Span, Stack, Standstill, WaitLink,
    WaitThrough,
};
pub use cgroup::{GroupBlame, GroupName, Membership, Owner, gone_group};
pub use event::{BlockStep, CallObject, Event, EventKind, FileKind, InterruptKind, SleepKind, SwitchReason};
pub use evidence::{Evidence, EvidenceLevel, Loss, LossKind, Missing, MissingKind, Rung, RungLevel};
pub use finding::{Finding, Severity};
pub use histogram::{
    BUCKET_COUNT, Bucket, Histogram, SUB_BUCKETS, bucket_bounds, bucket_index, tells_quantile,
};
pub use job::{Cycle, Sureness, ThreadJobs, WaitSite};
pub use job_times::JobTimes;
pub use keep::{Keep, KeptActivations, WorstOfSeries};
pub use late::{Late, LateAction, OnLate, Save, Stretch};
pub use mark::{JobMarks, Mark, ParseMarkError, ThreadMarks};
pub use mechanism::{Mechanism, SOFTIRQ_NAMES, softirq_name};
pub use name::Name;
pub use priority::{NoPriority, Policy, Priority, Scheduling};
pub use response::Response;
pub use run::{
    CStateControl, Load, MeasureSettings, RUN_SCHEMA, Run, RunState, RunVerb, Table, Throughput, Tool,
};
pub use series::{
    BlockMaxima, Censored, Condition, Deferral, Quantity, Series, Subject, Summary, UnknownCount,
};
pub use system::{
    CpuIdleState, CpuQuota, Emulation, FairServer, InterruptLine, PreemptionModel, RtThrottling,
    SystemSnapshot, kernel_version,
};
pub use units::{Cpu, CpuSet, DurationError, Nanos, ParseCpuSetError, Tid};
pub use wait::{
    Completer, Dependency, DonatedWaits, NewThread, Object, Relation, RelationKind, ThreadWaits, WaitEvent,
};
