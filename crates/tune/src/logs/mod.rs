//! Files of a trial that other tools read: `progress.csv`, `result.json` (a line for each result) and TensorBoard events.
//!
//! A result is taken once, its nested parts are walked once, and all files get their share of it in memory; `flush` writes. The line for
//! `result.json` is also what the journal keeps.
//!
//! - **LOG-1** a file that is appended to after a crash has no half line: the rest of one is cut off before anything is added.
//! - **LOG-2** a failed write leaves the file as it was before it, and what was to be written can be written again.
//! - **LOG-3** however many trials there are, the number of open files is bounded.
//!
//! HOT: once per result. Budget 15 us for fifteen keys and all three files.

pub mod csv;
mod files;
pub mod json;
mod numbers;
pub mod tfevents;
mod value;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use self::csv::Table;
use self::files::{Begin, LogFile};
use self::tfevents::Events;
pub use self::value::{Dict, Value};

/// Nothing is buffered beyond this.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// What is not in the table: the configuration is in a file of its own.
const NOT_IN_TABLE: &str = "config";

/// Why a file could not be written. Retry when that is mended.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {source}", path.display())]
pub struct Error {
    /// What was tried.
    pub doing: &'static str,
    /// Which file.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

/// Which files a trial has, and how they begin.
#[derive(Clone, Debug)]
pub struct Options {
    /// `progress.csv`.
    pub csv: bool,
    /// `result.json`.
    pub json: bool,
    /// `events.out.tfevents.*`.
    pub tensorboard: bool,
    /// What is there goes; otherwise it is appended to.
    pub is_fresh: bool,
    /// This machine's name, for the name of the event file.
    pub host: String,
}

/// What is the same in every result of a trial. Results have the last word.
#[derive(Debug, Default)]
pub struct Constant {
    /// Each top-level key with its text in JSON, key included.
    json: Vec<(String, Vec<u8>)>,
    /// Each flat key with its text in the table.
    cells: Vec<(String, Vec<u8>)>,
}

impl Constant {
    /// Encodes it once.
    #[must_use]
    pub fn new(fields: &Dict) -> Self {
        let mut constant = Self::default();
        for (key, value) in fields {
            let mut text = Vec::new();
            json::write_key(key, &mut text);
            json::write(value, &mut text);
            constant.json.push((key.clone(), text));
        }
        value::walk(fields, &mut |top, key, value| {
            if top != NOT_IN_TABLE {
                let mut text = Vec::new();
                csv::write_cell(value, &mut text);
                constant.cells.push((key.to_owned(), text));
            }
        });
        constant
    }
}

/// The files of one trial.
#[derive(Debug)]
pub struct TrialLogs {
    table: Option<Table>,
    lines: Option<LogFile>,
    events: Option<Events>,
    line: Vec<u8>,
}

impl TrialLogs {
    /// Makes nothing yet: a file begins with its first result.
    #[must_use]
    pub fn new(folder: &Path, options: &Options) -> Self {
        let begin = if options.is_fresh { Begin::Anew } else { Begin::AtLastLine };
        Self {
            table: options.csv.then(|| Table::new(LogFile::new(folder.join("progress.csv"), begin))),
            lines: options.json.then(|| LogFile::new(folder.join("result.json"), begin)),
            events: options.tensorboard.then(|| Events::new(folder, &options.host, options.is_fresh)),
            line: Vec::new(),
        }
    }

    /// Takes a result that came at `now`, in seconds since 1970. Returns its line of JSON, without the line's end.
    pub fn result(&mut self, result: &Dict, constant: &Constant, now: f64) -> Result<&[u8], Error> {
        write_line(result, constant, &mut self.line);
        if let Some(lines) = &mut self.lines {
            lines.buffer.extend_from_slice(&self.line);
            lines.buffer.push(b'\n');
        }
        let mut row = self.table.as_mut().map(|table| table.row());
        let mut events = self.events.as_mut().map(|events| events.event());
        if row.is_some() || events.is_some() {
            value::walk(result, &mut |top, key, value| {
                if let Some(row) = &mut row
                    && top != NOT_IN_TABLE
                {
                    row.set(key, value);
                }
                if let Some(events) = &mut events {
                    events.add(top, key, value);
                }
            });
        }
        if let Some(row) = row {
            row.end(&constant.cells);
        }
        if let Some(events) = events {
            events.end(result, now);
        }
        if self.buffered() > BUFFER_BYTES_MAX {
            self.flush()?;
        }
        Ok(&self.line)
    }

    /// Notes the parameters of the trial where TensorBoard's page of hyper-parameters looks for them.
    pub fn hparams(&mut self, params: &Dict, now: f64) {
        if let Some(events) = &mut self.events {
            events.hparams(params, now);
        }
    }

    /// Writes what is in memory. All files are tried; the first error is returned.
    pub fn flush(&mut self) -> Result<(), Error> {
        let results = [
            self.lines.as_mut().map_or(Ok(()), LogFile::flush),
            self.table.as_mut().map_or(Ok(()), Table::flush),
            self.events.as_mut().map_or(Ok(()), Events::flush),
        ];
        results.into_iter().collect()
    }

    fn buffered(&self) -> usize {
        self.lines.as_ref().map_or(0, |file| file.buffer.len())
            + self.table.as_ref().map_or(0, Table::buffered)
            + self.events.as_ref().map_or(0, Events::buffered)
    }
}

fn write_line(result: &Dict, constant: &Constant, line: &mut Vec<u8>) {
    line.clear();
    line.push(b'{');
    let mut is_first = true;
    for (key, value) in result {
        if !is_first {
            line.extend_from_slice(b", ");
        }
        is_first = false;
        json::write_key(key, line);
        json::write(value, line);
    }
    for (key, text) in &constant.json {
        if result.iter().any(|(own, _)| own == key) {
            continue;
        }
        if !is_first {
            line.extend_from_slice(b", ");
        }
        is_first = false;
        line.extend_from_slice(text);
    }
    line.push(b'}');
}
