//! Locates a server: at the URL's address, or at the one that the Sentinels give for the master.
//!
//! Sentinels are asked anew for every connection: after a failover the old address leads to a replica or nowhere. The
//! server itself has the last word about whether it is the master, as Sentinels may be behind.

use std::fmt;
use std::sync::Arc;

use futures_util::future::select_ok;
use recado_core::Random;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, Role,
    TlsCertificates,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::RedisOptions;
use super::connection::why;
use super::fault::OpenError;
use super::url::{Address, Kind, Login, Target};

/// A place to connect to, and the settings of its connections.
#[derive(Clone)]
pub(crate) struct Location {
    pub target: Target,
    trusted_roots_pem: Option<Arc<str>>,
    /// Draws the waits between attempts to connect.
    pub random: Arc<Random>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target.kind {
            Kind::Sentinel { service, .. } => write!(f, "the master of {service}"),
            Kind::Single | Kind::Cluster => self.target.addresses[0].fmt(f),
        }
    }
}

/// Without the authorities: they are long.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Location {
    pub fn read(options: &RedisOptions, random: Arc<Random>) -> Result<Self, OpenError> {
        let target = Target::read(&options.url)?;
        if target.tls {
            // The client library takes the process's own provider, and panics where there is none. An earlier
            // choice stays.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        let pem = options.trusted_roots_pem.as_deref();
        // Checked now, and not by every connection. A file without any certificate would trust no server.
        let roots = pem.map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()).collect());
        if roots.is_some_and(|roots: Result<Vec<_>, _>| roots.map_or(true, |roots| roots.is_empty())) {
            return Err(OpenError::TrustedRoots);
        }
        Ok(Location { target, trusted_roots_pem: pem.map(Into::into), random })
    }

    /// A single server, reached with the same settings.
    pub fn to(&self, address: Address) -> Self {
        let target = Target { kind: Kind::Single, addresses: vec![address], ..self.target.clone() };
        Location { target, ..self.clone() }
    }

    /// A client for the next connection, and the address that it leads to. By RESP3 it also receives pushed messages.
    pub async fn client(&self, protocol: ProtocolVersion) -> Result<(Arc<str>, Client), String> {
        let Target { kind, addresses, login, database, .. } = &self.target;
        let address = match kind {
            Kind::Sentinel { service, login } => &self.find_master(service, login).await?,
            Kind::Single | Kind::Cluster => &addresses[0],
        };
        let client = self.client_for(address, login, *database, protocol)?;
        Ok((address.to_string().into(), client))
    }

    fn client_for(
        &self,
        address: &Address,
        login: &Login,
        database: i64,
        protocol: ProtocolVersion,
    ) -> Result<Client, String> {
        let (host, port) = (address.host.clone(), address.port);
        let address = match self.target.tls {
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
        let info: ConnectionInfo = address.into_connection_info().map_err(why)?;
        let info = info.set_redis_settings(redis).set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = match &self.trusted_roots_pem {
            Some(pem) if self.target.tls => {
                let root_cert = Some(pem.as_bytes().to_vec());
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(info),
        };
        client.map_err(why)
    }

    /// Refuses a server that is not the master.
    pub async fn confirm(&self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let Kind::Sentinel { service, .. } = &self.target.kind else { return Ok(()) };
        match redis::cmd("ROLE").query_async(connection).await.map_err(why)? {
            Role::Primary { .. } => Ok(()),
            _ => Err(format!("the Sentinels name a server that is not the master of {service} yet")),
        }
    }

    /// Asks all Sentinels at once. The first answer counts, so one that is silent costs nothing.
    async fn find_master(&self, service: &str, login: &Login) -> Result<Address, String> {
        let asked = self.target.addresses.iter().map(|sentinel| {
            let answer = self.ask_sentinel(service, sentinel, login);
            Box::pin(async move { answer.await.map_err(|error| format!("{sentinel}: {error}")) })
        });
        match select_ok(asked).await {
            Ok((master, _)) => Ok(master),
            Err(last) => Err(format!("no Sentinel names the master of {service} ({last})")),
        }
    }

    async fn ask_sentinel(
        &self,
        service: &str,
        sentinel: &Address,
        login: &Login,
    ) -> Result<Address, String> {
        let client = self.client_for(sentinel, login, 0, ProtocolVersion::RESP2)?;
        let mut connection = client.get_multiplexed_async_connection().await.map_err(why)?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(service);
        let found = command.query_async(&mut connection).await.map_err(why)?;
        let (host, port) = Option::ok_or(found, "it knows no such service")?;
        Ok(Address { host, port })
    }
}
