// SPDX-License-Identifier: MIT OR Apache-2.0
//! The screen of a live `bound`: the values as they grow, what they are made of, and what they may be called so far.
//! State, drawing and keys apart, so that the drawing is tested without a terminal. Its text is of `latebound-report`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use latebound_model::{Bound, Nanos, Verdict};
use latebound_report::live;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use crate::session::Stop;

/// How things stand.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) bound: Bound,
    /// Of records, on one CPU.
    pub(crate) bytes_per_second: f64,
    pub(crate) events: u64,
}

#[derive(Clone, Debug, Default)]
struct Screen {
    reading: Option<Reading>,
    elapsed: Nanos,
    planned: Option<Nanos>,
    first: usize,
}

/// Takes records all the time, and shows how things stand until the planned time is over, a key ends it or `stop` is set.
/// `step` takes records; when it is told to, it also says how things stand. The terminal is put back however it ends.
pub(crate) fn run(
    planned: Option<Nanos>,
    stop: &Stop,
    take_every: Duration,
    show_every: Duration,
    mut step: impl FnMut(bool) -> Result<Option<Reading>>,
) -> Result<()> {
    let started = Instant::now();
    let mut screen = Screen { planned, ..Screen::default() };
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal; try --format json")?;
    let result = (|| {
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            screen.elapsed = Nanos(u64::try_from((now - started).as_nanos()).unwrap_or(u64::MAX));
            if stop.is_set() || planned.is_some_and(|planned| screen.elapsed >= planned) {
                return Ok(());
            }
            let show = now >= next;
            if let Some(reading) = step(show)? {
                screen.reading = Some(reading);
            }
            if show {
                next = now + show_every;
                terminal.draw(|frame| draw(frame, &screen))?;
            }
            if event::poll(take_every)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('c') if control => stop.set(),
                    KeyCode::Char('q') | KeyCode::Esc => stop.set(),
                    KeyCode::Down | KeyCode::Char('j') => screen.scroll(1),
                    KeyCode::Up | KeyCode::Char('k') => screen.scroll(-1),
                    _ => continue,
                }
                next = Instant::now();
            }
        }
    })();
    // A terminal that is gone cannot be put back, and takes no message: ratatui would write one as it is dropped, and panic.
    if terminal.show_cursor().is_err() {
        std::mem::forget(terminal);
    }
    let _ = ratatui::try_restore();
    result
}

impl Screen {
    fn scroll(&mut self, by: isize) {
        let cpus = self.reading.as_ref().map_or(0, |reading| reading.bound.cpus.len());
        self.first = self.first.saturating_add_signed(by).min(cpus.saturating_sub(1));
    }
}

fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let passed = live::time_passed(screen.elapsed, screen.planned);
    let title = Line::from(vec!["latebound bound".bold(), format!("  {passed}").into()]);
    let Some(reading) = &screen.reading else {
        frame.render_widget(title, frame.area());
        return;
    };
    let bound = &reading.bound;
    let width = usize::from(frame.area().width);
    let verdict = verdict(bound, width);
    let parts = bound.cpus.len().min(8) as u16 + 1;
    let [top, said, values, made, foot, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::try_from(verdict.len()).unwrap_or(u16::MAX)),
        Constraint::Min(3),
        Constraint::Length(parts + 1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title, top);
    frame.render_widget(Paragraph::new(verdict), said);
    frame.render_widget(views(bound, screen.first), values);
    frame.render_widget(made_of(bound, screen.first), made);
    let footer = live::bound_footer(reading.events, reading.bytes_per_second, bound.view, width);
    frame.render_widget(Line::from(footer).dim(), foot);
    frame.render_widget(Line::from("q end  up/down scroll the CPUs").dim(), keys);
}

fn verdict(bound: &Bound, width: usize) -> Vec<Line<'static>> {
    let (head, below) = live::bound_verdict(bound, width);
    let is_bound = bound.verdict == Verdict::Bound;
    let head = if is_bound { head.bold() } else { head.bold().yellow() };
    let below = below.into_iter().map(|text| if is_bound { text.dim() } else { text.yellow() });
    [head].into_iter().chain(below).map(Line::from).collect()
}

fn number(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// The values of the CPUs, with those of the chosen view bold.
fn views(bound: &Bound, first: usize) -> Table<'static> {
    let chosen = live::BOUND_VIEWS.iter().position(|kind| *kind == bound.view).map(|place| place + 2);
    let rows = bound.cpus.iter().skip(first).map(|cpu| {
        let mut cells = live::bound_view_cells(cpu, bound.view).map(number);
        if let Some(cell) = chosen.and_then(|chosen| cells.get_mut(chosen)) {
            *cell = std::mem::take(cell).style(Style::new().bold());
        }
        Row::new(cells)
    });
    let widths = [4, 9, 8, 8, 8, 8, 8, 8, 8].map(Constraint::Length);
    let heading = live::BOUND_VIEW_HEADS.map(|text| number(text.to_owned()));
    Table::new(rows.collect::<Vec<_>>(), widths).header(Row::new(heading).style(Style::new().underlined()))
}

