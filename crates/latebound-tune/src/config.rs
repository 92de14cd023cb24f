// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration: its types, its JSON Schema, its commented default text, and what is refused in it.
//!
//! A configuration that is dangerous by itself is refused here, with the reason, before anything runs. What depends on the
//! threads that are there is checked at each change ([`crate::rules`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use latebound_model::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::class::ThreadClass;
use crate::edges::EdgeRule;
use crate::governor::Pace;
use crate::policy::{PolicyKind, Weight};
use crate::rules::Rule;
use latebound_model::Priority;

/// A time with its unit: `10ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", example = "10ms")]
pub struct Time(pub Nanos);

impl TryFrom<String> for Time {
    type Error = latebound_model::DurationError;

    fn try_from(text: String) -> Result<Time, Self::Error> {
        text.parse().map(Time)
    }
}

impl From<Time> for String {
    fn from(time: Time) -> String {
        format!("{}ns", time.0.0)
    }
}

/// How a real-time system's kernel threads are tuned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// How priorities follow from those that wait.
    pub policy: PolicyKind,
    /// How fast priorities may change, and how much is remembered.
    pub limits: Limits,
    /// When wake-ups count as a relation.
    pub learning: Learning,
    /// The process that undoes everything when the daemon dies.
    pub watchdog: Watchdog,
    /// The daemon's own reservation of CPU time.
    pub daemon: Daemon,
    /// Where the daemon says what it does.
    pub metrics: Metrics,
    /// What holds for each class of kernel threads. A class that is not named keeps its defaults.
    pub class: BTreeMap<ThreadClass, ClassRule>,
}

/// How fast priorities may change, and how much is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Limits {
    /// A task counts as waiting for this long after its last wait: who waits again finds the thread as it was.
    pub hold: Time,
    /// Changes per second, all threads together, in the long run.
    #[schemars(range(min = 1))]
    pub changes_per_second: u32,
    /// Changes that may come at once.
    #[schemars(range(min = 1))]
    pub burst: u32,
    /// Relations that are remembered; more are counted as lost.
    #[schemars(range(min = 1))]
    pub relations: u32,
}

/// When wake-ups count as a relation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Learning {
    /// Whether wake-ups are watched at all. Without PREEMPT_RT that costs a program at every wake-up of any thread.
    pub wake_ups: bool,
    /// A wake-up counts half after this time.
    pub half_life: Time,
    /// The score from which a kernel thread that wakes a task counts as one that it waits for; one fresh wake-up is 1.
    #[schemars(range(min = 0.001))]
    pub threshold: f64,
}

/// The process that undoes everything when the daemon dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Watchdog {
    /// Its SCHED_FIFO priority. Nothing is raised to it or above.
    pub priority: Priority,
}

/// The daemon's own reservation of CPU time (SCHED_DEADLINE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Daemon {
    /// CPU time in each period. A poll pass that needs more is finished in the next period.
    pub runtime: Time,
    /// The period.
    pub period: Time,
    /// Whether the threads `irq_work/N` run just below the watchdog while the daemon runs: they wake it (PREEMPT_RT,
    /// kernel/irq_work.c), and behind real-time tasks they would do so late or never.
    pub raise_irq_work: bool,
}

/// Where the daemon says what it does, for who collects metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Metrics {
    /// The file that is written every five seconds, in the text format of Prometheus; none where not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "/var/lib/prometheus/node-exporter/latebound.prom")]
    pub file: Option<PathBuf>,
}

/// What holds for one class of kernel threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClassRule {
    /// w of equation (2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// Never raised above this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Priority>,
    /// The priority that `policy = "static"` gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Whether it may be set below what it had by default, as the equations say where only low tasks wait. Those that no
    /// relation sees may depend on the default, so it is off unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_default: Option<bool>,
}

