//! Numbers as Python writes them.

use std::io::Write;

/// The shortest text that reads as the same number, laid out as Python's `repr`; `nan`, `inf` and `-inf` as given.
pub(super) fn write_float(number: f64, odd: [&str; 3], out: &mut Vec<u8>) {
    if number.is_nan() {
        return out.extend_from_slice(odd[0].as_bytes());
    }
    if number.is_infinite() {
        return out.extend_from_slice(odd[if number > 0.0 { 1 } else { 2 }].as_bytes());
    }
    // One digit, a point, the others, `e` and the exponent: the shortest digits that there are.
    let mut scratch = [0_u8; 32];
    let mut rest = &mut scratch[..];
    let _ = write!(rest, "{number:e}");
    let left = rest.len();
    let text = &scratch[..32 - left];
    let (text, is_negative) = text.strip_prefix(b"-").map_or((text, false), |text| (text, true));
    let at = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let exponent = str::from_utf8(&text[at + 1..]).ok().and_then(|text| text.parse::<i32>().ok()).unwrap_or_default();
    let mut digits = [0_u8; 24];
    let mut count = 0;
    for byte in &text[..at] {
        if *byte != b'.' {
            digits[count] = *byte;
            count += 1;
        }
    }
    let digits = &digits[..count];
    if is_negative {
        out.push(b'-');
    }
    match exponent {
        -4..0 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(digits);
        }
        0..16 => {
            let before = exponent as usize + 1;
            if digits.len() > before {
                out.extend_from_slice(&digits[..before]);
                out.push(b'.');
                out.extend_from_slice(&digits[before..]);
            } else {
                out.extend_from_slice(digits);
                out.resize(out.len() + before - digits.len(), b'0');
                out.extend_from_slice(b".0");
            }
        }
        _ => {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            let _ = write!(out, "e{sign}{:02}", exponent.abs());
        }
    }
}

/// A whole number.
pub(super) fn write_int(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}