fn made_of(bound: &Bound, first: usize) -> Table<'static> {
    let row = |[cpu, poid, dst, paie, psd, begins_in]: [String; 6]| {
        let numbers = [cpu, poid, dst, paie, psd].map(number);
        Row::new(numbers.into_iter().chain([Cell::from(begins_in)]))
    };
    let rows = bound.cpus.iter().skip(first).map(|cpu| row(live::bound_part_cells(cpu)));
    let widths = [
        Constraint::Length(4),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Fill(1),
    ];
    let heading = row(live::BOUND_PART_HEADS.map(str::to_owned)).style(Style::new().underlined());
    Table::new(rows.collect::<Vec<_>>(), widths).header(heading)
}

#[cfg(test)]
mod tests {
    use latebound_model::{
        BOUND_SCHEMA, BlockingWindow, BoundView, Cpu, CpuBound, Evidence, GrowthSample, MeasuredWakeup, Tid,
        Variable, ViewKind, WindowEdge,
    };
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn reading(reasons: &[&str]) -> Reading {
        let mut cpu = CpuBound {
            cpu: Cpu(1),
            elapsed: Some(Nanos::from_secs(100)),
            poid: Nanos(22_510),
            dst: Nanos(19_312),
            psd: Nanos(19_702),
            interference_free: Nanos(42_212),
            ..CpuBound::default()
        };
        let edge =
            |caller: &str| WindowEdge { caller: caller.to_owned(), tid: Tid(42), comm: "php".to_owned() };
        cpu.windows.push(BlockingWindow {
            variable: Variable::Poid,
            start: Nanos(1),
            end: Nanos(22_511),
            duration: Nanos(22_510),
            begin: edge("wake_up_new_task+0x1b"),
            finish: edge("_raw_spin_unlock_irqrestore+0x28"),
        });
        cpu.measured = Some(MeasuredWakeup {
            latency: Nanos(27_000),
            woken: Nanos(5),
            tid: Tid(9),
            comm: "measure/1".to_owned(),
            from_idle: false,
        });
        for (kind, value) in [(ViewKind::None, 42_212), (ViewKind::SlidingWindow, 98_042)] {
            *cpu.views.get_mut(kind) =
                BoundView { latency: Some(Nanos(value)), converged: true, ..BoundView::default() };
        }
        cpu.views.sporadic.utilisation = Some(1.3);
        cpu.views.replay.reach = Some(Nanos::from_millis(10));
        for (second, value) in [(10, 80_000), (70, 90_000), (90, 98_042), (100, 98_042)] {
            cpu.growth.push(GrowthSample {
                elapsed: Nanos::from_secs(second),
                sliding_window: Some(Nanos(value)),
                ..GrowthSample::default()
            });
        }
        let reasons: Vec<String> = reasons.iter().map(|&reason| reason.to_owned()).collect();
        let bound = Bound {
            schema: BOUND_SCHEMA.to_owned(),
            verdict: if reasons.is_empty() { Verdict::Bound } else { Verdict::Estimate },
            reasons,
            notes: Vec::new(),
            evidence: Evidence::Bound,
            view: ViewKind::SlidingWindow,
            cpus: vec![cpu],
            violations: Vec::new(),
        };
        Reading { bound, bytes_per_second: 9_876.0, events: 1_234_567 }
    }

    fn text(reading: Option<Reading>, width: u16, height: u16) -> String {
        let screen = Screen {
            reading,
            elapsed: Nanos::from_secs(100),
            planned: Some(Nanos::from_secs(3600)),
            first: 0,
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &screen)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_bound_fits_eighty_columns_with_its_parts_and_its_growth() {
        let expected = "\
latebound bound  100 s of 1.00 h";
        let text = text(Some(reading(&[])), 80, 12);
        assert!(text.starts_with(expected.split_once("  ").unwrap().0), "{text}");
        for part in [
            "Bound so far: 98.0 us",
            "PREEMPT_RT, nothing lost, no rule broken",
            "27.0 us",
            "42.2 us",
            "no end",
            ">10.0 ms",
            "same for",
            " 10.0 s",
            "+9 %",
            "22.5 us",
            "19.3 us",
            "POID php wake_up_new_task+0x1b",
            "1 234 567 events, 9.9 kB/s of records per CPU; view: sliding window",
        ] {
            assert!(text.contains(part), "{part} is not on\n{text}");
        }
    }

    #[test]
    fn an_estimate_says_why_and_how_many_reasons_more_there_are() {
        let text = text(Some(reading(&["CPU 1: records were lost", "b", "c", "d", "e"])), 80, 16);
        for part in
            ["Observed estimate so far: 98.0 us", "- CPU 1: records were lost", "- and 2 more reasons"]
        {
            assert!(text.contains(part), "{part} is not on\n{text}");
        }
    }

    #[test]
    fn a_tiny_terminal_draws_without_a_panic() {
        for (width, height) in [(1, 1), (10, 2), (79, 3)] {
            text(Some(reading(&[])), width, height);
            text(None, width, height);
        }
    }
}
