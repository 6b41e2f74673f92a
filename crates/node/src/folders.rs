//! A session's folders, and how they go.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use store::Folder;

/// In the session's folder: the others, one to a line.
const LIST: &str = "folders";

/// Removes what a session keeps in files and in object stores; `keep_logs`: except for its logs.
///
/// The zygote does so, and after it the node, which ends a zygote that takes too long: what is still listed is left to do. `known` are the
/// folders of whoever has used them; others make them from the list.
pub(crate) fn remove(session_dir: &Path, keep_logs: bool, known: &[Folder]) {
    for (at, name) in listed(session_dir).into_iter().enumerate() {
        let folder = known.iter().find(|folder| folder.name() == name).cloned();
        let folder = folder.unwrap_or_else(|| Folder::new(&name, at, session_dir, net::spawn_far));
        match folder.remote() {
            Some(remote) => remote.purge(),
            None => drop(std::fs::remove_dir_all(name)),
        }
    }
    let _ = std::fs::remove_file(session_dir.join(LIST));
    let rest = if keep_logs {
        ["spill", "functions"].map(|name| session_dir.join(name)).to_vec()
    } else {
        vec![session_dir.into()]
    };
    rest.iter().for_each(|path| drop(std::fs::remove_dir_all(path)));
}

/// Removes what a dead session has left, its logs too.
pub fn remove_session(session_dir: &Path) {
    remove(session_dir, false, &[]);
}

/// Says that the session lives, to whoever tidies up: for as long as the file is open, in any container of this machine.
pub(crate) fn hold(session_dir: &Path) -> Option<OwnedFd> {
    let held =
        rustix::fs::open(session_dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(held)
}

/// Only what can have been made for this session: the list is a file that anyone of this user could write.
fn listed(session_dir: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_to_string(session_dir.join(LIST)).unwrap_or_default();
    let Some(session) = session_dir.file_name() else { return Vec::new() };
    let own = format!("eagleray-{}", session.to_string_lossy());
    let is_own = |folder: &PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        // A bucket may be used by several machines, so that what a session has there bears a few more letters.
        let is_url = folder.to_string_lossy().contains("://");
        name == own || is_url && name.strip_prefix(&*own).is_some_and(|rest| rest.starts_with('-'))
    };
    list.lines().map(PathBuf::from).filter(is_own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_goes_with_the_session_if_it_bears_its_name() {
        let base = std::env::temp_dir().join(format!("eagleray-folders-{}", std::process::id()));
        let (session, spill) = (base.join("session_1"), base.join("disk/eagleray-session_1"));
        let other = base.join("precious");
        for folder in [&session, &spill, &other] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(session.join(LIST), format!("{}\n{}\n", spill.display(), other.display())).unwrap();
        remove(&session, false, &[]);
        assert!(!session.exists() && !spill.exists() && other.exists());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
