//! An object store behind a URL: where values go instead of a local folder.
//!
//! The client is asynchronous, our callers are not. So one native thread runs it, started by the first call; callers hand a job over and wait
//! for its end, which comes within a limit that grows with the bytes. A session without a URL has neither thread nor client. Deletions are
//! handed over and waited for by nobody: whoever drops a value may hold a lock.
//!
//! Credentials and endpoint come from the `AWS_*` variables, as they were when the process joined: what a task sets later is the task's.
//! They are never shown; what a server says is cleaned of them before it is.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use memmap2::{Mmap, MmapMut};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
    WriteMultipart,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::padding_after;

/// A file up to this size goes up in one request; a longer one in parts.
const PUT_BYTES_MAX: u64 = 96 << 20;
const PART_BYTES: u64 = 16 << 20;
/// Far below the ten thousand that a server takes.
const PARTS_MAX: u64 = 5_000;
const PARTS_AT_ONCE: usize = 3;
/// A long value comes down in pieces, some at a time.
const PIECE_BYTES: usize = 8 << 20;
const PIECES_AT_ONCE: usize = 4;

/// How often a request is tried again, with pauses from 50 ms to 2 s between: about five seconds if nobody listens.
const RETRIES_MAX: usize = 7;
/// When a session starts, nobody wants to wait for what was mistyped.
const RETRIES_AT_START_MAX: usize = 2;
const RETRYING_MAX: Duration = Duration::from_secs(20);
const CONNECTING_MAX: Duration = Duration::from_secs(5);
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// A job has this long, and a second for each MiB.
const JOB_MAX: Duration = Duration::from_secs(30);
const CHECK_MAX: Duration = Duration::from_secs(15);
/// At a session's end: as long as each of these brings something, and no longer than that in all.
const PURGE_SLICE: Duration = Duration::from_secs(4);
const PURGE_MAX: Duration = Duration::from_secs(60);
/// How often who waits is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);
/// Before what could not be deleted is tried again.
const DELETE_PAUSE: Duration = Duration::from_secs(2);

const WHY_CHARS_MAX: usize = 600;

/// Starts a native thread. Whose signals it blocks is for the caller to say.
pub type Spawn = fn(Box<dyn FnOnce() + Send>) -> std::io::Result<()>;

type Store = Arc<dyn ObjectStore>;
type Connect = Box<dyn Fn() -> object_store::Result<Store> + Send + Sync>;

/// Made by the thread that uses it, since that reads the machine's certificates: nobody else waits for a disk.
struct Client {
    connect: Connect,
    store: Mutex<Option<Store>>,
}

impl Client {
    fn store(&self) -> object_store::Result<Store> {
        let mut store = lock(&self.store);
        if store.is_none() {
            *store = Some((self.connect)()?);
        }
        store.clone().ok_or_else(|| other("no client"))
    }
}

/// One session's part of a bucket.
pub struct Remote {
    url: String,
    prefix: Key,
    client: Arc<Client>,
    /// What must not be shown.
    secrets: Vec<String>,
    spawn: Spawn,
    running: Mutex<State>,
}

enum State {
    /// Nobody has asked for anything yet.
    Idle,
    Running(Arc<Running>),
    Closed,
}

struct Running {
    handle: Handle,
    doomed: Arc<Doomed>,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// Objects to delete, each with the local file that remembers it.
#[derive(Default)]
struct Doomed {
    list: Mutex<HashMap<Key, PathBuf>>,
    news: Notify,
}

impl Remote {
    /// Nothing is asked of the network yet.
    #[must_use]
    pub fn new(url: &str, spawn: Spawn) -> Self {
        Self::with_retries(url, spawn, RETRIES_MAX)
    }

    fn with_retries(url: &str, spawn: Spawn, retries_max: usize) -> Self {
        let settings: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("AWS_"))
            .collect();
        let is_secret = |name: &str| ["KEY", "TOKEN", "AUTH"].iter().any(|word| name.contains(word));
        let secrets = settings.iter().filter(|(name, value)| is_secret(name) && value.len() > 3);
        let secrets = secrets.map(|(_, value)| value.clone()).collect();
        let bucket_url = url.to_string();
        let connect = Box::new(move || connect(&bucket_url, &settings, retries_max));
        Self { secrets, ..Self::with_store(url, spawn, connect) }
    }

