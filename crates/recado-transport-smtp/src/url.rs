//! A relay in one line, as configurations write it.

use percent_encoding::percent_decode_str;
use recado_transport::Url;

use crate::config::{ConfigError, Credentials, Mechanism, Security, SmtpConfig};

pub(crate) fn read(text: &str) -> Result<SmtpConfig, ConfigError> {
    let url = Url::parse(text).map_err(|_| ConfigError::NotAUrl)?;
    let mut security = match url.scheme() {
        "smtps" => Security::ImplicitTls,
        "smtp" => Security::StartTls,
        _ => return Err(ConfigError::Scheme),
    };
    if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
        return Err(ConfigError::Path);
    }
    let mut mechanism = None;
    for (name, value) in url.query_pairs() {
        match &*name {
            "tls" if security != Security::ImplicitTls => security = tls(&value)?,
            "tls" => return Err(ConfigError::Tls),
            "auth" => mechanism = Some(auth(&value)?),
            _ => return Err(ConfigError::Option),
        }
    }
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(ConfigError::NoHost)?;
    let mut config = SmtpConfig::new(host.trim_matches(['[', ']']), security);
    config.port = url.port().unwrap_or(config.port);
    config.credentials = credentials(&url, mechanism)?;
    config.check()?;
    Ok(config)
}

fn tls(choice: &str) -> Result<Security, ConfigError> {
    match choice {
        "required" => Ok(Security::StartTls),
        "opportunistic" => Ok(Security::Opportunistic),
        "none" => Ok(Security::None),
        _ => Err(ConfigError::Tls),
    }
}

fn auth(choice: &str) -> Result<Mechanism, ConfigError> {
    let is_chosen = |mechanism: &Mechanism| mechanism.word().to_ascii_lowercase() == choice;
    Mechanism::ALL.into_iter().find(is_chosen).ok_or(ConfigError::Auth)
}

fn credentials(url: &Url, mechanism: Option<Mechanism>) -> Result<Option<Credentials>, ConfigError> {
    let decoded = |text: &str| {
        percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| ConfigError::Encoding)
    };
    match (url.username(), url.password()) {
        ("", None) if mechanism.is_some() => Err(ConfigError::Auth),
        ("", None) => Ok(None),
        ("", Some(_)) | (_, None) => Err(ConfigError::HalfCredentials),
        (user, Some(secret)) => {
            Ok(Some(Credentials { user: decoded(user)?, secret: decoded(secret)?, mechanism }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> ConfigError {
        let error = read(url).expect_err("it was taken");
        let words = format!("{error} {error:?}");
        assert!(!words.contains("hunter") && words.contains("; "), "{words}");
        error
    }

    #[test]
    fn a_relay_is_read_from_one_line() {
        let config = read("smtps://ana%40acme.example:p%C3%A4ss%2F%3A@mail.example.com").unwrap();
        assert_eq!(
            (&*config.host, config.port, config.security),
            ("mail.example.com", 465, Security::ImplicitTls)
        );
        let credentials = config.credentials.unwrap();
        assert_eq!((&*credentials.user, &*credentials.secret), ("ana@acme.example", "päss/:"));
        for (url, port, security) in [
            ("smtp://mail.example.com", 587, Security::StartTls),
            ("smtp://mail.example.com:2525?tls=required", 2525, Security::StartTls),
            ("smtp://mail.example.com/?tls=opportunistic", 587, Security::Opportunistic),
            ("smtp://mail.example.com:25?tls=none", 25, Security::None),
        ] {
            let config = read(url).unwrap();
            assert_eq!((config.port, config.security, config.credentials), (port, security, None), "{url}");
        }
        assert_eq!(read("smtp://[::1]:25?tls=none").unwrap().host, "::1");
        for (choice, mechanism) in
            [("plain", Mechanism::Plain), ("login", Mechanism::Login), ("xoauth2", Mechanism::XOAuth2)]
        {
            let config = read(&format!("smtps://u:p@mail.example.com?auth={choice}")).unwrap();
            assert_eq!(config.credentials.unwrap().mechanism, Some(mechanism));
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_advice_and_without_the_password() {
        for (url, error) in [
            ("mail.example.com", ConfigError::NotAUrl),
            ("smtps://ana:hunter2/x@mail.example.com", ConfigError::NotAUrl),
            ("https://ana:hunter2@mail.example.com", ConfigError::Scheme),
            ("smtps://", ConfigError::NoHost),
            ("smtps://ana:hunter2@mail.example.com/inbox", ConfigError::Path),
            ("smtps://ana:hunter2@mail.example.com#x", ConfigError::Path),
            ("smtps://ana@mail.example.com", ConfigError::HalfCredentials),
            ("smtps://:hunter2@mail.example.com", ConfigError::HalfCredentials),
            ("smtps://ana:hunter%FF@mail.example.com", ConfigError::Encoding),
            ("smtps://ana:hunter%0D%0A@mail.example.com", ConfigError::Credentials),
            ("smtps://ana:hunter2@mail.example.com?user=x", ConfigError::Option),
            ("smtp://ana:hunter2@mail.example.com?tls=maybe", ConfigError::Tls),
            ("smtps://ana:hunter2@mail.example.com?tls=none", ConfigError::Tls),
            ("smtps://ana:hunter2@mail.example.com?auth=ntlm", ConfigError::Auth),
            ("smtps://mail.example.com?auth=plain", ConfigError::Auth),
        ] {
            assert_eq!(refused(url), error, "{url}");
        }
    }

    #[test]
    fn a_login_never_goes_out_in_the_clear_but_on_this_machine() {
        for tls in ["none", "opportunistic"] {
            let url = |host: &str| format!("smtp://ana:hunter2@{host}?tls={tls}");
            assert_eq!(refused(&url("mail.example.com")), ConfigError::CredentialsInTheClear);
            assert_eq!(refused(&url("10.0.0.1")), ConfigError::CredentialsInTheClear);
            for host in ["localhost", "127.0.0.1", "[::1]"] {
                assert!(read(&url(host)).is_ok(), "{host}");
            }
        }
    }

    #[test]
    fn debug_shows_no_credentials() {
        let config = read("smtps://ana:hunter2@mail.example.com").unwrap();
        let shown = format!("{config:?}");
        assert!(shown.contains("mail.example.com") && !shown.contains("ana") && !shown.contains("hunter"));
    }
}
