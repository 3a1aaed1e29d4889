//! Finds a node's server: at the URL's address, or at the one that the Sentinels give for the master.
//!
//! Asked anew for every connection: after a failover the old address leads to a replica or nowhere. The
//! server itself has the last word about whether it is the master, as Sentinels may be behind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates, Value,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::timeout;

use super::fault::OpenError;
use super::node::why;
use super::url::{Address, Kind, Login, Target};

/// Address of one server, and the way to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    whose: Whose,
    dial: Arc<Dial>,
}

#[derive(Debug, Clone)]
enum Whose {
    At(Address),
    Master { service: Arc<str>, sentinels: Arc<[Address]>, login: Login },
}

/// Settings of a connection, wherever it leads.
#[derive(Clone)]
pub(crate) struct Dial {
    tls: bool,
    trusted_roots_pem: Option<String>,
    login: Login,
    database: i64,
}

/// Without the authorities: they are long.
impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial")
            .field("tls", &self.tls)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Dial {
    pub fn new(target: &Target, trusted_roots_pem: Option<&str>) -> Result<Arc<Self>, OpenError> {
        let dial = Dial {
            tls: target.tls,
            trusted_roots_pem: trusted_roots_pem.map(str::to_owned),
            login: target.login.clone(),
            database: target.database,
        };
        if target.tls {
            // The client library takes the process's own provider, and panics where there is none. An earlier
            // choice stays.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        // Checked now, and not by every connection. A file without any certificate would trust no server.
        let roots = trusted_roots_pem.map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()).collect());
        match roots {
            Some(Ok::<Vec<_>, _>(roots)) if !roots.is_empty() => Ok(Arc::new(dial)),
            None => Ok(Arc::new(dial)),
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
        let mut settings = RedisConnectionInfo::default()
            .set_db(database)
            .set_protocol(protocol)
            .set_lib_name("recado", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(password);
        }
        let info: ConnectionInfo = address.into_connection_info().map_err(|error| why(&error))?;
        let info =
            info.set_redis_settings(settings).set_tcp_settings(TcpSettings::default().set_nodelay(true));
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.whose {
            Whose::At(address) => address.fmt(f),
            Whose::Master { service, .. } => write!(f, "the master of {service}"),
        }
    }
}

impl Place {
    /// A single server, or the master that Sentinels know.
    pub fn of(target: &Target, dial: Arc<Dial>) -> Self {
        let whose = match &target.kind {
            Kind::Sentinel { service, login } => Whose::Master {
                service: service.as_str().into(),
                sentinels: target.addresses.clone().into(),
                login: login.clone(),
            },
            Kind::Single | Kind::Cluster => Whose::At(target.addresses[0].clone()),
        };
        Place { whose, dial }
    }

    pub fn to(address: Address, dial: Arc<Dial>) -> Self {
        Place { whose: Whose::At(address), dial }
    }

    /// For the next connection, and where it leads.
    pub async fn client(&self, limit: Duration) -> Result<(Arc<str>, Client), String> {
        self.client_speaking(ProtocolVersion::RESP2, limit).await
    }

    /// A client that also receives pushed messages.
    pub async fn listening_client(&self, limit: Duration) -> Result<Client, String> {
        Ok(self.client_speaking(ProtocolVersion::RESP3, limit).await?.1)
    }

    async fn client_speaking(
        &self,
        protocol: ProtocolVersion,
        limit: Duration,
    ) -> Result<(Arc<str>, Client), String> {
        let address = match &self.whose {
            Whose::At(address) => address.clone(),
            Whose::Master { service, sentinels, login } => {
                find_master(&self.dial, service, sentinels, login, limit).await?
            }
        };
        let client = self.dial.client(&address, &self.dial.login, self.dial.database, protocol)?;
        Ok((address.to_string().into(), client))
    }

    /// Refuses a server that is not what was looked for.
    pub async fn confirm(&self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let Whose::Master { service, .. } = &self.whose else { return Ok(()) };
        let role = redis::cmd("ROLE").query_async::<Value>(connection).await.map_err(|error| why(&error))?;
        match role {
            Value::Array(parts) if matches!(parts.first(), Some(Value::BulkString(role)) if role == b"master") => {
                Ok(())
            }
            _ => Err(format!("the Sentinels name a server that is not the master of {service} yet")),
        }
    }
}

/// The first answer counts; a Sentinel that does not answer costs its share of the time and no more.
async fn find_master(
    dial: &Dial,
    service: &str,
    sentinels: &[Address],
    login: &Login,
    limit: Duration,
) -> Result<Address, String> {
    let share = limit / u32::try_from(sentinels.len() + 1).unwrap_or(u32::MAX);
    let mut last = String::new();
    for sentinel in sentinels {
        match timeout(share, ask(dial, service, sentinel, login)).await {
            Ok(Ok(master)) => return Ok(master),
            Ok(Err(error)) => last = format!("{sentinel}: {error}"),
            Err(_) => last = format!("{sentinel}: no answer"),
        }
    }
    Err(format!("no Sentinel names the master of {service} ({last})"))
}

async fn ask(dial: &Dial, service: &str, sentinel: &Address, login: &Login) -> Result<Address, String> {
    let client = dial.client(sentinel, login, 0, ProtocolVersion::RESP2)?;
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
