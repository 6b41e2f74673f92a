//! TensorBoard's event files: records of length, masked checksums and a protobuf message, written by hand.
//!
//! ```text
//! record   length u64 | masked crc32c of it u32 | message | masked crc32c of it u32
//! Event    1 wall_time double, 2 step int64, 3 file_version string, 5 Summary
//! Summary  1 Value: 1 tag string, 2 simple_value float, 9 SummaryMetadata
//! ```
//!
//! A result is one event with a value for each number in it. What is the same for all results, or only says how far the trial is, is left
//! out, and so is what is no number.

use std::path::{Path, PathBuf};

use super::Error;
use super::files::{Begin, LogFile};
use super::value::{Dict, Value};

/// What names of event files begin with.
const NAME: &str = "events.out.tfevents.";
/// What stands before every key.
const PREFIX: &str = "ray/tune/";
/// Keys at the top that are no curves.
const LEFT_OUT: [&str; 5] = ["config", "pid", "timestamp", "time_total_s", "training_iteration"];

/// The file of one trial.
#[derive(Debug)]
pub(super) struct Events {
    folder: PathBuf,
    host: String,
    file: Option<LogFile>,
    count: i64,
    /// The files of earlier starts go when this one's begins.
    is_fresh: bool,
    /// Kept from one event to the next.
    summary: Vec<u8>,
    message: Vec<u8>,
}

impl Events {
    pub(super) fn new(folder: &Path, host: &str, is_fresh: bool) -> Self {
        Self {
            folder: folder.to_path_buf(),
            host: host.to_owned(),
            file: None,
            count: 0,
            is_fresh,
            summary: Vec::new(),
            message: Vec::new(),
        }
    }

    pub(super) fn event(&mut self) -> Event<'_> {
        self.summary.clear();
        Event { events: self }
    }

    /// The trial's parameters as the start of a session of TensorBoard's page of hyper-parameters.
    pub(super) fn hparams(&mut self, params: &Dict, now: f64) {
        // SessionStartInfo: 1 hparams map<string, google.protobuf.Value>, 5 start_time_secs double.
        let mut info = Vec::new();
        super::value::walk(params, &mut |_, key, value| {
            let mut entry = Vec::new();
            put_bytes(1, key.as_bytes(), &mut entry);
            put_bytes(2, &hparam(value), &mut entry);
            put_bytes(1, &entry, &mut info);
        });
        put_double(5, now, &mut info);
        // HParamsPluginData: 1 version (0 is not written), 3 session_start_info.
        let mut content = Vec::new();
        put_bytes(3, &info, &mut content);
        // SummaryMetadata: 1 plugin_data: 1 plugin_name, 2 content.
        let mut plugin = Vec::new();
        put_bytes(1, b"hparams", &mut plugin);
        put_bytes(2, &content, &mut plugin);
        let mut metadata = Vec::new();
        put_bytes(1, &plugin, &mut metadata);
        let mut value = Vec::new();
        put_bytes(1, b"_hparams_/session_start_info", &mut value);
        put_bytes(9, &metadata, &mut value);
        self.summary.clear();
        put_bytes(1, &value, &mut self.summary);
        self.write_event(0, now);
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.file.as_mut().map_or(Ok(()), LogFile::flush)
    }

    pub(super) fn buffered(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.buffer.len())
    }

    fn write_event(&mut self, step: i64, now: f64) {
        let Self { folder, host, file, summary, message, is_fresh, .. } = self;
        let file = file.get_or_insert_with(|| {
            if *is_fresh {
                remove_all(folder);
            }
            begin(folder, host, now)
        });
        message.clear();
        put_double(1, now, message);
        message.push(2 << 3);
        put_varint(step as u64, message);
        put_bytes(5, summary, message);
        put_record(message, &mut file.buffer);
    }
}

/// An event that is being filled.
pub(super) struct Event<'a> {
    events: &'a mut Events,
}

impl Event<'_> {
    pub(super) fn add(&mut self, top: &str, key: &str, value: &Value) {
        let Some(number) = value.number().filter(|number| !number.is_nan()) else { return };
        if LEFT_OUT.contains(&top) {
            return;
        }
        let tag_bytes = PREFIX.len() + key.len();
        let out = &mut self.events.summary;
        out.push((1 << 3) | 2);
        put_varint((1 + varint_bytes(tag_bytes as u64) + tag_bytes + 5) as u64, out);
        out.push((1 << 3) | 2);
        put_varint(tag_bytes as u64, out);
        out.extend_from_slice(PREFIX.as_bytes());
        out.extend_from_slice(key.as_bytes());
        out.push((2 << 3) | 5);
        out.extend_from_slice(&(number as f32).to_le_bytes());
    }

    pub(super) fn end(self, result: &Dict, now: f64) {
        let events = self.events;
        events.count += 1;
        let whole = |name: &str| match result.iter().find(|(key, _)| key == name) {
            Some((_, Value::Int(number))) if *number != 0 => Some(*number),
            _ => None,
        };
        let step = whole("timesteps_total").or_else(|| whole("training_iteration")).unwrap_or(events.count);
        if !events.summary.is_empty() {
            events.write_event(step, now);
        }
    }
}

/// What cannot be removed stays: more points than there are is no reason to stop.
fn remove_all(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NAME)) {
        let _ = std::fs::remove_file(entry.path());
    }
}

/// A file of its own for each start of a trial: TensorBoard reads all of a folder as one.
fn begin(folder: &Path, host: &str, now: f64) -> LogFile {
    let name = format!("{NAME}{:010}.{host}", now as u64);
    let mut path = folder.join(&name);
    let mut number = 1;
    while path.exists() {
        path = folder.join(format!("{name}.{number}"));
        number += 1;
    }
    let mut file = LogFile::new(path, Begin::Anew);
    let mut message = Vec::new();
    put_double(1, now, &mut message);
    put_bytes(3, b"brain.Event:2", &mut message);
    put_record(&message, &mut file.buffer);
    file
}

/// google.protobuf.Value: 2 number_value, 3 string_value, 4 bool_value.
fn hparam(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Bool(is_true) => out.extend_from_slice(&[4 << 3, u8::from(*is_true)]),
        Value::Text(text) => put_bytes(3, text.as_bytes(), &mut out),
        other => match other.number() {
            Some(number) => put_double(2, number, &mut out),
            None => {
                let mut text = Vec::new();
                super::json::write(other, &mut text);
                put_bytes(3, &text, &mut out);
            }
        },
    }
    out
}

fn put_record(message: &[u8], out: &mut Vec<u8>) {
    let length = (message.len() as u64).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked(&length).to_le_bytes());
    out.extend_from_slice(message);
    out.extend_from_slice(&masked(message).to_le_bytes());
}

/// A checksum of bytes that contain checksums tells little: the format turns it and adds a constant.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn varint_bytes(number: u64) -> usize {
    (64 - (number | 1).leading_zeros()).div_ceil(7) as usize
}

fn put_bytes(field: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push((field << 3) | 2);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_double(field: u8, number: f64, out: &mut Vec<u8>) {
    out.push((field << 3) | 1);
    out.extend_from_slice(&number.to_le_bytes());
}
