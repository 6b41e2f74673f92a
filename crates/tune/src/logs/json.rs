//! JSON, byte for byte as Python's `json.dumps` writes it: `NaN` and `Infinity` too, everything beyond ASCII escaped.

use std::io::Write;

use super::numbers::{write_float, write_int};
use super::value::{Dict, Value};

/// Appends the text of a value.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::None => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => write_int(*number, out),
        Value::Big(digits) => out.extend_from_slice(digits.as_bytes()),
        Value::Float(number) => write_float(*number, ["NaN", "Infinity", "-Infinity"], out),
        Value::Text(text) => write_text(text, out),
        Value::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Dict(fields) => write_dict(fields, out),
    }
}

/// Appends the text of a dict.
pub fn write_dict(fields: &Dict, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        write_key(key, out);
        write(value, out);
    }
    out.push(b'}');
}

/// Appends a key and what stands between it and its value.
pub fn write_key(key: &str, out: &mut Vec<u8>) {
    write_text(key, out);
    out.extend_from_slice(b": ");
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
    } else {
        text.chars().for_each(|letter| write_letter(letter, out));
    }
    out.push(b'"');
}

fn write_letter(letter: char, out: &mut Vec<u8>) {
    match letter {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        ' '..='~' => out.push(letter as u8),
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}
