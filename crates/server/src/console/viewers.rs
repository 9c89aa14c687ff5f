//! The console's sessions there are, by the token in their cookie.
//!
//! What it promises: at most [`VIEWERS_MAX`] at once, log-ons included; a token is 256 random bits
//! and only its hash is kept. What it must never do: know a session whose thread has ended.

use super::viewer::Viewer;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Console sessions of an instance, scrapes that log on included.
pub const VIEWERS_MAX: usize = 16;
/// How often it is looked whether threads have ended.
const LOOK: Duration = Duration::from_millis(10);

type Hash = [u8; 32];

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

/// All sessions of one console.
pub struct Viewers {
    by_token: Mutex<BTreeMap<Hash, Arc<Viewer>>>,
    places: Arc<Semaphore>,
}

impl Default for Viewers {
    fn default() -> Viewers {
        let places = Arc::new(Semaphore::new(VIEWERS_MAX));
        Viewers { by_token: Mutex::default(), places }
    }
}

impl Viewers {
    /// A place for one more; whoever has it gives it back by dropping it.
    pub fn take_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Lists a session; its token.
    pub fn add(&self, viewer: Arc<Viewer>) -> String {
        let token = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        let mut known = self.by_token.lock();
        known.retain(|_, viewer| !viewer.has_ended());
        known.insert(hash(&token), viewer);
        token
    }

    /// The session of a token.
    pub fn find(&self, token: &str) -> Option<Arc<Viewer>> {
        let found = self.by_token.lock().get(&hash(token)).cloned();
        found.filter(|viewer| !viewer.has_ended())
    }

    /// Ends the session of a token.
    pub fn end(&self, token: &str) {
        let ended = self.by_token.lock().remove(&hash(token));
        if let Some(viewer) = ended {
            viewer.terminate();
        }
    }

    /// Ends all, and lets nobody in any more. True when all threads are done within `limit`.
    pub fn end_all(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            for viewer in std::mem::take(&mut *self.by_token.lock()).into_values() {
                viewer.terminate();
            }
            if self.places.available_permits() == VIEWERS_MAX {
                self.places.close();
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }
}
