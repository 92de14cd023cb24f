// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manuals as the tests read them: pages, headings, links, code blocks and the command lines in them. CONTRIBUTING.md has the rules
//! that the tests hold them to. Owns no rule itself.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// One Markdown file.
#[derive(Debug)]
pub(crate) struct Page {
    /// Below the repository's root, with `/` between names.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A code block, fenced or indented.
#[derive(Debug)]
pub(crate) struct Block {
    /// Of its first line of text, from 1.
    pub(crate) line: usize,
    /// What stands behind the fence, in parts; empty of an indented block.
    pub(crate) info: Vec<String>,
    pub(crate) text: String,
}

/// A link or an image.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) to: String,
}

/// A command of a `console` block with the output that is shown below it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// Every page of the book, and the manuals in the root.
pub(crate) fn pages() -> Vec<Page> {
    let root = repository();
    let mut paths: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    collect(&root, "docs/src", &mut paths);
    paths.sort();
    paths.into_iter().map(|path| Page { text: fs::read_to_string(root.join(&path)).unwrap(), path }).collect()
}

fn collect(root: &Path, folder: &str, paths: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, paths);
        } else if path.ends_with(".md") {
            paths.push(path);
        }
    }
}

impl Page {
    fn events(&self) -> impl Iterator<Item = (Event<'_>, usize)> {
        // Offsets become lines by counting on, so that a long page is read once.
        let mut seen = 0;
        let mut line = 1;
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
        Parser::new_ext(&self.text, options).into_offset_iter().map(move |(event, range)| {
            if range.start >= seen {
                line += self.text[seen..range.start].matches('\n').count();
                seen = range.start;
            }
            (event, line)
        })
    }

    /// Code blocks, in their order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (event, line) in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let (fence, info) = match kind {
                        CodeBlockKind::Fenced(info) => (1, info.split(',').map(str::to_owned).collect()),
                        CodeBlockKind::Indented => (0, Vec::new()),
                    };
                    open = Some(Block { line: line + fence, info, text: String::new() });
                }
                Event::Text(text) => {
                    if let Some(block) = &mut open {
                        block.text.push_str(&text);
                    }
                }
                Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
                _ => {}
            }
        }
        blocks
    }

    /// What stands between backticks within the text, with its line.
    pub(crate) fn spans(&self) -> Vec<(usize, String)> {
        self.events()
            .filter_map(|(event, line)| match event {
                Event::Code(code) => Some((line, code.into_string())),
                _ => None,
            })
            .collect()
    }

    /// Links and images that lead to a file, or to a place in this page.
    pub(crate) fn links(&self) -> Vec<Link> {
        self.events()
            .filter_map(|(event, line)| match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    Some(Link { line, to: dest_url.into_string() })
                }
                _ => None,
            })
            .filter(|link| !link.to.contains("://"))
            .collect()
    }

    /// The anchors of its headings, as mdBook and GitHub make them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors = Vec::new();
        let mut times: HashMap<String, usize> = HashMap::new();
        let mut open: Option<String> = None;
        for (event, _) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => open = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut open {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&open.take().unwrap());
                    let before = times.entry(anchor.clone()).or_default();
                    anchors.push(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
                    *before += 1;
                }
                _ => {}
            }
        }
        anchors
    }

    /// Where a relative link leads to, below the repository's root; an error where it leaves that.
    pub(crate) fn target(&self, to: &str) -> Result<String, String> {
        if to.is_empty() {
            return Ok(self.path.clone());
        }
        let mut parts: Vec<&str> = self.path.split('/').collect();
        parts.pop();
        for part in Path::new(to).components() {
            match part {
                Component::Normal(name) => parts.push(name.to_str().ok_or("not UTF-8")?),
                Component::ParentDir => {
                    parts.pop().ok_or("leaves the repository")?;
                }
                Component::CurDir => {}
                _ => return Err("is no relative path".to_owned()),
            }
        }
        Ok(parts.join("/"))
    }
}

fn anchor(heading: &str) -> String {
    heading
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

impl Block {
    pub(crate) fn is(&self, part: &str) -> bool {
        self.info.iter().any(|info| info == part)
    }

    /// The value of `name=value` in the info string.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.info.iter().find_map(|info| info.strip_prefix(name)?.strip_prefix('='))
    }

    /// The commands behind `$ ` with what is shown below each.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let mut all: Vec<Shown> = Vec::new();
        for (place, line) in self.text.lines().enumerate() {
            if let Some(command) = line.strip_prefix("$ ") {
                all.push(Shown { line: self.line + place, command: command.to_owned(), output: Vec::new() });
                continue;
            }
            match all.last_mut() {
                Some(shown) if shown.output.is_empty() && goes_on(&shown.command) => {
                    append(&mut shown.command, line)
                }
                Some(shown) => shown.output.push(line.to_owned()),
                None => {}
            }
        }
        all
    }

    /// Every invocation of latebound in it, in words, with its line. What programs print, a block of `text`, has none.
    pub(crate) fn invocations(&self) -> Vec<(usize, Vec<String>)> {
        if self.is("text") {
            return Vec::new();
        }
        let mut commands: Vec<(usize, String)> = Vec::new();
        if self.is("console") {
            commands.extend(self.shown().into_iter().map(|shown| (shown.line, shown.command)));
        } else {
            for (place, line) in self.text.lines().enumerate() {
                match commands.last_mut() {
                    Some((_, command)) if goes_on(command) => append(command, line),
                    _ => commands.push((self.line + place, line.to_owned())),
                }
            }
        }
        commands
            .iter()
            .flat_map(|(line, command)| invocations(command).into_iter().map(|words| (*line, words)))
            .collect()
    }
}

/// Whether a command of shell goes on in the next line: by a backslash, or by a quote that is open.
fn goes_on(command: &str) -> bool {
    command.ends_with('\\') || command.contains("sh -c '") && command.matches('\'').count() % 2 == 1
}

fn append(command: &mut String, line: &str) {
    if command.ends_with('\\') {
        command.pop();
    } else {
        command.push('\n');
    }
    command.push_str(line);
}

/// The simple commands of a line of shell that begin with latebound, also behind sudo and within a loop.
pub(crate) fn invocations(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for mut words in commands(line) {
        while words.first().is_some_and(|word| ["sudo", "do", "then", "!", "time"].contains(&word.as_str())) {
            words.remove(0);
        }
        if words.first().is_some_and(|word| word == "latebound") {
            found.push(words);
        }
    }
    found
}

/// A line of shell cut into commands and those into words: quotes are taken off, redirections and comments are left out, and nothing is expanded.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut redirected = false;
    let end = |word: &mut Option<String>, commands: &mut Vec<Vec<String>>, redirected: &mut bool| {
        if let Some(word) = word.take()
            && !std::mem::take(redirected)
        {
            commands.last_mut().unwrap().push(word);
        }
    };
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '#') if word.is_none() => break,
            (None, '>') => {
                // `2>` is part of the redirection.
                if word.as_deref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
                    word = None;
                }
                end(&mut word, &mut commands, &mut redirected);
                redirected = true;
                if characters.peek() == Some(&'>') {
                    characters.next();
                }
            }
            (None, ';' | '|' | '&' | '(' | ')') => {
                end(&mut word, &mut commands, &mut redirected);
                commands.push(Vec::new());
            }
            (None, c) if c.is_whitespace() => end(&mut word, &mut commands, &mut redirected),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut commands, &mut redirected);
    commands.retain(|command| !command.is_empty());
    commands
}