    /// With another client than the one that the URL asks for.
    pub(crate) fn with_store(url: &str, spawn: Spawn, connect: Connect) -> Self {
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        Self {
            url: url.into(),
            prefix: Key::from(path),
            client: Arc::new(Client { connect, store: Mutex::new(None) }),
            secrets: Vec::new(),
            spawn,
            running: Mutex::new(State::Idle),
        }
    }

    /// Writes, reads and deletes one small object, to know before a session starts that it can.
    ///
    /// # Errors
    /// What stood in the way, for people.
    pub fn check(url: &str, spawn: Spawn) -> Result<(), String> {
        let remote = Self::with_retries(url, spawn, RETRIES_AT_START_MAX);
        let key = remote.prefix.clone().join("check");
        remote.run(CHECK_MAX, move |store| async move {
            store.put(&key, PutPayload::from_static(b"eagleray")).await?;
            let read = store.get(&key).await?.bytes().await;
            // Also after a read that failed: nothing is left behind.
            store.delete(&key).await?;
            if &read?[..] == b"eagleray" { Ok(()) } else { Err(other("it gives back other bytes than it was given")) }
        })
    }

    /// Puts values into one object, each at the next page. When this returns, whoever asks for it finds it.
    pub(crate) fn put(&self, name: &str, values: &[&[u8]]) -> Result<(), String> {
        let bytes: u64 = values.iter().map(|value| value.len() as u64 + padding_after(value.len() as u64)).sum();
        let key = self.prefix.clone().join(name);
        if bytes <= PUT_BYTES_MAX {
            let mut payload = Vec::with_capacity(bytes as usize);
            values.iter().flat_map(|value| padded(value)).for_each(|piece| payload.extend_from_slice(piece));
            let payload = PutPayload::from(payload);
            return self.run(time_for(bytes), move |store| async move { store.put(&key, payload).await.map(drop) });
        }
        self.put_in_parts(key, bytes, values)
    }

    /// Few parts are in memory at a time, besides the values themselves.
    fn put_in_parts(&self, key: Key, bytes: u64, values: &[&[u8]]) -> Result<(), String> {
        let part_bytes = PART_BYTES.max(bytes / PARTS_MAX) as usize;
        let (send, mut parts) = mpsc::channel::<Vec<u8>>(1);
        let job = self.begin(time_for(bytes), move |store| async move {
            let mut upload = WriteMultipart::new_with_chunk_size(store.put_multipart(&key).await?, part_bytes);
            while let Some(part) = parts.recv().await {
                if let Err(error) = upload.wait_for_capacity(PARTS_AT_ONCE).await {
                    let _ = upload.abort().await;
                    return Err(error);
                }
                upload.put(part.into());
            }
            upload.finish().await.map(drop)
        })?;
        let pieces = values.iter().flat_map(|value| padded(value)).flat_map(|piece| piece.chunks(part_bytes));
        for piece in pieces {
            if send.blocking_send(piece.to_vec()).is_err() {
                // The job has ended early, and says why.
                break;
            }
        }
        drop(send);
        self.end(&job)
    }

