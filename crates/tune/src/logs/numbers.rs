//! Numbers as Python writes them.

use std::fmt::Arguments;
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
    let mut text = written(&mut scratch, format_args!("{number:e}"));
    let mut other = [0_u8; 32];
    if may_lie_between(number, &text) {
        // Of two that are equally near Python takes the even one.
        let even = written(&mut other, format_args!("{number:.*e}", text.count() - 1));
        if even.reads_as(number) {
            text = even;
        }
    }
    let Scientific { text, is_negative, at, exponent } = text;
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

/// A number's digits and exponent, as Rust writes them.
struct Scientific<'a> {
    /// Without the sign.
    text: &'a [u8],
    is_negative: bool,
    /// Where the `e` stands.
    at: usize,
    exponent: i32,
}

impl Scientific<'_> {
    /// How many digits there are.
    fn count(&self) -> usize {
        if self.at > 1 { self.at - 1 } else { self.at }
    }

    fn reads_as(&self, number: f64) -> bool {
        str::from_utf8(self.text).ok().and_then(|text| text.parse::<f64>().ok()) == Some(number.abs())
    }
}

fn written<'a>(scratch: &'a mut [u8; 32], number: Arguments<'_>) -> Scientific<'a> {
    let mut rest = &mut scratch[..];
    let _ = rest.write_fmt(number);
    let left = rest.len();
    let text = &scratch[..32 - left];
    let (text, is_negative) = text.strip_prefix(b"-").map_or((text, false), |text| (text, true));
    let at = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let exponent = str::from_utf8(&text[at + 1..]).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    Scientific { text, is_negative, at, exponent }
}

/// Whether the shortest digits may be one of two that are equally near: then the number has one digit more, a five. It has as many places
/// behind the point as in binary.
fn may_lie_between(number: f64, shortest: &Scientific<'_>) -> bool {
    let bits = number.to_bits();
    let (fraction, power) = (bits & ((1 << 52) - 1), ((bits >> 52) & 0x7ff) as i32);
    let mantissa = if power == 0 { fraction } else { fraction | (1 << 52) };
    let places = 1075 - power.max(1) - mantissa.trailing_zeros() as i32;
    let count = shortest.count() as i32;
    if places > 0 { places == count - shortest.exponent } else { count >= 15 }
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
