// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own description of its records: the `format` texts of tracefs and the `header_page` text.
//!
//! Owns the reading of these texts. Never guesses a layout: a field that the text does not name is not there.
//! The texts come from `f_show` in kernel/trace/trace_events.c and `ring_buffer_print_page_header` in
//! kernel/trace/ring_buffer.c (6.12); their shape has been the same since 2.6.3x.

/// What kind of storage a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number or a pointer of the field's size.
    Number,
    /// An array inside the record, such as `char comm[16]`.
    Array,
    /// `__data_loc`: a 32-bit word whose low half is the offset from the record's start, the high half the length.
    DataLocation,
    /// `__rel_loc`: the same, the offset counted from the end of the word.
    RelativeLocation,
}

/// One field of an event's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name: `caller_offs`.
    pub name: String,
    /// Its type as the kernel wrote it: `pid_t`, `__data_loc char[]`.
    pub type_name: String,
    /// Where it begins in the record, `common_type` being at 0.
    pub offset: u32,
    /// How many bytes it has; of an array all of them.
    pub size: u32,
    /// Whether it is signed.
    pub signed: bool,
    /// What kind of storage it has.
    pub kind: FieldKind,
}

/// One event as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The number that its records begin with.
    pub id: u16,
    /// The folder it stands in: `sched`.
    pub system: String,
    /// Its name: `sched_switch`.
    pub name: String,
    /// Its fields, the common ones first.
    pub fields: Vec<Field>,
}

impl EventFormat {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Reads one `format` text; says what is wrong with one that cannot be read.
    pub fn parse(system: &str, text: &str) -> Result<EventFormat, String> {
        let name = header(text, "name:").ok_or("there is no \"name:\" line")?;
        let id = header(text, "ID:").ok_or("there is no \"ID:\" line")?;
        let id = id.parse().map_err(|_| format!("the ID {id:?} is not a number below 65536"))?;
        let fields = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        let fields = fields.map(parse_field).collect::<Result<Vec<_>, _>>()?;
        match fields.first() {
            Some(first) if first.name == "common_type" && first.offset == 0 && first.size == 2 => {}
            _ => return Err("the record does not begin with a 16-bit common_type".to_owned()),
        }
        Ok(EventFormat { id, system: system.to_owned(), name: name.to_owned(), fields })
    }
}

fn header<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// The largest record: no event is larger than a page, and no page than this.
const MAX_RECORD: u32 = 1 << 23;

/// `unsigned short common_type; offset:0; size:2; signed:0;`, with tabs between.
fn parse_field(line: &str) -> Result<Field, String> {
    let bad = |why: &str| format!("field \"{}\": {why}", line.trim());
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next().unwrap_or_default();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => signed = value.trim() == "1",
            _ => {}
        }
    }
    let offset: u32 = offset.ok_or_else(|| bad("no offset"))?;
    let size: u32 = size.ok_or_else(|| bad("no size"))?;
    if offset > MAX_RECORD || size > MAX_RECORD {
        return Err(bad("lies outside any record"));
    }
    // The name is the last word; `[16]` behind it makes an array, `[]` before it belongs to a dynamic type.
    let (declaration, bracketed) = match declaration.strip_suffix(']').and_then(|d| d.rsplit_once('[')) {
        Some((declaration, _)) => (declaration.trim_end(), true),
        None => (declaration, false),
    };
    let (type_name, name) = declaration.rsplit_once([' ', '*', ']']).ok_or_else(|| bad("no type"))?;
    if name.is_empty() {
        return Err(bad("no name"));
    }
    let kind = if declaration.starts_with("__data_loc") {
        FieldKind::DataLocation
    } else if declaration.starts_with("__rel_loc") {
        FieldKind::RelativeLocation
    } else if bracketed {
        FieldKind::Array
    } else {
        FieldKind::Number
    };
    Ok(Field {
        name: name.to_owned(),
        type_name: type_name.trim_end().to_owned(),
        offset,
        size,
        signed,
        kind,
    })
}

/// Every event that a trace describes, found by number.
#[derive(Clone, Debug, Default)]
pub struct Formats {
    events: Vec<EventFormat>,
    /// Texts that could not be read: the system, and why.
    problems: Vec<String>,
}

/// More problems than these are not listed one by one.
const MAX_PROBLEMS: usize = 16;

impl Formats {
    /// Every event, by ascending number.
    pub fn events(&self) -> &[EventFormat] {
        &self.events
    }

    /// What could not be read of the descriptions; records of such events count as unknown.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The event with this number.
    pub fn by_id(&self, id: u16) -> Option<&EventFormat> {
        self.events.binary_search_by_key(&id, |event| event.id).ok().map(|at| &self.events[at])
    }

    /// The event of this system and name.
    pub fn by_name(&self, system: &str, name: &str) -> Option<&EventFormat> {
        self.events.iter().find(|event| event.system == system && event.name == name)
    }

