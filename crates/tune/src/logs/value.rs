//! A result as it came from Python: what JSON knows, and nothing else.

/// Keys and values in the order of the dict.
pub type Dict = Vec<(String, Value)>;

/// Anything that a trial may report.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is larger, as its digits.
    Big(String),
    /// A number, also one that is none or infinite.
    Float(f64),
    /// A text, or what Python's `str` says of something else.
    Text(String),
    /// A list or a tuple.
    List(Vec<Value>),
    /// A dict.
    Dict(Dict),
}

impl Value {
    /// As a number, if it is one or a truth value.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            Self::Int(value) => Some(*value as f64),
            Self::Big(digits) => digits.parse().ok(),
            Self::Float(value) => Some(*value),
            Self::None | Self::Text(_) | Self::List(_) | Self::Dict(_) => None,
        }
    }
}

/// Calls `visit` for each value that is no dict, with the key at the top and the whole key, `a/b/c`. An empty dict is nothing.
pub(super) fn walk<'a>(fields: &'a Dict, visit: &mut impl FnMut(&str, &str, &'a Value)) {
    let mut path = String::new();
    for (key, value) in fields {
        if let Value::Dict(inner) = value {
            path.clear();
            path.push_str(key);
            walk_inner(key, inner, &mut path, visit);
        } else {
            visit(key, key, value);
        }
    }
}

fn walk_inner<'a>(top: &str, fields: &'a Dict, path: &mut String, visit: &mut impl FnMut(&str, &str, &'a Value)) {
    let length = path.len();
    for (key, value) in fields {
        path.push('/');
        path.push_str(key);
        if let Value::Dict(inner) = value {
            walk_inner(top, inner, path, visit);
        } else {
            visit(top, path, value);
        }
        path.truncate(length);
    }
}
