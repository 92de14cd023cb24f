// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which preemption model is in force and what says so. Owns the order in which the kernel's own statements are
//! believed; never measures.
//!
//! A PREEMPT_DYNAMIC kernel is all of none, voluntary, full and lazy at once: what it is now is in debugfs, what it
//! was booted as on its command line, and what it is otherwise in its configuration (Linux 6.12,
//! kernel/sched/core.c, `preempt_dynamic_init`).

use latebound_model::PreemptionModel;

use crate::boot_option;
use crate::kernel_config::KernelConfig;
use crate::release::Release;
use crate::root::{ReadError, Root};

/// debugfs names every model that the kernel can take and puts the one in force in parentheses
/// (kernel/sched/debug.c, `sched_dynamic_show`).
pub(crate) const DEBUGFS: &str = "/sys/kernel/debug/sched/preempt";

/// The preemption model and what says so.
#[derive(Debug)]
pub(crate) struct Preemption {
    /// The model; `None` where nothing readable says.
    pub(crate) model: Option<PreemptionModel>,
    /// What was read, as the kernel writes it.
    pub(crate) value: String,
    /// Where.
    pub(crate) source: String,
    /// Whether the model can be changed while the kernel runs, and by what; `None` where that is not known.
    pub(crate) dynamic: Option<bool>,
    /// Why debugfs did not say, where it should have.
    pub(crate) debugfs: Option<ReadError>,
}

/// The name by which the kernel's options call a model.
pub(crate) fn name(model: PreemptionModel) -> &'static str {
    match model {
        PreemptionModel::None => "none",
        PreemptionModel::Voluntary => "voluntary",
        PreemptionModel::Lazy => "lazy",
        PreemptionModel::Full => "full",
        PreemptionModel::Rt => "PREEMPT_RT",
    }
}

fn by_name(text: &str) -> Option<PreemptionModel> {
    let models =
        [PreemptionModel::None, PreemptionModel::Voluntary, PreemptionModel::Lazy, PreemptionModel::Full];
    models.into_iter().find(|&model| name(model) == text)
}

impl Preemption {
    /// From what the kernel says of itself, the most certain first.
    pub(crate) fn read(
        root: &Root,
        version: Option<&str>,
        release: Option<Release>,
        command_line: Option<&str>,
        config: Option<&KernelConfig>,
    ) -> Preemption {
        let says = |model, value: String, source: &str, dynamic| Preemption {
            model: Some(model),
            value,
            source: source.to_owned(),
            dynamic,
            debugfs: None,
        };
        // Flags stand in `uname -v` as words: PREEMPT, PREEMPT_DYNAMIC or PREEMPT_RT (init/Makefile); the RT patches
        // before 5.15 wrote "PREEMPT RT".
        let words: Vec<&str> = version.unwrap_or_default().split_whitespace().collect();
        let has = |flag: &str| words.contains(&flag);
        if root.value("/sys/kernel/realtime").is_ok_and(|value| value == "1") {
            return says(PreemptionModel::Rt, "1".to_owned(), "/sys/kernel/realtime", Some(false));
        }
        if has("PREEMPT_RT") || (has("PREEMPT") && has("RT")) {
            return says(PreemptionModel::Rt, "PREEMPT_RT".to_owned(), "uname -v", Some(false));
        }
        if let Some(config) = config.filter(|config| config.is_on("PREEMPT_RT")) {
            return says(PreemptionModel::Rt, "CONFIG_PREEMPT_RT=y".to_owned(), &config.source, Some(false));
        }
        if has("PREEMPT_DYNAMIC") || config.is_some_and(|config| config.is_on("PREEMPT_DYNAMIC")) {
            return Preemption::read_dynamic(root, release, command_line, config);
        }
        let built = config.and_then(|config| built_as(config).map(|built| (built, config)));
        if let Some(((model, option), config)) = built {
            return says(model, format!("{option}=y"), &config.source, Some(false));
        }
        if has("PREEMPT") {
            // From 6.13 on a kernel built with PREEMPT_LAZY writes PREEMPT as well; then its configuration is needed.
            if release.is_some_and(|release| release < Release(6, 13)) {
                return says(PreemptionModel::Full, "PREEMPT".to_owned(), "uname -v", Some(false));
            }
            return Preemption::unknown("PREEMPT, which full and lazy both write", Some(false), None);
        }
        match version {
            Some(_) => {
                Preemption::unknown("no PREEMPT flag, as none and voluntary have it both", Some(false), None)
            }
            None => Preemption::unknown("nothing could be read that says it", None, None),
        }
    }

    fn read_dynamic(
        root: &Root,
        release: Option<Release>,
        command_line: Option<&str>,
        config: Option<&KernelConfig>,
    ) -> Preemption {
        let says = |model, value, source: &str, debugfs| Preemption {
            model: Some(model),
            value,
            source: source.to_owned(),
            dynamic: Some(true),
            debugfs,
        };
        let debugfs = match root.value(DEBUGFS) {
            Ok(value) => {
                let current =
                    value.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(name, _)| name);
                match current.and_then(by_name) {
                    Some(model) => return says(model, value, DEBUGFS, None),
                    None => ReadError::unexpected(DEBUGFS, &value, "a list with one model in parentheses"),
                }
            }
            Err(error) => error,
        };
        // From 7.0 on, architectures that know lazy refuse none and voluntary and go on with the configured default
        // (kernel/sched/core.c, `sched_dynamic_mode`).
        let refuses = release.is_some_and(|release| release >= Release(7, 0))
            && config.is_some_and(|config| config.is_on("ARCH_HAS_PREEMPT_LAZY"));
        let accepted = |&model: &PreemptionModel| {
            !(refuses && matches!(model, PreemptionModel::None | PreemptionModel::Voluntary))
        };
        let booted = command_line
            .and_then(|line| boot_option::value(line, "preempt"))
            .and_then(by_name)
            .filter(accepted);
        if let Some(model) = booted {
            return says(model, format!("preempt={}", name(model)), "/proc/cmdline", Some(debugfs));
        }
        if let (Some(config), Some(_)) = (config, command_line)
            && let Some((model, option)) = built_as(config)
        {
            return says(
                model,
                format!("PREEMPT_DYNAMIC, {option}=y by default"),
                &config.source,
                Some(debugfs),
            );
        }
        Preemption::unknown("PREEMPT_DYNAMIC, set to what could not be read", Some(true), Some(debugfs))
    }

    fn unknown(value: &str, dynamic: Option<bool>, debugfs: Option<ReadError>) -> Preemption {
        Preemption { model: None, value: value.to_owned(), source: "uname -v".to_owned(), dynamic, debugfs }
    }
}

/// The model that the configuration chooses (kernel/Kconfig.preempt).
fn built_as(config: &KernelConfig) -> Option<(PreemptionModel, &'static str)> {
    [
        (PreemptionModel::None, "PREEMPT_NONE", "CONFIG_PREEMPT_NONE"),
        (PreemptionModel::Voluntary, "PREEMPT_VOLUNTARY", "CONFIG_PREEMPT_VOLUNTARY"),
        (PreemptionModel::Lazy, "PREEMPT_LAZY", "CONFIG_PREEMPT_LAZY"),
        (PreemptionModel::Full, "PREEMPT", "CONFIG_PREEMPT"),
    ]
    .into_iter()
    .find(|(_, option, _)| config.is_on(option))
    .map(|(model, _, shown)| (model, shown))
}
