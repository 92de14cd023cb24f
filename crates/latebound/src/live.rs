// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live table of `observe`: state, drawing and keys apart, so that the drawing is tested without a terminal. Its text is of
//! `latebound-report`.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use latebound_model::{Loss, Mechanism, Missing, Nanos};
use latebound_report::{Row, live};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table};
use ratatui::{Frame, Terminal};

use crate::session::Stop;

/// How often the table is read from the kernel and drawn again.
const REFRESH: Duration = Duration::from_secs(1);

/// What the kernel's maps hold at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) rows: Vec<Row>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) missing: Vec<Missing>,
}

/// What is on the screen.
#[derive(Clone, Debug, Default)]
struct View {
    reading: Reading,
    elapsed: Nanos,
    planned: Option<Nanos>,
    only: Option<Mechanism>,
    first: usize,
    paused: bool,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Quit,
    Scroll(isize),
    NextMechanism,
    Pause,
    Nothing,
}

impl Action {
    fn of(key: KeyEvent) -> Action {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind == KeyEventKind::Release => Action::Nothing,
            KeyCode::Char('c') if control => Action::Quit,
            KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
            KeyCode::Char('j') | KeyCode::Down => Action::Scroll(1),
            KeyCode::Char('k') | KeyCode::Up => Action::Scroll(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => Action::Scroll(10),
            KeyCode::PageUp => Action::Scroll(-10),
            KeyCode::Home => Action::Scroll(isize::MIN),
            KeyCode::Tab | KeyCode::Char('m') => Action::NextMechanism,
            KeyCode::Char('p') => Action::Pause,
            _ => Action::Nothing,
        }
    }
}

impl View {
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.reading.rows.iter().filter(|row| self.only.is_none_or(|only| row.mechanism == only))
    }

    fn scroll(&mut self, by: isize) {
        let last = self.rows().count().saturating_sub(1);
        self.first = self.first.saturating_add_signed(by).min(last);
    }

    /// All mechanisms, then each that has a row, then all again.
    fn next_mechanism(&mut self) {
        let there = |mechanism: &Mechanism| self.reading.rows.iter().any(|row| row.mechanism == *mechanism);
        let mut after =
            Mechanism::ALL.into_iter().filter(there).filter(|m| self.only.is_none_or(|only| *m > only));
        self.only = after.next();
        self.first = 0;
    }
}

