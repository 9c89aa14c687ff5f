//! Passwords: SCRAM-SHA-256 (RFC 5802, RFC 7677), and the verifiers it needs.
//!
//! What it promises: the server never holds a password, only a verifier in PostgreSQL's form; a
//! name that does not exist goes through the same exchange as one that does, with the same salt on
//! each try, and fails at the same step with the same words.

use crate::report::Report;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use pgwire::api::auth::sasl::scram::{
    SCRAM_ITERATIONS, ScramSecret, ScramServerAuth, ScramServerAuthWaitingForClientFinal,
    gen_salted_password,
};
use pgwire::error::PgWireError;
use sha2::Sha256;

/// The one mechanism offered.
pub const MECHANISM: &str = "SCRAM-SHA-256";
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// Makes the verifier that is stored for a password.
#[must_use]
pub fn scram_verifier(password: &str) -> String {
    let salt: [u8; SALT_BYTES] = rand::random();
    let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
    let ScramSecret::Verifier { stored_key, server_key, .. } =
        ScramSecret::verifier_from_salted_password(salt.to_vec(), salted, SCRAM_ITERATIONS)
    else {
        unreachable!("the constructor gives a verifier");
    };
    format!(
        "{MECHANISM}${SCRAM_ITERATIONS}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored_key),
        STANDARD.encode(server_key)
    )
}

/// Reads a stored verifier; `None` if it is not one.
fn parse_verifier(text: &str) -> Option<ScramSecret> {
    let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
    let (head, keys) = rest.split_once('$')?;
    let (iterations, salt) = head.split_once(':')?;
    let (stored_key, server_key) = keys.split_once(':')?;
    let secret = ScramSecret::Verifier {
        salt: STANDARD.decode(salt).ok()?,
        iterations: iterations.parse().ok()?,
        stored_key: STANDARD.decode(stored_key).ok()?,
        server_key: STANDARD.decode(server_key).ok()?,
    };
    match &secret {
        ScramSecret::Verifier { stored_key, server_key, .. }
            if stored_key.len() == KEY_BYTES && server_key.len() == KEY_BYTES =>
        {
            Some(secret)
        }
        _ => None,
    }
}

