//! Names of exceptions and their SQLSTATEs, PostgreSQL's and the field's.

/// Name and what its SQLSTATEs begin with; for a name of both several.
const CONDITIONS: &[(&str, &[&str])] = &[
    ("assert_failure", &["P0004"]),
    ("cannot_coerce", &["42846"]),
    ("cardinality_violation", &["21000"]),
    ("check_violation", &["23514"]),
    ("data_exception", &["22"]),
    ("datatype_mismatch", &["42804"]),
    ("deadlock_detected", &["40P01"]),
    ("disk_full", &["53100"]),
    ("division_by_zero", &["22012"]),
    ("duplicate_column", &["42701"]),
    ("duplicate_object", &["42710"]),
    ("duplicate_table", &["42P07"]),
    ("dup_val_on_index", &["23505"]),
    ("exclusion_violation", &["23P01"]),
    ("feature_not_supported", &["0A000"]),
    ("foreign_key_violation", &["23503"]),
    ("insufficient_privilege", &["42501"]),
    ("integrity_constraint_violation", &["23"]),
    ("invalid_cursor", &["34000", "24000"]),
    ("invalid_cursor_state", &["24000"]),
    ("invalid_datetime_format", &["22007"]),
    ("invalid_number", &["22P02", "22003"]),
    ("invalid_parameter_value", &["22023"]),
    ("invalid_text_representation", &["22P02"]),
    ("invalid_transaction_termination", &["2D000"]),
    ("lock_not_available", &["55P03"]),
    ("no_data_found", &["P0002"]),
    ("not_null_violation", &["23502"]),
    ("null_value_not_allowed", &["22004"]),
    ("numeric_value_out_of_range", &["22003"]),
    ("object_in_use", &["55006"]),
    ("out_of_memory", &["53200"]),
    ("program_limit_exceeded", &["54"]),
    ("query_canceled", &["57014"]),
    ("raise_exception", &["P0001"]),
    ("read_only_sql_transaction", &["25006"]),
    ("restrict_violation", &["23001"]),
    ("serialization_failure", &["40001"]),
    ("string_data_right_truncation", &["22001"]),
    ("syntax_error", &["42601"]),
    ("syntax_error_or_access_rule_violation", &["42"]),
    ("timeout_on_resource", &["55P03"]),
    ("too_many_rows", &["P0003"]),
    ("transaction_rollback", &["40"]),
    ("undefined_column", &["42703"]),
    ("undefined_function", &["42883"]),
    ("undefined_object", &["42704"]),
    ("undefined_table", &["42P01"]),
    ("unique_violation", &["23505"]),
    ("value_error", &["22001", "22003", "22P02", "22004"]),
    ("zero_divide", &["22012"]),
];

/// What the SQLSTATEs of a condition begin with; none: there is no such condition.
pub(super) fn states_of(name: &str) -> &'static [&'static str] {
    CONDITIONS.iter().find(|(known, _)| *known == name).map_or(&[], |(_, states)| states)
}

/// The SQLSTATE of an error that is raised by a condition's name.
pub(super) fn code_of(name: &str) -> Option<&'static str> {
    states_of(name).first().copied().filter(|code| code.len() == 5)
}

/// What the field's SQLCODE says for a SQLSTATE.
pub(super) fn number_of(code: &str) -> i32 {
    match code {
        "P0002" => 100,
        "P0003" => -1422,
        "23505" => -1,
        "22012" => -1476,
        "22P02" => -1722,
        "22001" | "22003" | "22004" => -6502,
        "23502" => -1400,
        "23503" => -2291,
        "23514" => -2290,
        "40P01" => -60,
        "42P01" => -942,
        "55P03" => -54,
        "P0001" => 1,
        _ => -20_000,
    }
}
