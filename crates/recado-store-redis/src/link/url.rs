//! Address of the store, in one line.

use std::fmt;

/// A place to ask: a name or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
}

/// Shows that there is one, and nothing else.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.password.is_some() { "Login(***)" } else { "Login(none)" })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Single,
    /// The master of this service, as the Sentinels at these addresses know it. They may have a login of
    /// their own.
    Sentinel {
        service: String,
        login: Login,
    },
    Cluster,
}

/// A parsed URL:
///
/// ```text
/// redis://[[user]:password@]host[:6379][/database]
/// redis+sentinel://[[user]:password@]host[:26379],host…/service[/database][?sentinel_password=…&sentinel_user=…]
/// redis+cluster://[[user]:password@]host[:6379],host…
/// ```
///
/// `rediss` instead of `redis` speaks TLS, and `valkey` is the same as `redis`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub tls: bool,
    /// At least one.
    pub addresses: Vec<Address>,
    pub login: Login,
    pub database: i64,
}

/// Faults of a store's URL. None repeats the URL: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error(
        "the store's URL has no scheme; write redis://host:6379, redis+sentinel://… or redis+cluster://…"
    )]
    NotAUrl,
    #[error(
        "the store's URL has an unknown scheme; use redis, rediss (TLS), redis+sentinel, rediss+sentinel, \
         redis+cluster or rediss+cluster"
    )]
    Scheme,
    #[error("the store's URL names no host; write redis://host:6379")]
    NoHost,
    #[error(
        "the store's URL names a port that is none; write a number from 1 to 65535, and `/`, `@` or `:` in a \
         password as %2F, %40 or %3A"
    )]
    Port,
    #[error(
        "the store's URL names several hosts; write redis+cluster://… for a Cluster or \
         redis+sentinel://…/service for Sentinel"
    )]
    SeveralHosts,
    #[error("the store's URL names no service; write redis+sentinel://host:26379,host:26379/mymaster")]
    NoService,
    #[error("the store's URL names a database that is none; write a number, as in redis://host:6379/0")]
    Database,
    #[error("the store's URL names a database, but a Cluster has only one; leave it out")]
    ClusterDatabase,
    #[error(
        "the store's URL has an option that is not known; Sentinel takes sentinel_user and sentinel_password, the others none"
    )]
    Option,
    #[error("the store's URL has a login that cannot be read; write special characters as %XX of UTF-8")]
    Encoding,
}

impl Target {
    pub fn read(url: &str) -> Result<Target, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(UrlError::NotAUrl)?;
        let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = match base {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(UrlError::Scheme),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (read_login(login)?, hosts),
            None => (Login::default(), authority),
        };
        let port = if kind == "sentinel" { 26379 } else { 6379 };
        let addresses =
            hosts.split(',').map(|host| read_address(host, port)).collect::<Result<Vec<_>, _>>()?;
        if kind != "sentinel" && !query.is_empty() {
            return Err(UrlError::Option);
        }
        let (kind, database) = match kind {
            "" if addresses.len() > 1 => return Err(UrlError::SeveralHosts),
            "" => (Kind::Single, path),
            "sentinel" => {
                let (service, database) = path.split_once('/').unwrap_or((path, ""));
                let service = decoded(service)?;
                if service.is_empty() {
                    return Err(UrlError::NoService);
                }
                (Kind::Sentinel { service, login: read_sentinel_login(query)? }, database)
            }
            "cluster" if !path.is_empty() && path != "0" => return Err(UrlError::ClusterDatabase),
            "cluster" => (Kind::Cluster, ""),
            _ => return Err(UrlError::Scheme),
        };
        let database = match database {
            "" => 0,
            number => number.parse::<u16>().map_err(|_| UrlError::Database)?.into(),
        };
        Ok(Target { kind, tls, addresses, login, database })
    }
}

/// For logs and reports: where it is, and not who asks.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = if self.tls { "rediss" } else { "redis" };
        let kind = match &self.kind {
            Kind::Single => "",
            Kind::Sentinel { .. } => "+sentinel",
            Kind::Cluster => "+cluster",
        };
        let login = if self.login == Login::default() { "" } else { "***@" };
        let addresses: Vec<_> = self.addresses.iter().map(Address::to_string).collect();
        write!(f, "{base}{kind}://{login}{}", addresses.join(","))?;
        if let Kind::Sentinel { service, .. } = &self.kind {
            write!(f, "/{service}")?;
        }
        match self.database {
            0 => Ok(()),
            number => write!(f, "/{number}"),
        }
    }
}