    /// Part of an object, in memory of its own. `None`: it did not go on.
    pub(crate) fn get(
        &self,
        name: &str,
        offset: u64,
        length: u64,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<Result<Mmap, String>> {
        match self.begin_get(name, offset, length) {
            Ok(job) => self.end_while(&job, goes_on),
            Err(why) => Some(Err(why)),
        }
    }

    fn begin_get(&self, name: &str, offset: u64, length: u64) -> Result<Job<Mmap>, String> {
        let key = self.prefix.clone().join(name);
        let mut map = MmapMut::map_anon(length as usize).map_err(|error| error.to_string())?;
        self.begin(time_for(length), move |store| async move {
            let mut pieces = Vec::new();
            for (at, piece) in map.chunks_mut(PIECE_BYTES).enumerate() {
                pieces.push(get_piece(&store, &key, offset + (at * PIECE_BYTES) as u64, piece));
            }
            stream::iter(pieces).buffer_unordered(PIECES_AT_ONCE).try_collect::<()>().await?;
            map.make_read_only().map_err(other)
        })
    }

    /// Deletes an object when there is time, and then the file that remembers it. Never waits.
    pub(crate) fn doom(&self, name: &str, remembered_by: PathBuf) {
        // Otherwise the file stays, which says what is to be deleted, until the process is gone or the session ends.
        let Ok(running) = self.running() else { return };
        let key = self.prefix.clone().join(name);
        lock(&running.doomed.list).insert(key, remembered_by);
        running.doomed.news.notify_one();
    }

    /// Deletes all that the session has there.
    pub fn purge(&self) {
        let start = Instant::now();
        loop {
            let deleted = Arc::new(AtomicU64::new(0));
            let (count, prefix) = (deleted.clone(), self.prefix.clone());
            let done = self.run(PURGE_SLICE, move |store| async move {
                let found = store.list(Some(&prefix)).map_ok(|object| object.location).boxed();
                let mut gone = store.delete_stream(found);
                while let Some(key) = gone.next().await {
                    ignore_missing(key.map(drop))?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            if done.is_ok() || deleted.load(Ordering::Relaxed) == 0 || start.elapsed() > PURGE_MAX {
                return;
            }
        }
    }

    /// Ends the client: who waits for it is told at once.
    pub(crate) fn close(&self) {
        *lock(&self.running) = State::Closed;
    }

    /// Runs a job to its end. What it says is for people, and names the URL.
    fn run<T, F>(&self, limit: Duration, job: impl FnOnce(Store) -> F + Send + 'static) -> Result<T, String>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let job = self.begin(limit, job)?;
        self.end(&job)
    }

    fn begin<T, F>(&self, limit: Duration, job: impl FnOnce(Store) -> F + Send + 'static) -> Result<Job<T>, String>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let running = self.running()?;
        let (tell, told) = sync_channel(1);
        let client = self.client.clone();
        running.handle.spawn(async move {
            let done = tokio::time::timeout(limit, async move { job(client.store()?).await }).await;
            let _ = tell.send(done.map_err(|_| format!("no answer within {} s", limit.as_secs())));
        });
        Ok(Job { told })
    }

    fn end<T>(&self, job: &Job<T>) -> Result<T, String> {
        loop {
            if let Some(done) = self.end_while(job, &mut || true) {
                return done;
            }
        }
    }

    fn end_while<T>(&self, job: &Job<T>, goes_on: &mut dyn FnMut() -> bool) -> Option<Result<T, String>> {
        loop {
            return Some(match job.told.recv_timeout(TICK) {
                Ok(Ok(Ok(done))) => Ok(done),
                Ok(Ok(Err(error))) => Err(self.for_people(&with_causes(&error))),
                Ok(Err(late)) => Err(self.for_people(&late)),
                Err(RecvTimeoutError::Timeout) if goes_on() => continue,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => Err(self.for_people("the client has ended")),
            });
        }
    }

    fn running(&self) -> Result<Arc<Running>, String> {
        let mut running = lock(&self.running);
        match &*running {
            State::Running(running) => Ok(running.clone()),
            State::Closed => Err(self.for_people("the session has ended")),
            State::Idle => {
                let made = Arc::new(self.start().map_err(|why| self.for_people(&why))?);
                *running = State::Running(made.clone());
                Ok(made)
            }
        }
    }

    fn start(&self) -> Result<Running, String> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(2).build().map_err(|error| error.to_string())?;
        let (handle, doomed) = (runtime.handle().clone(), Arc::<Doomed>::default());
        let (stop, stopped) = oneshot::channel();
        handle.spawn(delete_doomed(self.client.clone(), doomed.clone()));
        let run = move || {
            let _ = runtime.block_on(stopped);
            // A look-up of a name may hang in the system's library; it is not waited for.
            runtime.shutdown_background();
        };
        (self.spawn)(Box::new(run)).map_err(|error| error.to_string())?;
        Ok(Running { handle, doomed, _stop: stop })
    }

    /// One line, not too long, without credentials.
    fn for_people(&self, why: &str) -> String {
        let mut why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        for secret in &self.secrets {
            why = why.replace(secret.as_str(), "***");
        }
        if let Some((end, _)) = why.char_indices().nth(WHY_CHARS_MAX) {
            why.truncate(end);
        }
        format!("{}: {why}", self.url)
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The receiver hears nothing if the client ends first.
struct Job<T> {
    told: std::sync::mpsc::Receiver<Result<object_store::Result<T>, String>>,
}

fn connect(url: &str, settings: &[(String, String)], retries_max: usize) -> object_store::Result<Store> {
    // Once for the process; a second time changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = AmazonS3Builder::new().with_url(url);
    let mut options = ClientOptions::new().with_timeout(REQUEST_MAX).with_connect_timeout(CONNECTING_MAX);
    for (name, value) in settings {
        let name = name.to_ascii_lowercase();
        // An endpoint without TLS was asked for by name, which says that it may be used.
        if name.starts_with("aws_endpoint_url") && value.starts_with("http://") {
            options = options.with_allow_http(true);
        }
        if name == "aws_allow_http" && matches!(value.to_ascii_lowercase().as_str(), "1" | "true") {
            options = options.with_allow_http(true);
        } else if let Ok(key) = name.parse() {
            builder = builder.with_config(key, value);
        }
    }
    // With keys at hand nobody but the endpoint is asked. Where that is without TLS, a machine without certificates will do.
    let mut endpoints = settings.iter().filter(|(name, _)| name.starts_with("AWS_ENDPOINT_URL")).peekable();
    let has_keys = settings.iter().any(|(name, _)| name == "AWS_ACCESS_KEY_ID");
    if has_keys && endpoints.peek().is_some() && endpoints.all(|(_, value)| value.starts_with("http://")) {
        options = options.with_no_system_certificates(true);
    }
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(50), max_backoff: Duration::from_secs(2), base: 2.0 };
    let retry = RetryConfig { backoff, max_retries: retries_max, retry_timeout: RETRYING_MAX };
    Ok(Arc::new(builder.with_client_options(options).with_retry(retry).build()?))
}

async fn get_piece(store: &Store, key: &Key, offset: u64, piece: &mut [u8]) -> object_store::Result<()> {
    let range = GetRange::Bounded(offset..offset + piece.len() as u64);
    let mut chunks = store.get_opts(key, GetOptions::new().with_range(Some(range))).await?.into_stream();
    let mut at = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        let room = piece.get_mut(at..at + chunk.len()).ok_or_else(|| other("more bytes than were asked for"))?;
        room.copy_from_slice(&chunk);
        at += chunk.len();
    }
    if at == piece.len() { Ok(()) } else { Err(other("fewer bytes than were asked for")) }
}

/// Runs as long as the client does.
async fn delete_doomed(client: Arc<Client>, doomed: Arc<Doomed>) {
    loop {
        doomed.news.notified().await;
        let mut batch = std::mem::take(&mut *lock(&doomed.list));
        if let Ok(store) = client.store() {
            delete(&store, &mut batch).await;
        }
        if !batch.is_empty() {
            lock(&doomed.list).extend(batch);
            tokio::time::sleep(DELETE_PAUSE).await;
            doomed.news.notify_one();
        }
    }
}

/// What is left in the batch is still there.
async fn delete(store: &Store, batch: &mut HashMap<Key, PathBuf>) {
    let keys: Vec<_> = batch.keys().cloned().map(Ok).collect();
    let mut deleted = store.delete_stream(stream::iter(keys).boxed());
    while let Some(result) = deleted.next().await {
        let key = match result {
            Ok(key) => key,
            Err(object_store::Error::NotFound { path, .. }) => Key::from(path),
            Err(_) => continue,
        };
        if let Some(remembered_by) = batch.remove(&key) {
            let _ = std::fs::remove_file(remembered_by);
        }
    }
}

fn ignore_missing(result: object_store::Result<()>) -> object_store::Result<()> {
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        result => result,
    }
}

/// A value and what fills its last page.
fn padded(value: &[u8]) -> [&[u8]; 2] {
    static ZEROS: [u8; 4096] = [0; 4096];
    [value, &ZEROS[..padding_after(value.len() as u64) as usize]]
}

/// An error says what it was caused by, but not what that was caused by.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

fn time_for(bytes: u64) -> Duration {
    JOB_MAX + Duration::from_secs(bytes >> 20)
}

fn other(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "eagleray", source: why.into() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
