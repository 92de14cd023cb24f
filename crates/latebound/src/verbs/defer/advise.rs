// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound defer advise`: which ways to put work off met a budget, by a Run of `defer run`.

use anyhow::{Result, bail};
use latebound_defer::{Advice, AdviceDocument, Needs, advise};
use latebound_report::terminal::{self, AdviceRow};

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
            text += &terminal::advice_conditions(&run, advice.iter().flat_map(|advice| &advice.conditions));
            output.text(&text)?;
        }
    }
    Ok(if advice.iter().any(Advice::is_met) { Outcome::Done } else { Outcome::LimitPassed })
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