fn read_address(text: &str, port: u16) -> Result<Address, UrlError> {
    let (host, after) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(UrlError::NoHost)?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    let port = match after.strip_prefix(':') {
        Some(number) => number.parse().ok().filter(|port| *port != 0).ok_or(UrlError::Port)?,
        None if after.is_empty() => port,
        None => return Err(UrlError::Port),
    };
    Ok(Address { host: host.to_owned(), port })
}

fn read_login(text: &str) -> Result<Login, UrlError> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let present = |text: String| (!text.is_empty()).then_some(text);
    Ok(Login { user: present(decoded(user)?), password: present(decoded(password)?) })
}

fn read_sentinel_login(query: &str) -> Result<Login, UrlError> {
    let mut login = Login::default();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sentinel_user", value)) => login.user = Some(decoded(value)?),
            Some(("sentinel_password", value)) => login.password = Some(decoded(value)?),
            _ => return Err(UrlError::Option),
        }
    }
    Ok(login)
}

fn decoded(text: &str) -> Result<String, UrlError> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(String::from).map_err(|_| UrlError::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(target: &Target) -> Vec<String> {
        target.addresses.iter().map(Address::to_string).collect()
    }

    #[test]
    fn each_kind_of_store_is_read_from_one_line() {
        let single = Target::read("redis://127.0.0.1").unwrap();
        assert_eq!((single.kind.clone(), single.tls, single.database), (Kind::Single, false, 0));
        assert_eq!(addresses(&single), ["127.0.0.1:6379"]);
        assert_eq!(single.login, Login::default());

        let secured = Target::read("rediss://ana:p%40ss%2F@cache.example.com:6380/3").unwrap();
        assert_eq!((secured.tls, secured.database), (true, 3));
        assert_eq!(secured.login, Login { user: Some("ana".into()), password: Some("p@ss/".into()) });
        let password_only = Target::read("redis://:secret@cache.example.com").unwrap();
        assert_eq!(password_only.login, Login { user: None, password: Some("secret".into()) });

        let sentinel =
            Target::read("redis+sentinel://:a@h1,h2:26380/mymaster/2?sentinel_password=b").unwrap();
        let login = Login { user: None, password: Some("b".into()) };
        assert_eq!(sentinel.kind, Kind::Sentinel { service: "mymaster".into(), login });
        assert_eq!(addresses(&sentinel), ["h1:26379", "h2:26380"]);
        assert_eq!(sentinel.database, 2);

        let cluster = Target::read("valkey+cluster://[::1]:7000,h2:7001").unwrap();
        assert_eq!(
            (cluster.kind.clone(), addresses(&cluster)),
            (Kind::Cluster, vec!["[::1]:7000".to_owned(), "h2:7001".to_owned()])
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_advice_and_without_the_password() {
        for (url, expected) in [
            ("hunter2", UrlError::NotAUrl),
            ("http://u:hunter2@host", UrlError::Scheme),
            ("redis+ring://u:hunter2@host", UrlError::Scheme),
            ("redis://u:hunter2@", UrlError::NoHost),
            ("redis://u:hunter2@host:none", UrlError::Port),
            ("redis://u:hunter2/x@host", UrlError::Port),
            ("redis://u:hunter2@host,host", UrlError::SeveralHosts),
            ("redis+sentinel://u:hunter2@host", UrlError::NoService),
            ("redis://u:hunter2@host/jobs", UrlError::Database),
            ("redis+cluster://u:hunter2@host/1", UrlError::ClusterDatabase),
            ("redis://u:hunter2@host?db=1", UrlError::Option),
            ("redis+sentinel://u:hunter2@host/s?password=hunter2", UrlError::Option),
            ("redis://u:hunter%FF@host", UrlError::Encoding),
        ] {
            let error = Target::read(url).expect_err(url);
            assert_eq!(error, expected, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
            assert!(error.to_string().contains("; "), "no advice: {error}");
        }
    }

    #[test]
    fn what_is_shown_of_a_target_has_no_login() {
        for url in [
            "rediss://ana:hunter2@host:1/2",
            "redis+sentinel://:hunter2@a:1,b:2/main?sentinel_password=hunter2",
        ] {
            let target = Target::read(url).unwrap();
            let shown = format!("{target} {target:?}");
            assert!(!shown.contains("hunter") && !shown.contains("ana"), "{shown}");
        }
        let shown = Target::read("redis+sentinel://:x@a:1,b:2/main/4").unwrap().to_string();
        assert_eq!(shown, "redis+sentinel://***@a:1,b:2/main/4");
    }
}