/// What holds for a class once the defaults are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// w of equation (2).
    pub weight: Weight,
    /// Never raised above this; `None` where relations never change the class.
    pub ceiling: Option<Priority>,
    /// What the static policy gives.
    pub fixed: Option<Priority>,
    /// Whether it may go below its default.
    pub below_default: bool,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// It is no TOML, or has a key or value that is not known.
    #[error("{0}")]
    Text(String),
    /// A value by itself makes no sense.
    #[error("{key} = {value}: {problem}")]
    Value {
        /// The key.
        key: String,
        /// What it was.
        value: String,
        /// What to give.
        problem: &'static str,
    },
    /// A set of values that could stop the system.
    #[error("[class.{class}] {key} = {value} is dangerous: {}; {instead}", rule.reason())]
    Dangerous {
        /// The class.
        class: &'static str,
        /// The key.
        key: &'static str,
        /// What it was.
        value: u8,
        /// The rule that it breaks.
        rule: Rule,
        /// What to type.
        instead: String,
    },
    /// A class that may not be tuned at all.
    #[error("[class.{class}] is refused: {reason}; remove the table")]
    Untouchable {
        /// The class.
        class: &'static str,
        /// Why.
        reason: &'static str,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            policy: PolicyKind::WeightedAverage,
            limits: Limits::default(),
            learning: Learning::default(),
            watchdog: Watchdog::default(),
            daemon: Daemon::default(),
            metrics: Metrics::default(),
            class: BTreeMap::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { hold: Time(Nanos::from_millis(10)), changes_per_second: 1_000, burst: 50, relations: 65_536 }
    }
}

impl Default for Learning {
    fn default() -> Learning {
        Learning { wake_ups: true, half_life: Time(Nanos::from_secs(1)), threshold: 20.0 }
    }
}

impl Default for Watchdog {
    fn default() -> Watchdog {
        Watchdog { priority: Priority::new(98).unwrap_or(Priority::MAX) }
    }
}

impl Default for Daemon {
    fn default() -> Daemon {
        Daemon {
            runtime: Time(Nanos::from_millis(1)),
            period: Time(Nanos::from_millis(10)),
            raise_irq_work: true,
        }
    }
}

impl Config {
    /// The default configuration with what each value means: what `latebound tune config` prints.
    pub const COMMENTED: &str = include_str!("default.toml");

    /// Reads a configuration and refuses one that is dangerous.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let config: Config = toml::from_str(text).map_err(|error| ConfigError::Text(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// The JSON Schema of the configuration, for editors that complete and check TOML by one.
    pub fn json_schema() -> schemars::Schema {
        schemars::schema_for!(Config)
    }

    /// How fast changes may come.
    pub fn pace(&self) -> Pace {
        Pace {
            hold: self.limits.hold.0,
            per_second: self.limits.changes_per_second,
            burst: self.limits.burst,
        }
    }

    /// When wake-ups count.
    pub fn edge_rule(&self) -> EdgeRule {
        EdgeRule { half_life: self.learning.half_life.0, threshold: self.learning.threshold }
    }

