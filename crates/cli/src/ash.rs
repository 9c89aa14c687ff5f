//! `skein report --ash`: what sessions did in the last minutes, out of samples of them.

use crate::error::{CliError, Exit, Result};
use crate::reports::{Asked, ask, name_of, put};
use report::Samples;
use std::collections::BTreeMap;
use std::path::Path;

/// Reports on the samples of all instances, or of one.
///
/// # Errors
/// No instance is open, or none keeps samples; the file cannot be written.
pub fn report(
    dir: &Path,
    minutes: u32,
    instance: Option<u16>,
    html: bool,
    output: Option<&Path>,
) -> Result<()> {
    if let Some(k) = instance {
        crate::config::Config::load(&crate::layout::Layout::new(dir))?.check_instance(k)?;
    }
    let database = name_of(dir);
    let samples = ask(dir, async |asked| samples(asked, database, minutes, instance).await)?;
    let text = if html { report::ash_html(&samples) } else { report::ash_text(&samples) };
    put(&text, output)
}

async fn samples(
    asked: &mut Asked,
    database: String,
    minutes: u32,
    instance: Option<u16>,
) -> Result<Samples> {
    // Before an instance was started nobody looked.
    let range = format!(
        "select to_char(b, 'YYYY-MM-DD HH24:MI:SS'), to_char(now(), 'YYYY-MM-DD HH24:MI:SS'), \
         extract(epoch from now() - b)::bigint from (select greatest(now() - interval '{minutes} \
         minutes', (select min(startup_time) from gv$instance)) as b) x"
    );
    let range = asked.rows(&range).await?;
    let cell = |at: usize| range.rows.first().and_then(|row| row[at].clone()).unwrap_or_default();
    let only = instance.map_or(String::new(), |k| format!(" and inst_id = {k}"));
    let rows = asked
        .rows(&format!(
            "with a as (select inst_id, session_type, case session_state when 'ON CPU' then '' \
             else event end as event, case session_state when 'ON CPU' then '' else wait_class end \
             as wait_class, sql_id, session_id as session, program, blocking_inst_id || '.' || \
             blocking_session as blocker, current_obj_no, \
             to_char(sample_time, 'YYYY-MM-DD HH24:MI') as minute, count(*) as samples \
             from gv$active_session_history \
             where sample_time > now() - interval '{minutes} minutes'{only} \
             group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) \
             select a.*, c.relname as object from a left join pg_class c on c.oid = a.current_obj_no"
        ))
        .await?;
    if rows.columns.is_empty() {
        let text = "this server keeps no active session history";
        return Err(CliError::new(Exit::State, text));
    }
    let mut texts = BTreeMap::new();
    let known = asked.rows("select sql_id, max(sql_text) from gv$sqlstats group by sql_id").await?;
    for row in known.rows {
        if let [Some(id), Some(text)] = &row[..] {
            texts.insert(id.clone(), text.clone());
        }
    }
    let moments = cell(2).parse().unwrap_or(1);
    Ok(Samples { database, from: cell(0), to: cell(1), moments, rows, texts })
}
