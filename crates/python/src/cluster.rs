//! Clusters: founding one, getting into one, and the tokens by which others do.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use node::abroad::{self, Belonging, ClusterOptions, IdentityError, JoinError, Listed, Python as Version, Token};
use pyo3::exceptions::{PyConnectionError, PyOSError, PyPermissionError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;

use crate::door;

/// A node's place in its cluster, to be given to a `Node`.
#[pyclass(frozen, name = "Belonging", module = "eagleray._native")]
pub(crate) struct PyBelonging {
    inner: Arc<Belonging>,
    head: Option<SocketAddr>,
}

#[pymethods]
impl PyBelonging {
    /// Its number.
    #[getter]
    fn number(&self) -> u32 {
        self.inner.life().node
    }

    /// The cluster's name.
    #[getter]
    fn cluster(&self) -> String {
        self.inner.cluster()
    }

    /// Where the head was reached; None for the head itself.
    #[getter]
    fn head(&self) -> Option<String> {
        self.head.map(|head| head.to_string())
    }

    /// The address by which this machine has reached the head.
    #[getter]
    fn own_ip(&self) -> Option<String> {
        let head = self.head?;
        let any: SocketAddr = if head.is_ipv4() { "0.0.0.0:0".parse().ok()? } else { "[::]:0".parse().ok()? };
        let socket = std::net::UdpSocket::bind(any).ok()?;
        // Nothing is sent: the system only says which way it would go.
        socket.connect(head).ok()?;
        Some(socket.local_addr().ok()?.ip().to_string())
    }
}

/// What is asked of a node of a cluster, as Python gives it.
#[derive(FromPyObject)]
pub(crate) struct ClusterWants<'py> {
    belonging: Bound<'py, PyBelonging>,
    /// An IP address and a port; None: it only dials.
    listen: Option<(String, u16)>,
    advertised: Option<String>,
    name: String,
    labels: Vec<(String, String)>,
    is_guest: bool,
}

fn ip(text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| PyValueError::new_err(format!("{text} is no IP address")))
}

impl ClusterWants<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.belonging.get().inner.life().node
    }

    pub(crate) fn options(&self) -> PyResult<ClusterOptions> {
        let belonging = self.belonging.get();
        let listen = self.listen.as_ref().map(|(host, port)| Ok::<_, PyErr>(SocketAddr::new(ip(host)?, *port)));
        Ok(ClusterOptions {
            belonging: belonging.inner.clone(),
            head: belonging.head,
            listen: listen.transpose()?,
            advertised: self.advertised.as_deref().map(ip).transpose()?,
            name: self.name.as_str().into(),
            labels: self.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            is_guest: self.is_guest,
        })
    }
}

fn refused(error: &IdentityError) -> PyErr {
    match error {
        IdentityError::Token(_) => PyValueError::new_err(error.to_string()),
        IdentityError::File { .. } | IdentityError::Damaged(_) => PyOSError::new_err(error.to_string()),
        IdentityError::Refused(_) | IdentityError::Untrusted(_) => PyPermissionError::new_err(error.to_string()),
        _ => PyConnectionError::new_err(error.to_string()),
    }
}

/// What values are pickled by.
fn version(py: Python<'_>) -> Version {
    let version = py.version_info();
    Version { major: version.major, minor: version.minor }
}

/// Makes a cluster whose head this machine is, or takes the one up whose secrets lie in this folder.
#[pyfunction]
fn found_cluster(py: Python<'_>, folder: PathBuf) -> PyResult<PyBelonging> {
    let version = version(py);
    let founded = door::enter(py, || Belonging::found(&folder, version)).map_err(|error| refused(&error))?;
    Ok(PyBelonging { inner: Arc::new(founded), head: None })
}

/// Gets into the cluster whose head listens there. Waits at most so many seconds.
#[pyfunction]
fn join_cluster(py: Python<'_>, host: String, port: u16, token: &str, seconds: f64) -> PyResult<PyBelonging> {
    let token = Token::parse(token.trim()).map_err(|error| refused(&error.into()))?;
    let (version, patience) = (version(py), Duration::from_secs_f64(seconds));
    let joined = door::enter(py, || abroad::join(&host, port, token, version, patience));
    let joined = joined.map_err(|error| match &error {
        JoinError::Refused(why) => refused(why),
        JoinError::TooLate(_) => PyTimeoutError::new_err(error.to_string()),
        JoinError::Name { .. } | JoinError::Unreachable { .. } | JoinError::NoHead { .. } => {
            PyConnectionError::new_err(error.to_string())
        }
    })?;
    Ok(PyBelonging { inner: Arc::new(joined.belonging), head: Some(joined.head) })
}

/// [(name, made, until)] of the tokens of the head whose secrets lie in this folder, in seconds since 1970; until None: for good.
#[pyfunction]
fn list_tokens(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<(String, u64, Option<u64>)>> {
    let listed = door::enter(py, || abroad::list_tokens(&folder)).map_err(|error| refused(&error))?;
    let seconds =
        |listed: Listed| (listed.id.to_string(), listed.made.as_secs(), listed.until.map(|until| until.as_secs()));
    Ok(listed.into_iter().map(seconds).collect())
}

/// Makes a new token; the others are valid for so many seconds yet.
#[pyfunction]
fn rotate_token(py: Python<'_>, folder: PathBuf, grace_seconds: u64) -> PyResult<()> {
    let grace = Duration::from_secs(grace_seconds);
    door::enter(py, || abroad::rotate_token(&folder, grace)).map_err(|error| refused(&error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyBelonging>()?;
    module.add_function(wrap_pyfunction!(found_cluster, module)?)?;
    module.add_function(wrap_pyfunction!(join_cluster, module)?)?;
    module.add_function(wrap_pyfunction!(list_tokens, module)?)?;
    module.add_function(wrap_pyfunction!(rotate_token, module)?)
}
