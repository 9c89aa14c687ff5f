//! The handshake that opens a channel: each side proves that it knows the cluster's secret, and
//! says
//! who it is.
//!
//! 1. asker → `Hello`: magic, version, asker (instance, incarnation), epoch, class, whom it wants,
//!    nonce.
//! 2. answerer → `Challenge`: nonce, HMAC(secret, "answerer" | hello | nonce).
//! 3. asker → `Proof`: HMAC(secret, "asker" | hello | challenge).
//! 4. answerer → `Verdict`: accepted, come again (the answerer is not yet in that epoch), or
//!    refused.
//!
//! Nothing from the other side is believed before its HMAC has been checked. Each proof covers both
//! nonces, so that no recorded handshake can be played again.

use std::time::Duration;

use block::InstanceNo;
use env::{Connection, Env};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::interconnect::Class;
use crate::voting::Life;

const MAGIC: &[u8; 8] = b"SKEINIC1";
const NONCE_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
const HELLO_BYTES: usize = 8 + 1 + 8 + 8 + 1 + 1 + NONCE_BYTES;
const STEP_LIMIT: Duration = Duration::from_secs(2);

pub(crate) type Secret = [u8; 32];

/// Who asks for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub asker: Life,
    pub epoch: u64,
    pub class: Class,
    pub to: InstanceNo,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Accepted,
    /// The answerer does not know the epoch or the asker yet.
    Later,
    Refused,
}

impl Hello {
    fn encode(&self, nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HELLO_BYTES);
        out.extend_from_slice(MAGIC);
        out.push(self.asker.instance.0);
        out.extend_from_slice(&self.asker.incarnation.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.push(self.class as u8);
        out.push(self.to.0);
        out.extend_from_slice(nonce);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Hello> {
        if bytes.len() != HELLO_BYTES || &bytes[..8] != MAGIC {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Hello {
            asker: Life { instance: InstanceNo(bytes[8]), incarnation: number(9)? },
            epoch: number(17)?,
            class: Class::from_u8(bytes[25])?,
            to: InstanceNo(bytes[26]),
        })
    }
}

fn mac(secret: &Secret, role: &str, parts: [&[u8]; 2]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(secret).expect("HMAC takes any key");
    mac.update(role.as_bytes());
    for part in parts {
        mac.update(part);
    }
    mac
}

fn nonce(env: &Env) -> [u8; NONCE_BYTES] {
    let mut out = [0; NONCE_BYTES];
    for chunk in out.chunks_mut(8) {
        chunk.copy_from_slice(&env.random().to_le_bytes());
    }
    out
}

async fn receive(env: &Env, conn: &mut Connection) -> Option<Vec<u8>> {
    env.timeout(STEP_LIMIT, conn.receiver.recv()).await.ok().flatten()
}

/// The asker's side. `None`: the connection broke, or the other side does not know the secret.
pub(crate) async fn ask(
    env: &Env,
    conn: &mut Connection,
    secret: &Secret,
    hello: &Hello,
) -> Option<Verdict> {
    let hello = hello.encode(&nonce(env));
    conn.sender.send(hello.clone()).ok()?;
    let challenge = receive(env, conn).await?;
    if challenge.len() != NONCE_BYTES + MAC_BYTES {
        return None;
    }
    let (their_nonce, proof) = challenge.split_at(NONCE_BYTES);
    mac(secret, "answerer", [&hello, their_nonce]).verify_slice(proof).ok()?;
    let proof = mac(secret, "asker", [&hello, &challenge]).finalize().into_bytes();
    conn.sender.send(proof.to_vec()).ok()?;
    match receive(env, conn).await?[..] {
        [1] => Some(Verdict::Accepted),
        [2] => Some(Verdict::Later),
        _ => Some(Verdict::Refused),
    }
}

/// The answerer's side up to the proof: who asks, proven. The verdict is to follow.
pub(crate) async fn answer(env: &Env, conn: &mut Connection, secret: &Secret) -> Option<Hello> {
    let hello = receive(env, conn).await?;
    let decoded = Hello::decode(&hello)?;
    let mut challenge = nonce(env).to_vec();
    let proof = mac(secret, "answerer", [&hello, &challenge]).finalize().into_bytes();
    challenge.extend_from_slice(&proof);
    conn.sender.send(challenge.clone()).ok()?;
    let proof = receive(env, conn).await?;
    mac(secret, "asker", [&hello, &challenge]).verify_slice(&proof).ok()?;
    Some(decoded)
}

pub(crate) fn send_verdict(conn: &Connection, verdict: Verdict) {
    let code = match verdict {
        Verdict::Accepted => 1,
        Verdict::Later => 2,
        Verdict::Refused => 3,
    };
    // A connection that has broken meanwhile shows at its next use.
    let _ = conn.sender.send(vec![code]);
}
