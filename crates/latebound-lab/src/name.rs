// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a kernel is named. Pure: knows nothing of what exists.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use latebound_model::PreemptionModel;

use crate::error::LabError;

/// Where a kernel comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A package of the distribution.
    Debian {
        /// `6.12`, or whole as in the package's name: `6.12.117+deb12`, or `6` for the newest of them.
        version: String,
        /// Whether it is the PREEMPT_RT flavour.
        rt: bool,
    },
    /// Built from the distribution's source with our configuration.
    Traced {
        /// `6.12`.
        version: String,
        /// What is built of it.
        flavour: Flavour,
    },
    /// A kernel image or a built source tree.
    Path(PathBuf),
}

/// What is built of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flavour {
    /// Whether it is PREEMPT_RT.
    pub rt: bool,
    /// Whether it also checks itself and its modules: KASAN, lockdep, debug objects. Its times say nothing of other kernels.
    pub checked: bool,
}

impl Flavour {
    /// With trace events and no checks.
    pub fn traced(rt: bool) -> Flavour {
        Flavour { rt, checked: false }
    }

    /// How a kernel of this flavour is named.
    pub fn name(self, version: &str) -> String {
        let kind = if self.checked { "checked" } else { "traced" };
        format!("{kind}:{version}{}", if self.rt { "-rt" } else { "" })
    }
}

/// A kernel's name, with the preemption model to boot it with.
///
/// ```
/// # use latebound_lab::KernelName;
/// let name: KernelName = "debian:6.12@full".parse()?;
/// assert_eq!(name.boot_option().as_deref(), Some("preempt=full"));
/// assert_eq!(name.to_string(), "debian:6.12@full");
/// # Ok::<(), latebound_lab::LabError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelName {
    /// Where it comes from.
    pub origin: Origin,
    /// The model of a PREEMPT_DYNAMIC kernel; its own default where not given. Never [`PreemptionModel::Rt`].
    pub preemption: Option<PreemptionModel>,
}

/// Models as `preempt=` names them (Linux 6.12, kernel/sched/core.c, `sched_dynamic_mode`; lazy since 6.13).
const MODELS: [(&str, PreemptionModel); 4] = [
    ("none", PreemptionModel::None),
    ("voluntary", PreemptionModel::Voluntary),
    ("full", PreemptionModel::Full),
    ("lazy", PreemptionModel::Lazy),
];

impl KernelName {
    /// A name without a choice of preemption model.
    pub fn new(origin: Origin) -> KernelName {
        KernelName { origin, preemption: None }
    }

    /// The kernel's command line.
    pub fn boot_option(&self) -> Option<String> {
        self.preemption.map(|model| format!("preempt={}", model_name(model)))
    }

    /// The model that the name promises: the chosen one, or PREEMPT_RT where the flavour is.
    pub fn promises(&self) -> Option<PreemptionModel> {
        match &self.origin {
            Origin::Debian { rt: true, .. } | Origin::Traced { flavour: Flavour { rt: true, .. }, .. } => {
                Some(PreemptionModel::Rt)
            }
            _ => self.preemption,
        }
    }

    /// A name for files and folders.
    pub fn file_name(&self) -> String {
        let text = match &self.origin {
            Origin::Path(path) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                KernelName {
                    origin: Origin::Path(name.unwrap_or_default().into()),
                    preemption: self.preemption,
                }
                .to_string()
            }
            _ => self.to_string(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-+_".contains(c);
        text.chars().map(|c| if plain(c) { c } else { '-' }).collect()
    }
}

fn model_name(model: PreemptionModel) -> &'static str {
    MODELS.iter().find(|(_, known)| *known == model).map_or("rt", |(name, _)| name)
}

impl FromStr for KernelName {
    type Err = LabError;

