//! `progress.csv`: its columns are the flat keys of the first result. Later keys that it lacks are left out, missing ones stay empty.

use std::io::{BufRead, BufReader};

use rustc_hash::FxHashMap;

use super::Error;
use super::files::{Begin, LogFile};
use super::numbers::{write_float, write_int};
use super::value::Value;

/// A cell that has got no text, not even an empty one.
const UNSET: (u32, u32) = (1, 0);

/// The file and its columns.
#[derive(Debug)]
pub(super) struct Table {
    file: LogFile,
    columns: Vec<String>,
    places: FxHashMap<String, usize>,
    /// Room for the values of a row, kept from one to the next: where each cell's text lies in `text`.
    cells: Vec<(u32, u32)>,
    text: Vec<u8>,
}

impl Table {
    pub(super) fn new(file: LogFile) -> Self {
        Self { file, columns: Vec::new(), places: FxHashMap::default(), cells: Vec::new(), text: Vec::new() }
    }

    pub(super) fn row(&mut self) -> Row<'_> {
        self.cells.clear();
        self.cells.resize(self.columns.len(), UNSET);
        self.text.clear();
        Row { count: 0, firsts: Vec::new(), table: self }
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.file.flush()
    }

    pub(super) fn buffered(&self) -> usize {
        self.file.buffer.len()
    }

    fn begin(&mut self, columns: Vec<String>, is_written: bool) {
        if is_written {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    self.file.buffer.push(b',');
                }
                write_quoted(column.as_bytes(), &mut self.file.buffer);
            }
            self.file.buffer.push(b'\n');
        }
        self.places = columns.iter().enumerate().map(|(place, column)| (column.clone(), place)).collect();
        self.columns = columns;
    }

    /// The columns of a file that is there already.
    fn found_columns(&mut self) -> Option<Vec<String>> {
        if self.file.begin != Begin::AtLastLine {
            return None;
        }
        let mut line = Vec::new();
        BufReader::new(std::fs::File::open(&self.file.path).ok()?).read_until(b'\n', &mut line).ok()?;
        (line.last() == Some(&b'\n')).then(|| split(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r'])))
    }
}

/// A line that is being filled.
pub(super) struct Row<'a> {
    table: &'a mut Table,
    count: usize,
    /// Before there are columns: the keys of the first result and where their text lies.
    firsts: Vec<(String, (u32, u32))>,
}

impl Row<'_> {
    pub(super) fn set(&mut self, key: &str, value: &Value) {
        if self.table.columns.is_empty() {
            let cell = self.add_text(value);
            self.firsts.push((key.to_owned(), cell));
            return;
        }
        let guess = self.count;
        self.count += 1;
        // Results have their keys in the same order, most of the time.
        let is_guessed = self.table.columns.get(guess).is_some_and(|column| column == key);
        let place = if is_guessed { Some(guess) } else { self.table.places.get(key).copied() };
        if let Some(place) = place {
            self.table.cells[place] = self.add_text(value);
        }
    }

    pub(super) fn end(mut self, constant: &[(String, Vec<u8>)]) {
        if self.table.columns.is_empty() {
            self.begin(constant);
        }
        // A result without anything in it, before there was another: the columns are still to come.
        if self.table.columns.is_empty() {
            return;
        }
        let Table { file, cells, text, places, .. } = &mut *self.table;
        for (key, value) in constant {
            if let Some(place) = places.get(key)
                && cells[*place] == UNSET
            {
                let start = text.len() as u32;
                text.extend_from_slice(value);
                cells[*place] = (start, text.len() as u32);
            }
        }
        for (index, (start, end)) in cells.iter().enumerate() {
            if index > 0 {
                file.buffer.push(b',');
            }
            file.buffer.extend_from_slice(text.get(*start as usize..*end as usize).unwrap_or_default());
        }
        file.buffer.push(b'\n');
    }

    fn add_text(&mut self, value: &Value) -> (u32, u32) {
        let text = &mut self.table.text;
        let start = text.len() as u32;
        write_cell(value, text);
        (start, text.len() as u32)
    }

    fn begin(&mut self, constant: &[(String, Vec<u8>)]) {
        let firsts = std::mem::take(&mut self.firsts);
        if let Some(columns) = self.table.found_columns() {
            self.table.begin(columns, false);
        } else {
            let mut columns: Vec<String> = firsts.iter().map(|(key, _)| key.clone()).collect();
            for (key, _) in constant {
                if !columns.contains(key) {
                    columns.push(key.clone());
                }
            }
            let is_written = !columns.is_empty();
            self.table.begin(columns, is_written);
        }
        self.table.cells.resize(self.table.columns.len(), UNSET);
        for (key, cell) in firsts {
            if let Some(place) = self.table.places.get(&key) {
                self.table.cells[*place] = cell;
            }
        }
    }
}

/// Appends a value as Python's `csv` writes it, quoted if need be.
pub(super) fn write_cell(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::None => {}
        Value::Text(text) => write_quoted(text.as_bytes(), out),
        Value::List(_) | Value::Dict(_) => {
            let mut text = Vec::new();
            write_repr(value, &mut text);
            write_quoted(&text, out);
        }
        plain => write_repr(plain, out),
    }
}

fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// As Python shows it inside a list.
fn write_repr(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::None => out.extend_from_slice(b"None"),
        Value::Bool(true) => out.extend_from_slice(b"True"),
        Value::Bool(false) => out.extend_from_slice(b"False"),
        Value::Int(number) => write_int(*number, out),
        Value::Big(digits) => out.extend_from_slice(digits.as_bytes()),
        Value::Float(number) => write_float(*number, ["nan", "inf", "-inf"], out),
        Value::Text(text) => {
            let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
            let mut shown = String::from(quote);
            for letter in text.chars() {
                match letter {
                    '\n' => shown.push_str("\\n"),
                    '\r' => shown.push_str("\\r"),
                    '\t' => shown.push_str("\\t"),
                    '\\' => shown.push_str("\\\\"),
                    other if other == quote => shown.extend(['\\', other]),
                    other => shown.push(other),
                }
            }
            shown.push(quote);
            out.extend_from_slice(shown.as_bytes());
        }
        Value::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write_repr(item, out);
            }
            out.push(b']');
        }
        Value::Dict(fields) => {
            out.push(b'{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write_repr(&Value::Text(key.clone()), out);
                out.extend_from_slice(b": ");
                write_repr(value, out);
            }
            out.push(b'}');
        }
    }
}

/// The cells of one line.
fn split(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = cells.len() - 1;
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cells[last].push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cells[last].push(other),
        }
    }
    cells
}
