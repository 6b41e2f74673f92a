//! A session's folders, and how they go.

use std::path::{Path, PathBuf};

/// In the session's folder: the others, one to a line.
const LIST: &str = "folders";

/// Removes what a session keeps in files; `keep_logs`: except for its logs.
pub(crate) fn remove(session_dir: &Path, keep_logs: bool) {
    for folder in listed(session_dir) {
        let _ = std::fs::remove_dir_all(folder);
    }
    let rest = if keep_logs { session_dir.join("spill") } else { session_dir.to_path_buf() };
    let _ = std::fs::remove_dir_all(rest);
}

/// Only what can have been made for this session: the list is a file that anyone of this user could write.
fn listed(session_dir: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_to_string(session_dir.join(LIST)).unwrap_or_default();
    let own = session_dir.file_name().map(|name| format!("eagleray-{}", name.to_string_lossy()));
    let is_own = |folder: &PathBuf| folder.file_name().map(|name| name.to_string_lossy().into_owned()) == own;
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
        remove(&session, false);
        assert!(!session.exists() && !spill.exists() && other.exists());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