    /// Adds one `format` text.
    pub fn add(&mut self, system: &str, text: &[u8]) {
        match EventFormat::parse(system, &String::from_utf8_lossy(text)) {
            Ok(event) => self.events.push(event),
            Err(why) if self.problems.len() < MAX_PROBLEMS => {
                self.problems.push(format!("an event of {system}: {why}"));
            }
            Err(_) => {}
        }
    }

    /// Brings the events into order after the last [`Formats::add`]. Of two with one number the first stays.
    pub fn finish(&mut self) {
        self.events.sort_by_key(|event| event.id);
        self.events.dedup_by_key(|event| event.id);
    }
}

/// Where a ring-buffer page keeps what, from the `header_page` text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Bytes of the `commit` word: the kernel's `long`, 4 or 8.
    pub commit_size: usize,
    /// Where the events begin.
    pub data_offset: usize,
}

impl PageLayout {
    /// Reads a `header_page` text: a 64-bit `timestamp` at 0, `commit` at 8, and the `data` behind it.
    pub fn parse(text: &str) -> Result<PageLayout, String> {
        let fields = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        let fields = fields.map(parse_field).collect::<Result<Vec<_>, _>>()?;
        let field = |name: &str| {
            fields
                .iter()
                .find(|field| field.name == name)
                .ok_or_else(|| format!("header_page has no field {name}"))
        };
        let (timestamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let sound = timestamp.offset == 0
            && timestamp.size == 8
            && commit.offset == 8
            && matches!(commit.size, 4 | 8)
            && data.offset >= 8 + commit.size
            && data.offset <= 64;
        if !sound {
            return Err(format!(
                "header_page has timestamp at {} with {} bytes, commit at {} with {}, data at {}: not a layout that is known",
                timestamp.offset, timestamp.size, commit.offset, commit.size, data.offset
            ));
        }
        Ok(PageLayout { commit_size: commit.size as usize, data_offset: data.offset as usize })
    }

    /// Bytes of a page, by the same text: where the data begin, and their size.
    pub fn page_size(text: &str) -> Result<usize, String> {
        let layout = PageLayout::parse(text)?;
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        let data = lines.filter_map(|line| parse_field(line).ok()).find(|field| field.name == "data");
        let size = layout.data_offset + data.map_or(0, |field| field.size as usize);
        // A page of the machine or a power of two of them (buffer_subbuf_size_kb, 6.8 and later).
        match size.is_power_of_two() && (1024..=MAX_RECORD as usize).contains(&size) {
            true => Ok(size),
            false => Err(format!(
                "header_page has pages of {size} bytes, which is no power of two of at least 1024"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:const char * reason;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:long prev_state;\toffset:40;\tsize:8;\tsigned:1;\n\nprint fmt: \"field:%d\", REC->prev_pid\n";

    #[test]
    fn a_format_text_gives_every_field_with_its_place() {
        let event = EventFormat::parse("sched", SWITCH).unwrap();
        assert_eq!((event.id, event.name.as_str(), event.fields.len()), (316, "sched_switch", 6));
        let comm = event.field("prev_comm").unwrap();
        assert_eq!((comm.offset, comm.size, comm.kind), (8, 16, FieldKind::Array));
        let name = event.field("name").unwrap();
        assert_eq!((name.kind, name.type_name.as_str()), (FieldKind::DataLocation, "__data_loc char[]"));
        let reason = event.field("reason").unwrap();
        assert_eq!((reason.kind, reason.offset, reason.size), (FieldKind::Number, 32, 8));
        assert!(event.field("prev_state").unwrap().signed);
    }

    #[test]
    fn a_format_text_that_cannot_be_read_says_why() {
        for (text, why) in [
            ("ID: 3\n", "no \"name:\""),
            ("name: x\nID: 70000\n", "below 65536"),
            ("name: x\nID: 3\nformat:\n", "common_type"),
            ("name: x\nID: 3\n\tfield:int a;\tsize:4;\n", "no offset"),
            ("name: x\nID: 3\n\tfield:a;\toffset:0;\tsize:4;\n", "no type"),
        ] {
            let error = EventFormat::parse("s", text).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_page_layout_of_32_and_64_bit_kernels_is_read() {
        let text = |commit: u32, data: u32| {
            format!(
                "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{commit};\tsigned:1;\n\
                 \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:{data};\tsize:4080;\tsigned:1;\n"
            )
        };
        assert_eq!(PageLayout::parse(&text(8, 16)), Ok(PageLayout { commit_size: 8, data_offset: 16 }));
        assert_eq!(PageLayout::parse(&text(4, 12)), Ok(PageLayout { commit_size: 4, data_offset: 12 }));
        assert_eq!(PageLayout::page_size(&text(8, 16)), Ok(4096));
        assert!(PageLayout::page_size(&text(4, 12)).unwrap_err().contains("4092 bytes"));
        assert!(PageLayout::parse(&text(2, 12)).unwrap_err().contains("not a layout"));
        assert!(PageLayout::parse("").unwrap_err().contains("no field timestamp"));
    }
}
