//! What a node has of its cluster: the head its authority and tokens, every node its membership. On disk only what the head keeps, in a folder
//! that is this user's alone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use identity::{Authority, Folder, Listed, Membership, Role, Tokens};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use wire::session::NodeLife;

use super::chance;

/// The number of the head, which nobody else gets.
pub const HEAD: u32 = 1;

const AUTHORITY: &str = "authority";
const TOKENS: &str = "tokens";
const TOKEN: &str = "token";

/// What time it is, for certificates.
#[derive(Debug)]
pub(crate) struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(now())
    }
}

pub(crate) fn clock() -> Arc<dyn TimeProvider> {
    Arc::new(Clock)
}

pub(crate) fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime::since_unix_epoch(since.unwrap_or(Duration::ZERO))
}

/// A node's place in its cluster.
#[derive(Debug)]
pub struct Belonging {
    membership: Mutex<Arc<Membership>>,
    /// Of the head alone.
    pub(crate) desk: Option<Desk>,
}

/// What the head needs to let others in.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) folder: PathBuf,
    pub(crate) authority: Authority,
}

impl Belonging {
    /// Founds a cluster, or takes up the one whose authority lies in this folder. Its token is in the file `token` there.
    ///
    /// # Errors
    /// If the folder is not this user's alone, or what lies there is damaged.
    pub fn found(folder: &Path) -> Result<Self, identity::Error> {
        let files = Folder::open(folder)?;
        let now = now();
        let authority = match files.read(AUTHORITY)? {
            Some(bytes) => Authority::from_bytes(&bytes)?,
            None => {
                let authority = Authority::new(now)?;
                files.write(AUTHORITY, &authority.to_bytes())?;
                authority
            }
        };
        let cluster = authority.cluster();
        let token = files.update(TOKENS, |old| {
            let mut tokens = old.map_or_else(|| Ok(Tokens::new(cluster)), Tokens::from_bytes)?;
            let token = match tokens.newest(now) {
                Some(token) => token.clone(),
                None => tokens.add(now, None)?,
            };
            Ok((tokens.to_bytes(), token))
        })?;
        files.write(TOKEN, format!("{}\n", &*token.to_text()).as_bytes())?;
        let who = NodeLife { node: HEAD, life: chance()? };
        let membership = authority.member(who, Role::Head, now)?;
        let desk = Desk { folder: folder.to_path_buf(), authority };
        Ok(Self { membership: Mutex::new(Arc::new(membership)), desk: Some(desk) })
    }

    /// Of one whom the head has let in.
    #[must_use]
    pub fn of_member(membership: Membership) -> Self {
        Self { membership: Mutex::new(Arc::new(membership)), desk: None }
    }

    /// Its key and certificates, as they are now.
    pub(crate) fn membership(&self) -> Arc<Membership> {
        self.membership.lock().expect("never poisoned").clone()
    }

    pub(crate) fn renewed(&self, membership: Membership) {
        *self.membership.lock().expect("never poisoned") = Arc::new(membership);
    }

    /// Its number and life.
    #[must_use]
    pub fn life(&self) -> NodeLife {
        self.membership().member().who
    }

    /// The cluster's name, as certificates and tokens have it.
    #[must_use]
    pub fn cluster(&self) -> String {
        self.membership().member().cluster.to_string()
    }

    /// Whether it is the head.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.desk.is_some()
    }
}

impl Desk {
    /// The tokens as they are at this moment: another process may have changed them.
    pub(crate) fn tokens(&self) -> Result<Tokens, identity::Error> {
        match Folder::open(&self.folder)?.read(TOKENS)? {
            Some(bytes) => Tokens::from_bytes(&bytes),
            None => Ok(Tokens::new(self.authority.cluster())),
        }
    }
}

/// The tokens of the head whose folder this is, the oldest first.
///
/// # Errors
/// If it is no such folder, or not this user's alone.
pub fn list_tokens(folder: &Path) -> Result<Vec<Listed>, identity::Error> {
    let bytes = Folder::open(folder)?.read(TOKENS)?.ok_or(identity::Error::Damaged("table of tokens"))?;
    Ok(Tokens::from_bytes(&bytes)?.list().collect())
}

/// Makes a new token and writes it into the file `token`; others are valid for so long yet.
///
/// # Errors
/// As [`list_tokens`].
pub fn rotate_token(folder: &Path, grace: Duration) -> Result<(), identity::Error> {
    let files = Folder::open(folder)?;
    let now = now();
    let until = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + grace);
    let token = files.update(TOKENS, |old| {
        let mut tokens = Tokens::from_bytes(old.ok_or(identity::Error::Damaged("table of tokens"))?)?;
        let token = tokens.rotate(now, until);
        Ok((tokens.to_bytes(), token))
    })?;
    files.write(TOKEN, format!("{}\n", &*token.to_text()).as_bytes())
}
