//! Where the Rust parts of a process write down what they do: `core-<pid>.log` in the folder of the session's logs, by `tracing`.
//!
//! A process has one such file, whatever parts it runs. It is opened with the first line, so that a process that has nothing to say has none,
//! and no descriptor for it. When it is full it becomes `core-<pid>.old.log`, in the place of the one before: a process takes two files' room.
//!
//! What is not asked for by the level costs a load and a branch where it would be said. The path of a call says nothing at any level.
//!
//! - **LOG-1** whoever writes a line waits for nobody but the disk: what finds the file in use by a thread that a fork left behind is dropped.

mod file;

use std::path::Path;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// What is written where nobody says.
pub const LEVEL: &str = "warn";

/// Who writes: crates by their names. Words of other crates are not ours to tell.
const PARTS: [&str; 5] = ["hub", "net", "node", "runtime", "store"];

/// The setting is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{given:?} is no level: use off, error, warn, info, debug or trace; or those of parts ({}), as \"warn,node=debug\"",
    PARTS.join(", ")
)]
pub struct BadLevel {
    given: String,
}

static LEVELS: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Writes into this folder from now on, from this level on.
///
/// # Errors
/// If the level is none; then nothing changes.
pub fn begin(folder: &Path, level: &str) -> Result<(), BadLevel> {
    let targets = targets(level)?;
    file::turn_to(Some(folder));
    if let Some(levels) = LEVELS.get() {
        // It fails only where the subscriber is gone, which lives as long as the process.
        let _ = levels.reload(targets);
        return Ok(());
    }
    let (filter, handle) = reload::Layer::new(targets);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_thread_names(true).with_writer(file::writer);
    // Another subscriber of the program that we are part of, as in tests, keeps its place.
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = LEVELS.set(handle);
    }
    Ok(())
}

/// Writes no more: the session's folder may go.
pub fn end() {
    file::turn_to(None);
}

/// Reads what the setting says.
fn targets(level: &str) -> Result<Targets, BadLevel> {
    let bad = || BadLevel { given: level.into() };
    let mut default = LevelFilter::OFF;
    let mut parts = Vec::new();
    for item in level.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match item.split_once('=') {
            None => default = filter(item).ok_or_else(bad)?,
            Some((part, level)) if PARTS.contains(&part.trim()) => {
                parts.push((part.trim(), filter(level.trim()).ok_or_else(bad)?));
            }
            Some(_) => return Err(bad()),
        }
    }
    Ok(Targets::new().with_targets(PARTS.map(|part| (part, default))).with_targets(parts))
}

fn filter(name: &str) -> Option<LevelFilter> {
    Some(match name.to_ascii_lowercase().as_str() {
        "off" => LevelFilter::OFF,
        // As Ray's processes call theirs.
        "error" | "fatal" => LevelFilter::ERROR,
        "warn" | "warning" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::targets;

    #[test]
    fn a_level_counts_for_all_our_parts_and_one_of_a_part_for_that() {
        let levels = targets("warn,node=debug").unwrap();
        assert!(levels.would_enable("runtime::spill", &Level::WARN));
        assert!(!levels.would_enable("runtime::spill", &Level::INFO));
        assert!(levels.would_enable("node::procs", &Level::DEBUG));
        assert!(!levels.would_enable("hyper::proto", &Level::ERROR), "other crates' words are not ours");
        assert!(!targets("off").unwrap().would_enable("node", &Level::ERROR));
    }

    #[test]
    fn what_is_no_level_is_refused_by_name() {
        for given in ["loud", "warn,node=", "node=loud", "hyper=warn"] {
            assert!(targets(given).unwrap_err().to_string().contains(given));
        }
    }
}