    fn from_str(text: &str) -> Result<KernelName, LabError> {
        let fail = |why: String| LabError::KernelName { name: text.to_owned(), why };
        let packaged = ["debian:", "traced:", "checked:"].iter().any(|prefix| text.starts_with(prefix));
        // A path may hold an @ of its own: only a known model after the last one is taken for one.
        let (base, preemption) = match text.rsplit_once('@') {
            Some((base, model)) => match MODELS.iter().find(|(name, _)| *name == model) {
                Some((_, model)) => (base, Some(*model)),
                None if packaged => {
                    return Err(fail(format!("\"{model}\" is none of none, voluntary, full and lazy")));
                }
                None => (text, None),
            },
            None => (text, None),
        };
        let origin = if let Some((kind, rest)) = base.split_once(':').filter(|_| packaged) {
            let (version, rt) = match rest.strip_suffix("-rt") {
                Some(version) => (version, true),
                None => (rest, false),
            };
            let digit = version.starts_with(|c: char| c.is_ascii_digit());
            let plain = version.chars().all(|c| c.is_ascii_alphanumeric() || ".+~-".contains(c));
            // A package's version may be short: 7 is the newest 7.x. A source has both numbers in its package's name.
            if !digit || !plain || !(kind == "debian" || version.contains('.')) {
                return Err(fail(format!("\"{version}\" is not a kernel version such as 6.12")));
            }
            if rt && preemption.is_some() {
                return Err(fail("a PREEMPT_RT kernel has no other preemption model to choose".to_owned()));
            }
            let version = version.to_owned();
            match kind {
                "debian" => Origin::Debian { version, rt },
                _ => Origin::Traced { version, flavour: Flavour { rt, checked: kind == "checked" } },
            }
        } else if base.contains('/') || base == "." || base == ".." {
            Origin::Path(PathBuf::from(base))
        } else {
            return Err(fail(
                "it is neither debian:…, traced:… nor checked:…, nor a path (a path has a / in it)"
                    .to_owned(),
            ));
        };
        Ok(KernelName { origin, preemption })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rt = |rt: &bool| if *rt { "-rt" } else { "" };
        match self {
            Origin::Debian { version, rt: flavour } => write!(f, "debian:{version}{}", rt(flavour)),
            Origin::Traced { version, flavour } => f.write_str(&flavour.name(version)),
            Origin::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        match self.preemption {
            Some(model) => write!(f, "@{}", model_name(model)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in [
            "debian:6.12",
            "debian:6.12-rt",
            "debian:7",
            "debian:7-rt",
            "debian:6.12@voluntary",
            "debian:6.12.117+deb12@none",
            "traced:6.12-rt",
            "traced:6.12@lazy",
            "checked:6.12-rt",
            "checked:6.12@full",
            "/boot/vmlinuz-6.1.0-9-amd64",
            "./linux@home@full",
        ] {
            assert_eq!(text.parse::<KernelName>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_name_says_which_model_it_promises() {
        let promises = |text: &str| text.parse::<KernelName>().unwrap().promises();
        assert_eq!(promises("debian:6.12"), None);
        assert_eq!(promises("debian:6.12@none"), Some(PreemptionModel::None));
        assert_eq!(promises("traced:6.12-rt"), Some(PreemptionModel::Rt));
    }

    #[test]
    fn an_at_sign_in_a_path_is_part_of_the_path() {
        let name: KernelName = "/home/a@b/linux".parse().unwrap();
        assert_eq!(name.origin, Origin::Path("/home/a@b/linux".into()));
        assert_eq!(name.preemption, None);
    }

    #[test]
    fn what_is_not_a_kernel_is_refused_with_what_to_type() {
        for text in [
            "",
            "debian:",
            "debian:rt",
            "traced:6",
            "debian:6.12@soft",
            "debian:6.12-rt@full",
            "linux",
            "debian:../x.y",
        ] {
            let error = text.parse::<KernelName>().unwrap_err().to_string();
            assert!(error.contains("debian:6.12"), "{text}: {error}");
        }
    }

    #[test]
    fn file_names_hold_nothing_that_a_shell_or_a_folder_takes_amiss() {
        let file_name = |text: &str| text.parse::<KernelName>().unwrap().file_name();
        assert_eq!(file_name("debian:6.12@full"), "debian-6.12-full");
        assert_eq!(file_name("/tmp/a b/my kernel"), "my-kernel");
    }
}
