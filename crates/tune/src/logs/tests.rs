use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder of its own for each test; it goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("eagleray-logs-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn logs(&self) -> TrialLogs {
        self.logs_of(&all())
    }

    fn logs_of(&self, options: &Options) -> TrialLogs {
        TrialLogs::new(&self.0, options)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn all() -> Options {
    Options { csv: true, json: true, tensorboard: true, is_fresh: false, host: "here".into() }
}

fn dict<const N: usize>(fields: [(&str, Value); N]) -> Dict {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn float(number: f64) -> String {
    let mut out = Vec::new();
    json::write(&Value::Float(number), &mut out);
    String::from_utf8(out).unwrap()
}

fn no_constant() -> Constant {
    Constant::default()
}

#[test]
fn numbers_look_as_in_python() {
    for (number, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (123_456.789, "123456.789"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e300, "1.5e+300"),
        (0.0001, "0.0001"),
        (0.000_01, "1e-05"),
        (-2.5e-7, "-2.5e-07"),
        (f64::MAX, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        // Two texts are equally short and equally near.
        (562_949_953_421_312.0 + 0.25, "562949953421312.2"),
        (562_949_953_421_312.0 + 0.75, "562949953421312.8"),
        (1.0 + 1.0 / 131_072.0, "1.0000076293945312"),
        (-1.0 / 8_388_608.0 - 1.0, "-1.0000001192092896"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(float(number), text);
    }
    let mut out = Vec::new();
    json::write(&Value::List(vec![Value::Int(i64::MIN), Value::Int(0), Value::Int(i64::MAX)]), &mut out);
    assert_eq!(out, b"[-9223372036854775808, 0, 9223372036854775807]");
}

#[test]
fn the_line_is_json_with_what_is_constant_behind_the_result() {
    let folder = Folder::new();
    let constant = Constant::new(&dict([("pid", Value::Int(3)), ("loss", Value::Int(9))]));
    let result = dict([("loss", Value::Float(0.5)), ("say", Value::Text("a\"b\n\u{7f}\u{e9}\u{1f600}".into()))]);
    let mut logs = folder.logs();
    let line = logs.result(&result, &constant, 1.0).unwrap().to_vec();
    assert_eq!(line, br#"{"loss": 0.5, "say": "a\"b\n\u007f\u00e9\ud83d\ude00", "pid": 3}"#);
    logs.flush().unwrap();
    assert_eq!(folder.text("result.json").as_bytes(), [&line[..], b"\n"].concat());
}

#[test]
fn the_table_has_the_columns_of_the_first_result() {
    let folder = Folder::new();
    let constant = Constant::new(&dict([("trial", Value::Text("t1".into())), ("config", Value::Int(1))]));
    let mut logs = folder.logs();
    let nested = Value::Dict(dict([("x", Value::Int(1)), ("empty", Value::Dict(Vec::new()))]));
    let first =
        dict([("loss", Value::Float(1.0)), ("a", nested), ("list", Value::List(vec![Value::Int(1), Value::None]))]);
    logs.result(&first, &constant, 1.0).unwrap();
    let later =
        dict([("new", Value::Int(7)), ("a", Value::Dict(dict([("x", Value::Bool(true))]))), ("loss", Value::None)]);
    logs.result(&later, &constant, 2.0).unwrap();
    drop(logs);
    assert_eq!(folder.text("progress.csv"), "loss,a/x,list,trial\n1.0,1,\"[1, None]\",t1\n,True,,t1\n");
    // Again in the same folder: the columns are those of the file.
    let mut logs = folder.logs();
    logs.result(&later, &constant, 3.0).unwrap();
    drop(logs);
    assert!(folder.text("progress.csv").ends_with("\n,True,,t1\n,True,,t1\n"));
}

#[test]
fn log_1_half_a_line_is_cut_off() {
    let folder = Folder::new();
    fs::write(folder.0.join("result.json"), "{\"loss\": 1}\n{\"lo").unwrap();
    fs::write(folder.0.join("progress.csv"), "loss\n1\n2").unwrap();
    let mut logs = folder.logs();
    logs.result(&dict([("loss", Value::Int(3))]), &no_constant(), 1.0).unwrap();
    drop(logs);
    assert_eq!(folder.text("result.json"), "{\"loss\": 1}\n{\"loss\": 3}\n");
    assert_eq!(folder.text("progress.csv"), "loss\n1\n3\n");
    // Only half a head was written: it begins again.
    fs::write(folder.0.join("progress.csv"), "lo").unwrap();
    let mut logs = folder.logs();
    logs.result(&dict([("loss", Value::Int(4))]), &no_constant(), 1.0).unwrap();
    drop(logs);
    assert_eq!(folder.text("progress.csv"), "loss\n4\n");
}

#[test]
fn an_empty_result_has_no_row_and_none_is_not_filled_up() {
    let folder = Folder::new();
    let mut logs = folder.logs();
    logs.result(&Vec::new(), &no_constant(), 1.0).unwrap();
    let constant = Constant::new(&dict([("loss", Value::Int(1))]));
    logs.result(&dict([("loss", Value::None), ("x", Value::Int(1))]), &constant, 1.0).unwrap();
    drop(logs);
    assert_eq!(folder.text("progress.csv"), "loss,x\n,1\n");
    assert_eq!(folder.text("result.json"), "{}\n{\"loss\": null, \"x\": 1}\n");
}

#[test]
fn fresh_files_begin_anew() {
    let folder = Folder::new();
    fs::write(folder.0.join("result.json"), "{}\n{}\n").unwrap();
    fs::write(folder.0.join("progress.csv"), "x,y\n1,2\n").unwrap();
    fs::write(folder.0.join("events.out.tfevents.0000000001.here"), "old").unwrap();
    let mut logs = folder.logs_of(&Options { is_fresh: true, ..all() });
    logs.result(&dict([("loss", Value::Int(3))]), &no_constant(), 1.0).unwrap();
    drop(logs);
    assert_eq!(folder.text("result.json"), "{\"loss\": 3}\n");
    assert_eq!(folder.text("progress.csv"), "loss\n3\n");
    let events = event_files(&folder);
    assert_eq!(events.len(), 1);
    assert_eq!(read_events(&fs::read(&events[0]).unwrap()).len(), 2);
}

#[test]
fn log_3_many_trials_share_few_open_files() {
    let folder = Folder::new();
    let options = Options { csv: false, tensorboard: false, ..all() };
    let count = files::OPEN_FILES_MAX + 50;
    let mut trials: Vec<_> = (0..count)
        .map(|number| {
            let path = folder.0.join(number.to_string());
            fs::create_dir(&path).unwrap();
            TrialLogs::new(&path, &options)
        })
        .collect();
    for round in 0..3 {
        for logs in &mut trials {
            logs.result(&dict([("round", Value::Int(round))]), &no_constant(), 1.0).unwrap();
            logs.flush().unwrap();
        }
    }
    assert!(files::open_count() <= files::OPEN_FILES_MAX);
    for number in 0..count {
        assert_eq!(folder.text(&format!("{number}/result.json")), "{\"round\": 0}\n{\"round\": 1}\n{\"round\": 2}\n");
    }
}

#[test]
fn a_folder_that_is_gone_is_an_error_and_nothing_is_lost() {
    let folder = Folder::new();
    let path = folder.0.join("later");
    let mut logs = TrialLogs::new(&path, &Options { csv: false, tensorboard: false, ..all() });
    logs.result(&dict([("loss", Value::Int(3))]), &no_constant(), 1.0).unwrap();
    let error = logs.flush().unwrap_err();
    assert!(error.to_string().contains("later/result.json"), "{error}");
    fs::create_dir(&path).unwrap();
    logs.flush().unwrap();
    assert_eq!(folder.text("later/result.json"), "{\"loss\": 3}\n");
}

/// A reader of its own: records with their sums, and of each event the step and the values.
fn read_events(bytes: &[u8]) -> Vec<(i64, Vec<(String, f32)>)> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        let sum = |bytes: &[u8]| {
            let sum = crc32c::crc32c(bytes);
            sum.rotate_left(17).wrapping_add(0xa282_ead8).to_le_bytes()
        };
        assert_eq!(rest[8..12], sum(&rest[..8]));
        let message = &rest[12..12 + length];
        assert_eq!(rest[12 + length..16 + length], sum(message));
        rest = &rest[16 + length..];
        let mut event = (0, Vec::new());
        for (field, number, bytes) in fields(message) {
            match field {
                2 => event.0 = number as i64,
                5 => {
                    for (_, _, value) in fields(bytes) {
                        let parts = fields(value);
                        let tag = String::from_utf8(parts[0].2.to_vec()).unwrap();
                        let number = parts.iter().find(|part| part.0 == 2).map_or(0, |part| part.1);
                        event.1.push((tag, f32::from_bits(number as u32)));
                    }
                }
                _ => {}
            }
        }
        found.push(event);
    }
    found
}

/// The fields of a message: number, value if it is one, bytes if it is some.
fn fields(mut rest: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(rest: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = rest[0];
            *rest = &rest[1..];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let (number, length) = match key & 7 {
            0 => (varint(&mut rest), 0),
            1 => (u64::from_le_bytes(rest[..8].try_into().unwrap()), 8),
            2 => (0, varint(&mut rest) as usize),
            5 => (u64::from(u32::from_le_bytes(rest[..4].try_into().unwrap())), 4),
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, number, &rest[..length]));
        rest = &rest[length..];
    }
    found
}

fn event_files(folder: &Folder) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("events.out.tfevents."));
    found.sort();
    found
}

