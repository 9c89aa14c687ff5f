//! Messages as one line of text, for traces and golden scripts.

use std::fmt;

use super::gcs::{BlockInfo, Grant, HolderMsg, MasterMsg, Promoted, Source};

fn flag(f: &mut fmt::Formatter<'_>, on: bool, text: &str) -> fmt::Result {
    if on { write!(f, " {text}") } else { Ok(()) }
}

impl fmt::Display for Promoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promoted::Holds { version } => write!(f, "holds {version}"),
            Promoted::DiskIsNewer { version } => write!(f, "disk has {version}"),
            Promoted::Nothing => f.write_str("nothing"),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grant {} {} ", self.mode, self.seq)?;
        match self.source {
            Source::Disk => f.write_str("from disk")?,
            Source::YourCopy { version } => write!(f, "your copy {version}")?,
        }
        flag(f, self.past_images, "with past images")
    }
}

impl fmt::Display for BlockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block {} {} {}", self.mode, self.version, self.seq)?;
        flag(f, self.past_images, "with past images")?;
        flag(f, self.unwritten, "unwritten")?;
        match self.sender_past {
            Some(v) => write!(f, " sender keeps {v}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for MasterMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MasterMsg::Request { req_id, want, have, .. } => {
                write!(f, "Request {req_id} {want} has {}", have.mode)
            }
            MasterMsg::Taken { seq, mode, version: _, past } => {
                write!(f, "Taken {mode} {seq}")?;
                past.map_or(Ok(()), |(i, v)| write!(f, " i{i} keeps {v}"))
            }
            MasterMsg::Released { seq } => write!(f, "Released {seq}"),
            MasterMsg::NotHeld { seq } => write!(f, "NotHeld {seq}"),
            MasterMsg::CrNotHeld { asker, req_id, scn, .. } => {
                write!(f, "CrNotHeld {req_id} CR@{scn} of i{asker}")
            }
            MasterMsg::Invalidated { seq, past } => {
                write!(f, "Invalidated {seq}")?;
                past.map_or(Ok(()), |v| write!(f, " keeps {v}"))
            }
            MasterMsg::Written { version } => write!(f, "Written {version}"),
            MasterMsg::WriteRequest { version } => write!(f, "WriteRequest {version}"),
            MasterMsg::Downgraded { seq, unwritten } => {
                write!(f, "Downgraded {seq}")?;
                flag(f, *unwritten, "unwritten")
            }
            MasterMsg::Cancel { req_id } => write!(f, "Cancel {req_id}"),
            MasterMsg::Promoted { seq, outcome } => write!(f, "Promoted {seq} {outcome}"),
        }
    }
}

impl fmt::Display for HolderMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HolderMsg::Grant { grant } => write!(f, "{grant}"),
            HolderMsg::Forward { to, mode, seq, past_images, .. } => {
                write!(f, "Forward {mode} {seq} to i{to}")?;
                flag(f, *past_images, "with past images")
            }
            HolderMsg::ForwardCr { to, scn, .. } => write!(f, "Forward CR@{scn} to i{to}"),
            HolderMsg::AskCr { scn, .. } => write!(f, "Ask CR@{scn}"),
            HolderMsg::Invalidate { seq } => write!(f, "Invalidate {seq}"),
            HolderMsg::TakenAck { seq } => write!(f, "TakenAck {seq}"),
            HolderMsg::ReleasedAck { seq, accepted } => {
                write!(f, "ReleasedAck {seq} {}", if *accepted { "accepted" } else { "refused" })
            }
            HolderMsg::PastImageDrop { version } => write!(f, "PastImageDrop {version}"),
            HolderMsg::WriteRequest { version } => write!(f, "WriteRequest {version}"),
            HolderMsg::Withdrawn { req_id } => write!(f, "Withdrawn {req_id}"),
            HolderMsg::TooLate { req_id } => write!(f, "TooLate {req_id}"),
            HolderMsg::Promote { seq } => write!(f, "Promote {seq}"),
            HolderMsg::BecomeWriter { seq } => write!(f, "BecomeWriter {seq}"),
            HolderMsg::Retry { req_id } => write!(f, "Retry {req_id}"),
        }
    }
}
