// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every command line that the manuals and the help show is one that the parser takes. Lives here because the parser is private to the binary.

#[allow(dead_code, reason = "tests/manuals.rs uses the rest")]
#[path = "../tests/markdown/mod.rs"]
mod markdown;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::cli::Cli;

/// Why the parser refuses it.
fn refusal(words: &[String]) -> Option<String> {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return None;
        }
        Err(error) => return Some(error.to_string()),
    };
    // What a guest runs is a verb with its options as well, or `exec` and a command.
    let job = match &cli.verb {
        crate::cli::Verb::Lab(_) => words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect(),
        _ => Vec::new(),
    };
    match job.first() {
        Some(first) if first != "exec" => refusal(&[vec!["latebound".to_owned()], job].concat()),
        _ => None,
    }
}

#[test]
fn every_command_line_in_a_block_of_the_manuals_parses() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in markdown::pages() {
        for (line, words) in page.blocks().iter().flat_map(markdown::Block::invocations) {
            count += 1;
            if let Some(why) = refusal(&words) {
                wrong.push(format!("{}:{line}: {}\n{why}", page.path, words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 60, "the manuals show {count} command lines; are they still found?");
}

#[test]
fn a_command_line_within_a_sentence_has_no_word_that_is_not_there() {
    let mut wrong = Vec::new();
    for page in markdown::pages() {
        for (line, code) in page.spans() {
            for words in markdown::invocations(&code) {
                let Err(error) = Cli::try_parse_from(&words) else { continue };
                // It may leave out what is required, and name values by words.
                if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) {
                    wrong.push(format!("{}:{line}: {code}\n{error}", page.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_example_of_the_help_parses() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut left = vec![Cli::command()];
    while let Some(command) = left.pop() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let joined = after.replace("\\\n", " ");
        for line in joined.lines().filter(|line| line.starts_with("  ")) {
            // A remark in brackets may stand behind an example.
            for words in markdown::invocations(line.split("   (").next().unwrap()) {
                count += 1;
                if let Some(why) = refusal(&words) {
                    wrong.push(format!("help of {}: {line}\n{why}", command.get_name()));
                }
            }
        }
        left.extend(command.get_subcommands().cloned());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 60, "the help shows {count} examples; are they still found?");
}

#[test]
fn every_verb_has_a_page_of_the_guide() {
    let pages = markdown::pages();
    for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = verb.get_name();
        let has = pages.iter().filter(|page| page.path.starts_with("docs/src/guide/")).any(|page| {
            // A title is the verbs of the page, a colon, and what they are for.
            let title = page.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
            let verbs = title.split(':').next().unwrap_or_default();
            verbs.split([',', ' ']).any(|word| word == name)
        });
        assert!(has, "no page of docs/src/guide has {name} before the colon of its title");
    }
}