/// A verifier that no password fits, for a user that does not exist or has none.
fn no_password(user: &str, server_secret: &[u8; 32]) -> ScramSecret {
    let derive = |what: &[u8]| {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(server_secret).expect("any key length will do");
        mac.update(what);
        mac.update(user.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    ScramSecret::Verifier {
        salt: derive(b"salt of ")[..SALT_BYTES].to_vec(),
        iterations: SCRAM_ITERATIONS,
        // Nobody can name a hash pre-image of these bytes.
        stored_key: derive(b"stored key of "),
        server_key: derive(b"server key of "),
    }
}

/// Whether a password that the client has sent as it is belongs to `user`, whose stored verifier is
/// given if there is one. It takes as long for a user that does not exist.
#[cfg(feature = "sql")]
pub fn password_fits(
    user: &str,
    verifier: Option<&str>,
    server_secret: &[u8; 32],
    password: &str,
) -> bool {
    let secret =
        verifier.and_then(parse_verifier).unwrap_or_else(|| no_password(user, server_secret));
    let ScramSecret::Verifier { salt, iterations, stored_key, .. } = secret else { return false };
    let salted = gen_salted_password(password, &salt, iterations);
    let made = ScramSecret::verifier_from_salted_password(salt, salted, iterations);
    let ScramSecret::Verifier { stored_key: shown, .. } = made else { return false };
    // All bytes are looked at, whichever differs.
    let differing = shown.iter().zip(&stored_key).fold(0, |all, (a, b)| all | (a ^ b));
    shown.len() == stored_key.len() && differing == 0
}

/// What a client is told whose password is wrong, or whose user does not exist: the same.
pub fn wrong_password(user: &str) -> Report {
    Report::fatal("28P01", format!("password authentication failed for user \"{user}\""))
}

/// What a client is told that needed no password and named a user that does not exist.
pub fn no_role(user: &str) -> Report {
    Report::fatal("28000", format!("role \"{user}\" does not exist"))
}

/// Whether the certificate that a client has shown, by its common name, is that of `user`.
///
/// # Errors
/// 28000: it is not, or there is none.
pub fn certificate_fits(user: &str, shown: Option<&str>) -> Result<(), Report> {
    let why = match shown {
        Some(name) if name == user => return Ok(()),
        None => "connection requires a valid client certificate".to_owned(),
        Some(_) => format!("certificate authentication failed for user \"{user}\""),
    };
    Err(Report::fatal("28000", why))
}

/// Why log-on failed.
#[derive(Debug)]
pub enum AuthError {
    /// Wrong password, or no such user: never told apart.
    Refused,
    /// The client did not keep to the exchange.
    Protocol(String),
}

/// One exchange, server side.
pub struct Exchange {
    secret: Option<ScramSecret>,
    waiting: Option<ScramServerAuthWaitingForClientFinal>,
}

impl Exchange {
    /// Begins an exchange for `user`, whose stored verifier is given if there is one.
    pub fn new(user: &str, verifier: Option<&str>, server_secret: &[u8; 32]) -> Exchange {
        let secret =
            verifier.and_then(parse_verifier).unwrap_or_else(|| no_password(user, server_secret));
        Exchange { secret: Some(secret), waiting: None }
    }

    /// Takes the client's first message; gives the server's.
    ///
    /// # Errors
    /// When it is not SCRAM.
    pub fn client_first(&mut self, message: &[u8]) -> Result<String, AuthError> {
        let secret = self.secret.take().ok_or(AuthError::Refused)?;
        let (reply, waiting) = ScramServerAuth::new()
            .on_client_first_message_with_secret(message, secret)
            .map_err(auth_error)?;
        self.waiting = Some(waiting);
        Ok(reply)
    }

    /// Takes the client's proof; gives the server's own.
    ///
    /// # Errors
    /// When the proof is not that of the password.
    pub fn client_final(&mut self, message: &[u8]) -> Result<String, AuthError> {
        let waiting = self.waiting.take().ok_or(AuthError::Refused)?;
        waiting.on_client_final_message(message).map_err(auth_error)
    }
}

fn auth_error(e: PgWireError) -> AuthError {
    match e {
        PgWireError::InvalidPassword(_) => AuthError::Refused,
        other => AuthError::Protocol(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_is_read_back_and_differs_each_time() {
        let (a, b) = (scram_verifier("pw"), scram_verifier("pw"));
        assert_ne!(a, b, "salted");
        assert!(a.starts_with("SCRAM-SHA-256$4096:"));
        let Some(ScramSecret::Verifier { salt, iterations, .. }) = parse_verifier(&a) else {
            panic!("not read back")
        };
        assert_eq!((salt.len(), iterations), (SALT_BYTES, 4096));
        for broken in ["", "md5abc", "SCRAM-SHA-256$x:AAAA$AAAA:AAAA", &a[..a.len() - 3]] {
            assert!(parse_verifier(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn an_unknown_user_has_the_same_salt_on_each_try() {
        let salt = |user: &str| {
            let mut exchange = Exchange::new(user, None, &[7; 32]);
            let reply = exchange.client_first(b"n,,n=,r=nonce").unwrap();
            reply.split(",s=").nth(1).unwrap().to_owned()
        };
        assert_eq!(salt("nobody"), salt("nobody"));
        assert_ne!(salt("nobody"), salt("noone"));
    }

    #[cfg(feature = "sql")]
    #[test]
    fn a_password_fits_its_own_verifier_only() {
        let verifier = scram_verifier("pässword");
        let fits = |verifier, password| password_fits("ann", verifier, &[7; 32], password);
        assert!(fits(Some(&verifier), "pässword"));
        assert!(!fits(Some(&verifier), "password") && !fits(Some(&verifier), ""));
        assert!(!fits(None, "pässword") && !fits(Some("no verifier"), "pässword"));
    }

    #[test]
    fn nonsense_is_a_protocol_error() {
        let mut exchange = Exchange::new("u", None, &[0; 32]);
        assert!(matches!(exchange.client_first(b"\xff"), Err(AuthError::Protocol(_))));
        let mut exchange = Exchange::new("u", None, &[0; 32]);
        assert!(exchange.client_final(b"c=biws").is_err(), "final before first");
    }
}