/// Shows the table until the planned time is over, a key ends it or `stop` is set. The terminal is put back however
/// it ends.
pub(crate) fn run(
    planned: Option<Nanos>,
    stop: &Stop,
    mut read: impl FnMut() -> Result<Reading>,
) -> Result<()> {
    let started = Instant::now();
    let mut view = View { planned, ..View::default() };
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal; try --format json")?;
    let result = (|| {
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            view.elapsed = Nanos(u64::try_from((now - started).as_nanos()).unwrap_or(u64::MAX));
            if stop.is_set() || planned.is_some_and(|planned| view.elapsed >= planned) {
                return Ok(());
            }
            if now >= next {
                next = now + REFRESH;
                if !view.paused {
                    view.reading = read()?;
                }
            }
            draw(&mut terminal, &view)?;
            let until_end =
                planned.map_or(REFRESH, |planned| planned.saturating_sub(view.elapsed).to_duration());
            let wait =
                next.saturating_duration_since(Instant::now()).min(until_end).min(Duration::from_millis(200));
            if event::poll(wait)?
                && let Event::Key(key) = event::read()?
            {
                match Action::of(key) {
                    Action::Quit => {
                        stop.set();
                        return Ok(());
                    }
                    Action::Scroll(by) => view.scroll(by),
                    Action::NextMechanism => view.next_mechanism(),
                    Action::Pause => view.paused = !view.paused,
                    Action::Nothing => {}
                }
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

fn draw<B: ratatui::backend::Backend>(terminal: &mut Terminal<B>, view: &View) -> Result<()>
where
    B::Error: Into<io::Error>,
{
    terminal.draw(|frame| draw_frame(frame, view)).map_err(Into::into)?;
    Ok(())
}

fn draw_frame(frame: &mut Frame<'_>, view: &View) {
    let problems = problem_lines(view, frame.area().width);
    let height = u16::try_from(problems.len()).unwrap_or(u16::MAX);
    let [top, middle, bottom, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(height),
        Constraint::Length(1),
    ])
    .areas(frame.area());

    let status = live::observe_status(view.elapsed, view.planned, view.only, view.paused);
    frame.render_widget(Line::from(vec!["latebound observe".bold(), format!("  {status}").into()]), top);
    frame.render_widget(table(view, middle.width), middle);
    frame.render_widget(Paragraph::new(problems), bottom);
    frame.render_widget(Line::from("q end  up/down scroll  Tab one mechanism  p pause").dim(), keys);
}

fn table(view: &View, width: u16) -> Table<'_> {
    // The numbers' columns, and one between each two.
    let label_width = usize::from(width.saturating_sub(13 + 9 + 3 * 7 + 6 + 6));
    let number = |text: String| Cell::from(Line::from(text).right_aligned());
    let mut previous = None;
    let rows = view.rows().enumerate().filter_map(|(at, row)| {
        let first_of_mechanism = previous.replace(row.mechanism) != Some(row.mechanism);
        if at < view.first {
            return None;
        }
        let mechanism =
            if first_of_mechanism || at == view.first { live::short_name(row.mechanism) } else { "" };
        let [label, numbers @ ..] = live::observe_cells(row, label_width);
        let cells = [Cell::from(mechanism.bold()), Cell::from(label)];
        let mut cells = TableRow::new(cells.into_iter().chain(numbers.map(number)));
        if row.is_lossy() {
            cells = cells.style(Style::new().add_modifier(Modifier::ITALIC).yellow());
        }
        Some(cells)
    });
    let widths = [
        Constraint::Length(13),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(6),
    ];
    let heading = live::OBSERVE_HEADS.into_iter().enumerate().map(|(at, text)| match at {
        0 | 1 => Cell::from(text),
        _ => number(text.to_owned()),
    });
    Table::new(rows, widths).header(TableRow::new(heading).style(Style::new().underlined()))
}

/// What was lost, always; what is not there, as far as the screen has room.
fn problem_lines(view: &View, width: u16) -> Vec<Line<'static>> {
    let width = usize::from(width);
    let lost = match live::lost(&view.reading.losses, width) {
        None => Line::from(live::NOTHING_LOST.dim()),
        Some(lost) => Line::from(lost.yellow()),
    };
    let missing = live::not_seen(&view.reading.missing, width).map(|missing| Line::from(missing.dim()));
    [lost].into_iter().chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{Evidence, Histogram, LossKind, MissingKind, Quantity, Series, Subject};
    use ratatui::backend::TestBackend;

    fn series(mechanism: Mechanism, name: &str, values: &[u64]) -> Series {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        let subject = Subject { name: name.to_owned(), ..Subject::default() };
        Series::new(mechanism, Quantity::Latency, subject, Evidence::Events, histogram)
    }

    fn view() -> View {
        let mut net = series(Mechanism::Softirq, "NET_RX", &[1_200, 3_000, 950_022_000]);
        net.merged = 7;
        let work = series(Mechanism::Work, "wb_workfn", &[40_000]);
        let losses = vec![Loss { kind: LossKind::MapFull, place: "work".to_owned(), count: Some(3) }];
        let missing = vec![Missing::new(MissingKind::Mechanism, "tasklets", "", "")];
        let rows = latebound_report::observe_rows(&[net, work]);
        View { reading: Reading { rows, losses, missing }, elapsed: Nanos::from_secs(3), ..View::default() }
    }

    fn screen(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw_frame(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_table_fits_eighty_columns_and_shows_losses_and_what_is_missing() {
        let text = screen(&view(), 80, 10);
        for expected in
            ["NET_RX", "950 ms", "7", "wb_workfn", "lost: 3 entries refused by a full map", "tasklets"]
        {
            assert!(text.contains(expected), "{expected} is not on\n{text}");
        }
    }

    #[test]
    fn a_tiny_terminal_draws_without_a_panic() {
        for (width, height) in [(1, 1), (10, 2), (79, 3)] {
            screen(&view(), width, height);
        }
    }

    #[test]
    fn tab_walks_through_the_mechanisms_that_are_there_and_back_to_all() {
        let mut view = view();
        let mut seen = Vec::new();
        for _ in 0..3 {
            view.next_mechanism();
            seen.push(view.only);
        }
        assert_eq!(seen, [Some(Mechanism::Softirq), Some(Mechanism::Work), None]);
    }

    #[test]
    fn scrolling_stays_within_the_rows() {
        let mut view = view();
        view.scroll(100);
        assert_eq!(view.first, 1);
        view.scroll(isize::MIN);
        assert_eq!(view.first, 0);
    }
}
