// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the targets share: an allocator that ends the process where a reader takes more memory than its input allows.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use counting::Counting;
use latebound_model::Run;
use latebound_report::html;
use latebound_report::terminal::{self, Style};

#[path = "../../crates/latebound/tests/counting/mod.rs"]
mod counting;

// What a thread holds, and what it may hold: `within` sets that, and outside of it nothing is limited.
thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(isize::MAX) };
}

fn count(change: isize) {
    // A thread that is ending has no counters any more, and allocates nothing that matters.
    let _ = HELD.try_with(|held| {
        held.set(held.get().wrapping_add(change));
        if change > 0 && held.get() > MOST.get() {
            let most = MOST.replace(isize::MAX);
            // Not by panicking: who allocates may be anywhere.
            let _ = writeln!(
                std::io::stderr(),
                "a reader asked for {change} bytes and holds {}, and {most} are allowed\n{}",
                held.get(),
                Backtrace::force_capture()
            );
            std::process::abort();
        }
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(count);

/// Keeps panics quiet until [`within`] knows whether anybody was to see them. libFuzzer's own hook ends the process at once, also where
/// a reader holds the panic of a library for an error of the file.
pub fn begin() {
    std::panic::set_hook(Box::new(|panic| {
        PANIC.set(Some((panic.to_string(), Backtrace::force_capture())));
    }));
}

thread_local! {
    static PANIC: RefCell<Option<(String, Backtrace)>> = const { RefCell::new(None) };
}

/// Runs `reader`, which may hold at most `each` bytes for a byte of the input and `base` besides, on this thread.
pub fn within<T>(input: &[u8], each: usize, base: usize, reader: impl FnOnce() -> T) -> T {
    let allowed = (input.len() * each + base) as isize;
    MOST.set(HELD.get() + allowed);
    let result = catch_unwind(AssertUnwindSafe(reader));
    MOST.set(isize::MAX);
    result.unwrap_or_else(|_| {
        if let Some((panic, trace)) = PANIC.take() {
            let _ = writeln!(std::io::stderr(), "{panic}\n{trace}");
        }
        std::process::abort()
    })
}

/// What is done with a Run that was read: it is written and read back the same, and every text and page of it is made.
pub fn shown(run: &Run) {
    let path = Path::new("run.json");
    let text = serde_json::to_vec(run).expect("a Run has a JSON form");
    assert_eq!(&latebound_store::parse_run(&text, path).expect("its own JSON"), run);
    let style = Style { color: true, ..Style::default() };
    terminal::check_summary(run, None, &style);
    terminal::measure_table(run, &style);
    terminal::observe_table(&run.series, &run.losses, &style);
    terminal::missing(&run.missing, &style);
    terminal::imported(run, None, &style);
    terminal::explained(run, &style);
    assert!(html::page(run).ends_with("</html>\n"));
    html::pictures(run);
}
