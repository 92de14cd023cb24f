// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound defer advise`: which ways to put work off met a budget, by a Run of `defer run`.

use anyhow::{Result, bail};
use latebound_defer::{Advice, AdviceDocument, Needs, advise};
use latebound_model::{Condition, Load, Run};
use latebound_report::terminal::{self, AdviceRow};
use latebound_report::{digest, printable};

use crate::cli::DeferAdviseArgs;
use crate::outcome::Outcome;
use crate::output::Output;

pub(super) fn run(args: &DeferAdviseArgs, output: &Output) -> Result<Outcome> {
    let run = latebound_store::read_run(&args.run)?;
    let needs = Needs { budget: args.budget, may_sleep: args.may_sleep, contexts: args.context.clone() };
    let advice = advise(&run, &needs);
    if advice.is_empty() {
        bail!(
            "{} holds no series of deferred work that could do this; make one with: latebound defer run --output FOLDER",
            args.run.display()
        );
    }
    match output.is_json() {
        true => output.document(&AdviceDocument::new(&run, &needs, &advice))?,
        false => {
            let style = output.style();
            let rows: Vec<AdviceRow> = advice.iter().map(|advice| text_row(advice, &needs)).collect();
            let mut text = terminal::advice_table(&rows, needs.budget, &style);
            text += &under(&run, &advice);
            output.text(&text)?;
        }
    }
    Ok(if advice.iter().any(Advice::is_met) { Outcome::Done } else { Outcome::LimitPassed })
}

/// What the verdict holds for: this system, these loads, this clock.
fn under(run: &Run, advice: &[Advice]) -> String {
    let mut conditions: Vec<&Condition> = Vec::new();
    for condition in advice.iter().flat_map(|advice| &advice.conditions) {
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    let conditions: Vec<String> = conditions.into_iter().map(|one| condition_text(run, one)).collect();
    let conditions = match conditions.as_slice() {
        [one] => one.clone(),
        several => format!("each at its worst of: {}", several.join("; ")),
    };
    let kernel = run.system.kernel_release.as_deref().unwrap_or("an unknown kernel");
    let emulated = digest::emulation_text(run).map(|text| format!("\n{text}")).unwrap_or_default();
    format!("Measured on Linux {}, {conditions}.{emulated}\n", printable(kernel))
}

fn condition_text(run: &Run, condition: &Condition) -> String {
    match condition {
        Condition::Idle => "idle".to_owned(),
        Condition::Loaded => {
            let name = |load: &Load| format!("{} {}", load.name, load.arguments).trim_end().to_owned();
            format!("under {}", printable(&run.loads.iter().map(name).collect::<Vec<_>>().join("; ")))
        }
        Condition::Load(load) => format!("under {}", printable(load)),
        Condition::Awake => "with no C-states".to_owned(),
        Condition::Bursts => "in bursts".to_owned(),
        Condition::Trains => "in trains".to_owned(),
        other => printable(&other.to_string()).into_owned(),
    }
}

fn text_row(advice: &Advice, needs: &Needs) -> AdviceRow {
    AdviceRow {
        name: advice.way(),
        is_met: advice.is_met(),
        max: advice.max,
        margin_ns: advice.margin_ns(needs.budget),
        starts: advice.starts,
        late: advice.late,
        is_lossy: advice.is_lossy,
        share: advice.share,
    }
}