#[test]
fn events_have_every_number_under_its_flat_key() {
    let folder = Folder::new();
    let long = "k".repeat(300);
    let mut logs = folder.logs();
    let result = dict([
        ("loss", Value::Float(0.25)),
        ("nan", Value::Float(f64::NAN)),
        ("text", Value::Text("no".into())),
        ("pid", Value::Int(4)),
        ("training_iteration", Value::Int(300)),
        ("done", Value::Bool(true)),
        ("deep", Value::Dict(dict([("er", Value::Dict(dict([("x", Value::Int(-2))])))]))),
        (&long, Value::Float(f64::INFINITY)),
    ]);
    logs.result(&result, &no_constant(), 1_700_000_000.5).unwrap();
    logs.result(&dict([("timesteps_total", Value::Int(5)), ("loss", Value::Int(1))]), &no_constant(), 1_700_000_001.0)
        .unwrap();
    logs.flush().unwrap();
    let files = event_files(&folder);
    assert_eq!(files.len(), 1);
    assert!(files[0].ends_with("events.out.tfevents.1700000000.here"));
    let events = read_events(&fs::read(&files[0]).unwrap());
    assert_eq!(events.len(), 3);
    assert_eq!(events[0], (0, vec![]));
    let long_tag = format!("ray/tune/{long}");
    let expected = [
        ("ray/tune/loss", 0.25),
        ("ray/tune/done", 1.0),
        ("ray/tune/deep/er/x", -2.0),
        (long_tag.as_str(), f32::INFINITY),
    ];
    assert_eq!(events[1], (300, expected.map(|(tag, number)| (tag.to_owned(), number)).to_vec()));
    assert_eq!(events[2].0, 5);
}

#[test]
fn a_trial_that_starts_again_has_another_event_file() {
    let folder = Folder::new();
    for _ in 0..2 {
        let mut logs = folder.logs();
        logs.hparams(&dict([("lr", Value::Float(0.1)), ("net", Value::Text("small".into()))]), 5.0);
        logs.result(&dict([("loss", Value::Int(1))]), &no_constant(), 5.0).unwrap();
    }
    let files = event_files(&folder);
    assert_eq!(files.len(), 2);
    for file in files {
        let events = read_events(&fs::read(file).unwrap());
        assert_eq!(events[1].1[0].0, "_hparams_/session_start_info");
        assert_eq!(events[2].1, [("ray/tune/loss".to_owned(), 1.0)]);
    }
}
