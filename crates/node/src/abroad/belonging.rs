//! What a node has of its cluster: the head its authority and tokens, every node its membership. On disk only what the head keeps, in a folder
//! that is this user's alone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use identity::{Accepts, Authority, Folder, Listed, Membership, Python, Role, Token, Tokens};
use rustc_hash::FxHashSet;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use wire::session::NodeLife;

use super::chance;

/// The number of the head, which nobody else gets.
pub const HEAD: u32 = 1;

const AUTHORITY: &str = "authority";
const TOKENS: &str = "tokens";
const TOKEN: &str = "token";

/// What time it is, for certificates. Tests put it forward; nobody else does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    ahead_s: Arc<AtomicI64>,
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now())
    }
}

impl Clock {
    pub(crate) fn now(&self) -> UnixTime {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now_s = since.as_secs().saturating_add_signed(self.ahead_s.load(Ordering::Relaxed));
        UnixTime::since_unix_epoch(Duration::from_secs(now_s))
    }

    pub(crate) fn for_tls(&self) -> Arc<dyn TimeProvider> {
        Arc::new(self.clone())
    }

    #[cfg(test)]
    pub(crate) fn put_forward(&self, by_s: i64) {
        self.ahead_s.fetch_add(by_s, Ordering::Relaxed);
    }
}

/// A node's place in its cluster.
#[derive(Debug)]
pub struct Belonging {
    membership: Mutex<Arc<Membership>>,
    /// Which Python the node runs.
    pub(crate) python: Python,
    pub(crate) clock: Clock,
    /// Lives that belong to the cluster no more. Verifiers ask in every handshake.
    expelled: Arc<Mutex<FxHashSet<NodeLife>>>,
    /// By which it got in, and gets a certificate if its own has expired. Nowhere but here: the node's processes are no forks of this one.
    pub(crate) token: Option<Token>,
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
    pub fn found(folder: &Path, python: Python) -> Result<Self, identity::Error> {
        let files = Folder::open(folder)?;
        let clock = Clock::default();
        let now = clock.now();
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
        Ok(Self { desk: Some(desk), token: None, ..Self::of_member(membership, None, python, clock) })
    }

    /// Of one whom the head has let in.
    pub(crate) fn of_member(membership: Membership, token: Option<Token>, python: Python, clock: Clock) -> Self {
        Self {
            membership: Mutex::new(Arc::new(membership)),
            python,
            clock,
            expelled: Arc::default(),
            token,
            desk: None,
        }
    }

    /// Its key and certificates, as they are now.
    pub(crate) fn membership(&self) -> Arc<Membership> {
        self.membership.lock().expect("never poisoned").clone()
    }

    /// From now on it shows this certificate.
    pub(crate) fn renewed(&self, membership: Membership) {
        *self.membership.lock().expect("never poisoned") = Arc::new(membership);
    }

    /// That life is over: nobody who shows its certificate is a member.
    pub(crate) fn expel(&self, who: NodeLife) {
        self.expelled.lock().expect("never poisoned").insert(who);
    }

    /// For verifiers.
    pub(crate) fn accepts(&self) -> Accepts {
        let expelled = self.expelled.clone();
        Accepts::new(move |member| !expelled.lock().expect("never poisoned").contains(&member.who))
    }

    /// Its number and life.
    #[must_use]
    pub fn life(&self) -> NodeLife {
        self.membership().member().who
    }

    /// The cluster's name, as bytes.
    #[must_use]
    pub fn realm(&self) -> [u8; 16] {
        self.membership().member().cluster.0
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
    let now = Clock::default().now();
    let until = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + grace);
    let token = files.update(TOKENS, |old| {
        let mut tokens = Tokens::from_bytes(old.ok_or(identity::Error::Damaged("table of tokens"))?)?;
        let token = tokens.rotate(now, until);
        Ok((tokens.to_bytes(), token))
    })?;
    files.write(TOKEN, format!("{}\n", &*token.to_text()).as_bytes())
}
