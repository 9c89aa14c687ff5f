//! Encrypted connections: the server's certificate, and one client's side of it.
//!
//! What it promises: a certificate or key that cannot be used stops the start with the file's name
//! and why; a client's certificate counts only if an authority we were given has signed it. What it
//! must never do: fall back to plain text.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where certificate and key are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM: the server's certificate, those that have signed it behind it.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// PEM: who signs clients' certificates; `None`: clients are not asked for one.
    pub client_authorities: Option<PathBuf>,
}

/// What all encrypted connections share.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let wrong = |e: &dyn std::fmt::Display| format!("{what} \"{shown}\" cannot be read: {e}");
    let found = CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|e| wrong(&e))?;
    if found.is_empty() {
        return Err(format!("{what} \"{shown}\" holds no certificate"));
    }
    Ok(found)
}

impl Tls {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn load(files: &TlsFiles) -> Result<Tls, String> {
        let chain = certificates(&files.certificate, "server certificate file")?;
        let shown = files.key.display();
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|e| format!("private key file \"{shown}\" cannot be read: {e}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("no version of TLS can be offered: {e}"))?;
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for one in certificates(path, "root certificate file")? {
                    let shown = path.display();
                    roots.add(one).map_err(|e| {
                        format!("root certificate file \"{shown}\" cannot be used: {e}")
                    })?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()
                        .map_err(|e| format!("clients' certificates cannot be checked: {e}"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, key).map_err(|e| {
            let certificate = files.certificate.display();
            format!("private key \"{shown}\" does not go with certificate \"{certificate}\": {e}")
        })?;
        Ok(Tls(Arc::new(config)))
    }

    /// The same for connections that do not block.
    #[cfg(feature = "sql")]
    pub(crate) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        Arc::clone(&self.0).into()
    }

    /// The server's side of a connection that begins now.
    ///
    /// # Errors
    /// What the library says.
    pub fn accept(&self) -> io::Result<Channel> {
        ServerConnection::new(Arc::clone(&self.0))
            .map(|connection| Channel(Box::new(connection)))
            .map_err(io::Error::other)
    }
}

/// One encrypted connection, above a blocking socket.
pub struct Channel(Box<ServerConnection>);

/// What is told of an encrypted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    pub version: String,
    pub cipher: String,
    /// Common name of the client's certificate, if it has shown one that we trust.
    pub client_name: Option<String>,
}

fn broken(e: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, e)
}

/// What is told of a connection that has shaken hands.
pub fn encryption(connection: &ServerConnection) -> Encryption {
    let client = connection.peer_certificates().and_then(|all| all.first());
    let client_name = client.and_then(|one| {
        x509_certificate::X509Certificate::from_der(one.as_ref()).ok()?.subject_common_name()
    });
    let version = match connection.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    };
    let cipher = connection.negotiated_cipher_suite();
    let cipher = cipher.and_then(|suite| suite.suite().as_str()).unwrap_or("");
    let cipher = cipher.replace("TLS13_", "TLS_");
    Encryption { version: version.to_owned(), cipher, client_name }
}

impl Channel {
    /// Shakes hands.
    ///
    /// # Errors
    /// The client has gone, or speaks no TLS that we do.
    pub fn handshake<S: Read + Write>(&mut self, socket: &mut S) -> io::Result<Encryption> {
        while self.0.is_handshaking() {
            while self.0.wants_write() {
                self.0.write_tls(socket)?;
            }
            if !self.0.is_handshaking() {
                break;
            }
            if self.0.read_tls(socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Err(e) = self.0.process_new_packets() {
                // The client is told what is wrong, as far as it can be.
                let _ = self.0.write_tls(socket);
                return Err(broken(e));
            }
        }
        self.send(socket)?;
        Ok(encryption(&self.0))
    }

    fn send<S: Write>(&mut self, socket: &mut S) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(socket)?;
        }
        Ok(())
    }

    /// Whether there is something to read without the socket.
    pub fn has_bytes(&mut self) -> bool {
        self.0.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    pub fn read<S: Read + Write>(&mut self, socket: &mut S, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Gone without goodbye is gone.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if self.0.read_tls(socket)? == 0 {
                return Ok(0);
            }
            if let Err(e) = self.0.process_new_packets() {
                let _ = self.0.write_tls(socket);
                return Err(broken(e));
            }
            self.send(socket)?;
        }
    }

    pub fn write<S: Write>(&mut self, socket: &mut S, buf: &[u8]) -> io::Result<usize> {
        let written = self.0.writer().write(buf)?;
        self.send(socket)?;
        Ok(written)
    }

    /// Says goodbye, so that the client knows that nothing was cut off.
    pub fn close<S: Write>(&mut self, socket: &mut S) {
        self.0.send_close_notify();
        let _ = self.send(socket);
    }
}
