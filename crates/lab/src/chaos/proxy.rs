//! What stands before an instance's interconnect, so that it can be cut without root.
//!
//! The instances are told each other's proxies (`interconnect_published`). All that reaches an
//! instance from another goes through its proxy; a link of two instances is whole only if both ways
//! are, so that cutting one proxy cuts its instance off from all others.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What is done to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    open: bool,
    /// Connections made before the last change of this are broken.
    round: u64,
}

/// A proxy; it ends with the value.
pub struct Proxy {
    pub port: u16,
    state: Arc<watch::Sender<State>>,
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl Proxy {
    /// Passes on to `target`.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn to(target: u16) -> Result<Proxy, String> {
        let failed = |e: std::io::Error| format!("listen for a proxy: {e}");
        let listener = TcpListener::bind(local(0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let (sender, receiver) = watch::channel(State { open: true, round: 0 });
        tokio::spawn(accept(listener, target, receiver));
        Ok(Proxy { port, state: Arc::new(sender) })
    }

    /// Breaks every connection; new ones may be made.
    pub fn interrupt(&self) {
        self.state.send_modify(|s| s.round += 1);
    }

    /// From now on nobody gets through.
    pub fn cut(&self) {
        self.state.send_modify(|s| *s = State { open: false, round: s.round + 1 });
    }

    /// Everybody gets through again.
    pub fn mend(&self) {
        self.state.send_modify(|s| s.open = true);
    }
}

async fn accept(listener: TcpListener, target: u16, mut state: watch::Receiver<State>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((from, _)) = accepted {
                    tokio::spawn(pass(from, target, state.clone()));
                }
            }
            changed = state.changed() => {
                // The proxy has gone.
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

async fn pass(mut from: TcpStream, target: u16, mut state: watch::Receiver<State>) {
    let begun = *state.borrow_and_update();
    if !begun.open {
        return;
    }
    let Ok(mut to) = TcpStream::connect(local(target)).await else { return };
    // Else every small message waits for the acknowledgement of the one before.
    if from.set_nodelay(true).and_then(|()| to.set_nodelay(true)).is_err() {
        return;
    }
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
        _ = state.wait_for(|now| now.round != begun.round) => {}
    }
}

/// A port that nobody listens on.
///
/// # Errors
/// None can be had.
pub fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind(local(0));
    let port = listener.and_then(|l| l.local_addr()).map(|a| a.port());
    port.map_err(|e| format!("find a free port: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn it_passes_breaks_refuses_and_passes_again() {
        let echo = TcpListener::bind(local(0)).await.expect("a port");
        let target = echo.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = echo.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        let proxy = Proxy::to(target).await.expect("a proxy");
        let talk = async |stream: &mut TcpStream| {
            let mut answer = [0; 2];
            stream.write_all(b"hi").await?;
            stream.read_exact(&mut answer).await.map(|_| answer)
        };
        let connect = || TcpStream::connect(local(proxy.port));
        let mut first = connect().await.expect("connected");
        assert_eq!(&talk(&mut first).await.expect("an answer"), b"hi");
        proxy.interrupt();
        assert!(talk(&mut first).await.is_err());
        let mut second = connect().await.expect("connected");
        assert_eq!(&talk(&mut second).await.expect("an answer"), b"hi");
        proxy.cut();
        assert!(talk(&mut second).await.is_err());
        let mut third = connect().await.expect("the port still listens");
        assert!(talk(&mut third).await.is_err());
        proxy.mend();
        let mut fourth = connect().await.expect("connected");
        assert_eq!(&talk(&mut fourth).await.expect("an answer"), b"hi");
    }
}
