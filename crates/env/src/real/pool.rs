//! The I/O threads: they run blocking reads and writes for callers that must not block.
//!
//! A job, once submitted, runs to its end whether or not somebody still waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Once};

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

pub(super) struct IoPool {
    threads: usize,
    started: Once,
    jobs: Mutex<VecDeque<Job>>,
    ready: Condvar,
}

impl IoPool {
    pub(super) fn new(threads: usize) -> Arc<IoPool> {
        Arc::new(IoPool {
            threads,
            started: Once::new(),
            jobs: Mutex::new(VecDeque::new()),
            ready: Condvar::new(),
        })
    }

    /// Queues a job; the first one starts the threads.
    pub(super) fn submit(self: &Arc<Self>, job: Job) {
        self.started.call_once(|| {
            for i in 0..self.threads {
                let pool = Arc::clone(self);
                std::thread::Builder::new()
                    .name(format!("IO{i}"))
                    .stack_size(128 * 1024)
                    .spawn(move || pool.work())
                    .expect("an I/O thread starts");
            }
        });
        self.jobs.lock().push_back(job);
        self.ready.notify_one();
    }

    fn work(&self) {
        loop {
            let job = {
                let mut jobs = self.jobs.lock();
                loop {
                    if let Some(job) = jobs.pop_front() {
                        break job;
                    }
                    self.ready.wait(&mut jobs);
                }
            };
            job();
        }
    }
}
