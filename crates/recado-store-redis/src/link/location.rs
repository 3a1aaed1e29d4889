//! Locates a server: at the URL's address, or at the one that the Sentinels give for the master.
//!
//! Sentinels are asked anew for every connection: after a failover the old address leads to a replica or nowhere. The
//! server itself has the last word about whether it is the master, as Sentinels may be behind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_ok;
use recado_core::Random;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates, Value,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::connection::why;
use super::fault::OpenError;
use super::url::{Address, Kind, Login, Target};

/// One server, and the settings of connections to it.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    target: LocationTarget,
    settings: Arc<ConnectSettings>,
}

#[derive(Debug, Clone)]
enum LocationTarget {
    At(Address),
    Master { service: Arc<str>, sentinels: Arc<[Address]>, login: Login },
}

/// Settings of a connection, wherever it leads.
#[derive(Clone)]
pub(crate) struct ConnectSettings {
    tls: bool,
    trusted_roots_pem: Option<String>,
    login: Login,
    database: i64,
    /// Draws the waits between attempts to connect.
    pub random: Arc<Random>,
}

/// Without the authorities: they are long.
impl fmt::Debug for ConnectSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectSettings")
            .field("tls", &self.tls)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl ConnectSettings {
    pub fn new(
        target: &Target,
        trusted_roots_pem: Option<&str>,
        random: Arc<Random>,
    ) -> Result<Arc<Self>, OpenError> {
        let settings = ConnectSettings {
            tls: target.tls,
            trusted_roots_pem: trusted_roots_pem.map(str::to_owned),
            login: target.login.clone(),
            database: target.database,
            random,
        };
        if target.tls {
            // The client library takes the process's own provider, and panics where there is none. An earlier
            // choice stays.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        // Checked now, and not by every connection. A file without any certificate would trust no server.
        let roots = trusted_roots_pem.map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()).collect());
        match roots {
            Some(Ok::<Vec<_>, _>(roots)) if !roots.is_empty() => Ok(Arc::new(settings)),
            None => Ok(Arc::new(settings)),
            Some(_) => Err(OpenError::TrustedRoots),
        }
    }

    fn client(
        &self,
        address: &Address,
        login: &Login,
        database: i64,
        protocol: ProtocolVersion,
    ) -> Result<Client, String> {
        let (host, port) = (address.host.clone(), address.port);
        let address = match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        let mut redis = RedisConnectionInfo::default()
            .set_db(database)
            .set_protocol(protocol)
            .set_lib_name("recado", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &login.user {
            redis = redis.set_username(user);
        }
        if let Some(password) = &login.password {
            redis = redis.set_password(password);
        }
        let info: ConnectionInfo = address.into_connection_info().map_err(|error| why(&error))?;
        let info = info.set_redis_settings(redis).set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = match &self.trusted_roots_pem {
            Some(pem) if self.tls => {
                let root_cert = Some(pem.clone().into_bytes());
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(info),
        };
        client.map_err(|error| why(&error))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            LocationTarget::At(address) => address.fmt(f),
            LocationTarget::Master { service, .. } => write!(f, "the master of {service}"),
        }
    }
}

impl Location {
    /// A single server, or the master that Sentinels know.
    pub fn of(target: &Target, settings: Arc<ConnectSettings>) -> Self {
        let target = match &target.kind {
            Kind::Sentinel { service, login } => LocationTarget::Master {
                service: service.as_str().into(),
                sentinels: target.addresses.clone().into(),
                login: login.clone(),
            },
            Kind::Single | Kind::Cluster => LocationTarget::At(target.addresses[0].clone()),
        };
        Location { target, settings }
    }

    pub fn to(address: Address, settings: Arc<ConnectSettings>) -> Self {
        Location { target: LocationTarget::At(address), settings }
    }

    /// Returns the wait before the next attempt to connect: between half of `whole` and all of it.
    pub fn jitter(&self, whole: Duration) -> Duration {
        self.settings.random.jitter(whole)
    }

    /// A client for the next connection, and the address that it leads to.
    pub async fn client(&self) -> Result<(Arc<str>, Client), String> {
        self.client_speaking(ProtocolVersion::RESP2).await
    }

    /// A client that also receives pushed messages.
    pub async fn listening_client(&self) -> Result<Client, String> {
        Ok(self.client_speaking(ProtocolVersion::RESP3).await?.1)
    }

    async fn client_speaking(&self, protocol: ProtocolVersion) -> Result<(Arc<str>, Client), String> {
        let address = match &self.target {
            LocationTarget::At(address) => address.clone(),
            LocationTarget::Master { service, sentinels, login } => {
                find_master(&self.settings, service, sentinels, login).await?
            }
        };
        let client =
            self.settings.client(&address, &self.settings.login, self.settings.database, protocol)?;
        Ok((address.to_string().into(), client))
    }

    /// Refuses a server that is not the master.
    pub async fn confirm(&self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let LocationTarget::Master { service, .. } = &self.target else { return Ok(()) };
        let role = redis::cmd("ROLE").query_async::<Value>(connection).await.map_err(|error| why(&error))?;
        match role {
            Value::Array(parts) if matches!(parts.first(), Some(Value::BulkString(role)) if role == b"master") => {
                Ok(())
            }
            _ => Err(format!("the Sentinels name a server that is not the master of {service} yet")),
        }
    }
}

/// Asks all Sentinels at once. The first answer counts, so one that is silent costs nothing.
async fn find_master(
    settings: &ConnectSettings,
    service: &str,
    sentinels: &[Address],
    login: &Login,
) -> Result<Address, String> {
    let asked = sentinels.iter().map(|sentinel| {
        let answer = ask_sentinel(settings, service, sentinel, login);
        Box::pin(async move { answer.await.map_err(|error| format!("{sentinel}: {error}")) })
    });
    match select_ok(asked).await {
        Ok((master, _)) => Ok(master),
        Err(last) => Err(format!("no Sentinel names the master of {service} ({last})")),
    }
}

async fn ask_sentinel(
    settings: &ConnectSettings,
    service: &str,
    sentinel: &Address,
    login: &Login,
) -> Result<Address, String> {
    let client = settings.client(sentinel, login, 0, ProtocolVersion::RESP2)?;
    let mut connection = client.get_multiplexed_async_connection().await.map_err(|error| why(&error))?;
    let found: Option<(String, u16)> = redis::cmd("SENTINEL")
        .arg("get-master-addr-by-name")
        .arg(service)
        .query_async(&mut connection)
        .await
        .map_err(|error| why(&error))?;
    let (host, port) = found.ok_or("it knows no such service")?;
    Ok(Address { host, port })
}