    /// What holds for a class, defaults filled in.
    pub fn rules(&self, class: ThreadClass) -> Rules {
        let given = self.class.get(&class).copied().unwrap_or_default();
        let (weight, ceiling) = match class {
            ThreadClass::Interrupt => (Weight::INTERRUPT, Priority::new(90)),
            ThreadClass::Ksoftirqd | ThreadClass::Ktimers => (Weight::OTHER, Priority::new(80)),
            ThreadClass::Flusher
            | ThreadClass::Worker
            | ThreadClass::Kswapd
            | ThreadClass::Journal
            | ThreadClass::Kthreadd => (Weight::OTHER, Priority::new(70)),
            ThreadClass::Other | ThreadClass::Rcu | ThreadClass::IrqWork | ThreadClass::Migration => {
                (Weight::OTHER, None)
            }
        };
        Rules {
            weight: given.weight.unwrap_or(weight),
            ceiling: given.ceiling.or(ceiling),
            fixed: given.priority,
            below_default: given.below_default.unwrap_or(false),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let value = |key: &str, value: String, problem| {
            Err(ConfigError::Value { key: key.to_owned(), value, problem })
        };
        if self.limits.changes_per_second == 0 || self.limits.burst == 0 {
            return value(
                "limits",
                "0".to_owned(),
                "with no change allowed nothing is tuned; for that give policy = \"off\"",
            );
        }
        if !(self.learning.threshold.is_finite() && self.learning.threshold > 0.0) {
            return value("learning.threshold", self.learning.threshold.to_string(), "give a number above 0");
        }
        if self.learning.half_life.0 == Nanos::ZERO {
            return value("learning.half-life", "0".to_owned(), "give a time above 0, as \"1s\"");
        }
        let (runtime, period) = (self.daemon.runtime.0, self.daemon.period.0);
        // sched(7): at least 1024 ns; above half of a CPU the daemon would take more than what it tunes.
        if runtime < Nanos(1024) || runtime.0.saturating_mul(2) > period.0 {
            return value(
                "daemon.runtime",
                runtime.to_string(),
                "give at least 1024ns and at most half of daemon.period",
            );
        }
        for (&class, rule) in &self.class {
            self.check_class(class, rule)?;
        }
        let order = |low: ThreadClass, high: ThreadClass, rule| self.check_order(low, high, rule);
        order(ThreadClass::Ksoftirqd, ThreadClass::Ktimers, Rule::KtimersAboveKsoftirqd)?;
        order(ThreadClass::Ksoftirqd, ThreadClass::Rcu, Rule::RcuAboveKsoftirqd)?;
        order(ThreadClass::Rcu, ThreadClass::IrqWork, Rule::IrqWorkAboveRcu)
    }

    fn check_class(&self, class: ThreadClass, rule: &ClassRule) -> Result<(), ConfigError> {
        let name = class.name();
        if class == ThreadClass::Migration {
            return Err(ConfigError::Untouchable { class: name, reason: Rule::NeverMigration.reason() });
        }
        let by_relation = self.rules(class).ceiling.is_some();
        if matches!(class, ThreadClass::Rcu | ThreadClass::IrqWork) && rule.ceiling.is_some() {
            return Err(ConfigError::Untouchable {
                class: name,
                reason: "relations never change it: others depend on its order; only priority, for policy = \"static\", may be given",
            });
        }
        if class == ThreadClass::Other && by_relation {
            return Err(ConfigError::Untouchable {
                class: name,
                reason: "threads of no known class have no rule that would keep a change safe",
            });
        }
        let watchdog = self.watchdog.priority;
        for (key, value) in [("ceiling", rule.ceiling), ("priority", rule.priority)] {
            if let Some(value) = value.filter(|&value| value >= watchdog) {
                let instead = format!("give at most {}, or raise watchdog.priority", watchdog.get() - 1);
                return Err(ConfigError::Dangerous {
                    class: name,
                    key,
                    value: value.get(),
                    rule: Rule::BelowWatchdog,
                    instead,
                });
            }
        }
        // The defaults have to be below a watchdog that was set lower, too: rules::check limits those at run time.
        Ok(())
    }

    /// Whether the priorities and ceilings given keep `low` from passing `high`.
    fn check_order(&self, low: ThreadClass, high: ThreadClass, rule: Rule) -> Result<(), ConfigError> {
        let (of_low, of_high) = (self.rules(low), self.rules(high));
        for (key, below, above) in
            [("priority", of_low.fixed, of_high.fixed), ("ceiling", of_low.ceiling, of_high.ceiling)]
        {
            // Where one of the two is not given the threads that are there decide, at each change.
            if let (Some(below), Some(above)) = (below, above)
                && below > above
            {
                let instead =
                    format!("give at most {above}, or raise {key} of [class.{}] to {below}", high.name());
                return Err(ConfigError::Dangerous {
                    class: low.name(),
                    key,
                    value: below.get(),
                    rule,
                    instead,
                });
            }
        }
        Ok(())
    }
}
