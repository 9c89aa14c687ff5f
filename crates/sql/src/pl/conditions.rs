//! Names of exceptions and their SQLSTATEs, PostgreSQL's and the field's.

use crate::PgError;

/// Name and what its SQLSTATEs begin with; for a name of both several. What nothing of ours raises
/// has a SQLSTATE of its own, made of class 22 and the field's number.
const CONDITIONS: &[(&str, &[&str])] = &[
    ("active_sql_transaction", &["25001"]),
    ("ambiguous_column", &["42702"]),
    ("case_not_found", &["20000"]),
    ("datetime_field_overflow", &["22008"]),
    ("dependent_objects_still_exist", &["2BP01"]),
    ("duplicate_alias", &["42712"]),
    ("duplicate_cursor", &["42P03"]),
    ("duplicate_function", &["42723"]),
    ("duplicate_prepared_statement", &["42P05"]),
    ("duplicate_schema", &["42P06"]),
    ("grouping_error", &["42803"]),
    ("in_failed_sql_transaction", &["25P02"]),
    ("internal_error", &["XX000"]),
    ("invalid_catalog_name", &["3D000"]),
    ("invalid_column_reference", &["42P10"]),
    ("invalid_object_definition", &["42P17"]),
    ("invalid_regular_expression", &["2201B"]),
    ("invalid_schema_name", &["3F000"]),
    ("invalid_sql_statement_name", &["26000"]),
    ("invalid_table_definition", &["42P16"]),
    ("object_not_in_prerequisite_state", &["55000"]),
    ("statement_too_complex", &["54001"]),
    ("too_many_columns", &["54011"]),
    ("undefined_parameter", &["42P02"]),
    ("wrong_object_type", &["42809"]),
    ("access_into_null", &["22530"]),
    ("assert_failure", &["P0004"]),
    ("cannot_coerce", &["42846"]),
    ("cardinality_violation", &["21000"]),
    ("check_violation", &["23514"]),
    ("collection_is_null", &["22531"]),
    ("cursor_already_open", &["42P03"]),
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
    ("invalid_cursor_name", &["34000"]),
    ("invalid_cursor_state", &["24000"]),
    ("invalid_datetime_format", &["22007"]),
    ("invalid_number", &["22P02", "22003"]),
    ("invalid_parameter_value", &["22023"]),
    ("invalid_text_representation", &["22P02"]),
    ("invalid_transaction_termination", &["2D000"]),
    ("lock_not_available", &["55P03"]),
    ("login_denied", &["28P01", "28000"]),
    ("no_data_found", &["P0002"]),
    ("no_data_needed", &["02000"]),
    ("not_logged_on", &["08003"]),
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
    ("rowtype_mismatch", &["22504", "42804"]),
    ("self_is_null", &["39004"]),
    ("program_error", &["XX000"]),
    ("serialization_failure", &["40001"]),
    ("storage_error", &["53200"]),
    ("string_data_right_truncation", &["22001"]),
    ("subscript_beyond_count", &["22533"]),
    ("subscript_outside_limit", &["22532"]),
    ("syntax_error", &["42601"]),
    ("sys_invalid_rowid", &["22410"]),
    ("syntax_error_or_access_rule_violation", &["42"]),
    ("timeout_on_resource", &["55P03"]),
    ("too_many_rows", &["P0003"]),
    ("transaction_rollback", &["40"]),
    ("undefined_column", &["42703"]),
    ("undefined_function", &["42883"]),
    ("undefined_object", &["42704"]),
    ("undefined_table", &["42P01"]),
    ("unique_violation", &["23505"]),
    ("userenv_commitscn_error", &["22725"]),
    ("value_error", &["22001", "22003", CONVERSION, "22004"]),
    ("zero_divide", &["22012"]),
];

/// What a text is that the field's code itself, and not its SQL, takes for a number that it is not.
const CONVERSION: &str = "22018";

/// An error of the field's code itself, whose conversions fail otherwise than those of SQL; one
/// that came from further inside stays as it is.
pub(super) fn of_code(error: PgError) -> PgError {
    let inside = error.about.as_deref().is_some_and(|about| about.context.is_some());
    match error.code == "22P02" && !inside {
        true => PgError { code: CONVERSION, ..error },
        false => error,
    }
}

/// What the SQLSTATEs of a condition begin with; none: there is no such condition.
pub(super) fn states_of(name: &str) -> &'static [&'static str] {
    CONDITIONS.iter().find(|(known, _)| *known == name).map_or(&[], |(_, states)| states)
}

/// The SQLSTATE of an error that is raised by a condition's name.
pub(super) fn code_of(name: &str) -> Option<&'static str> {
    states_of(name).first().copied().filter(|code| code.len() == 5)
}

/// What the detail of an error begins with that has a number of the user's. It goes with the error
/// out of a routine, and to the client, whose message is the text alone.
const NUMBERED: &str = "ORA-";
/// Numbers that `raise_application_error` may give.
pub(super) const GIVEN_NUMBERS: std::ops::RangeInclusive<i32> = -20_999..=-20_000;

/// An error with a number of the user's; `kept`: what is told of the one that it was raised for
/// stays behind it.
pub(super) fn with_number(number: i32, text: String, kept: Option<&str>) -> PgError {
    let mut detail = format!("{NUMBERED}{:05}: {text}", number.unsigned_abs());
    if let Some(kept) = kept {
        detail.push('\n');
        detail.push_str(kept);
    }
    PgError::new("P0001", text).with_detail(detail)
}

/// The number that `raise_application_error` has given an error of this SQLSTATE and detail, and
/// how the field tells both.
fn given_number<'e>(state: &str, detail: Option<&'e str>) -> Option<(i32, &'e str)> {
    let told = detail.filter(|_| state == "P0001")?;
    let (number, _) = told.strip_prefix(NUMBERED)?.split_once(": ")?;
    let number = -i32::from(number.parse::<u16>().ok()?);
    GIVEN_NUMBERS.contains(&number).then_some((number, told))
}

/// What the field's SQLERRM says of an error.
pub(super) fn told(error: &PgError) -> &str {
    let given = given_number(error.code, error.detail.as_deref());
    given.map_or(error.message.as_str(), |(_, told)| told)
}

/// SQLSTATEs with the field's number. An exception that code gives one of these numbers has the
/// first SQLSTATE that has it.
const NUMBERS: &[(&str, i32)] = &[
    ("02000", -6548),
    ("07001", -1006),
    ("08003", -1012),
    ("0A000", -3001),
    ("20000", -6592),
    ("21000", -1427),
    ("22001", -6502),
    ("22003", -6502),
    ("22004", -6502),
    ("22007", -1861),
    ("22008", -1847),
    ("2200H", -8004),
    ("22012", -1476),
    (CONVERSION, -6502),
    ("22410", -1410),
    ("22504", -6504),
    ("22530", -6530),
    ("22531", -6531),
    ("22532", -6532),
    ("22533", -6533),
    ("22725", -1725),
    ("22P02", -1722),
    ("23001", -2292),
    ("23502", -1400),
    ("23503", -2291),
    ("23505", -1),
    ("23514", -2290),
    ("24000", -1001),
    ("25006", -1456),
    ("28000", -1017),
    ("28P01", -1017),
    ("34000", -1001),
    ("39004", -30_625),
    ("40001", -8177),
    ("40P01", -60),
    ("42501", -1031),
    ("42601", -900),
    ("42701", -957),
    ("42702", -918),
    ("42703", -904),
    ("42704", -4043),
    ("42710", -955),
    ("42723", -955),
    ("42803", -979),
    ("42804", -932),
    ("42883", -904),
    ("42P01", -942),
    ("42P03", -6511),
    ("42P07", -955),
    ("53100", -1653),
    ("53200", -6500),
    ("55P03", -54),
    ("57014", -1013),
    ("72000", -1555),
    ("P0001", 1),
    ("P0002", 100),
    ("P0003", -1422),
    ("XX000", -600),
    ("XX001", -600),
];

/// Where one SQLSTATE stands for several of the field's numbers: what the message begins and ends
/// with, and the number. The others of the SQLSTATE have that of [`NUMBERS`].
const BY_MESSAGE: &[(&str, &str, &str, i32)] = &[
    ("07001", "not all", "", -1008),
    ("23503", "update or delete on", "", -2292),
    ("42701", "", " already exists", -1430),
    ("42704", "constraint \"", "", -2443),
    ("42704", "index \"", "", -1418),
    ("42704", "role \"", "", -1918),
    ("42710", "role \"", "", -1920),
    // Of a call in code; DROP names no arguments.
    ("42883", "procedure ", " does not exist", -6550),
    ("42883", "could not find a ", "", -4043),
    ("42P01", "sequence \"", "", -2289),
    ("42P16", "multiple primary keys", "", -2260),
    ("55P03", "canceling statement due to lock timeout", "", -30_006),
    // Raised by their names, which nothing of ours is.
    ("55P03", "timeout_on_resource", "", -51),
    ("XX000", "program_error", "", -6501),
];

/// The SQLSTATE of an error that code raises by a number.
fn state_of(number: i32) -> &'static str {
    // That of a cancel would pass by OTHERS, and nothing is wrong inside.
    let own = |state: &str| !matches!(state, "57014" | "XX000" | "XX001");
    let found = NUMBERS.iter().find(|(state, known)| *known == number && own(state));
    found.map_or("P0001", |(state, _)| *state)
}

/// An exception of the code's own as an error: with a number it is the error of the database that
/// has the number, or one of the user's.
pub(super) fn declared(name: &str, number: Option<i32>) -> PgError {
    let own = || PgError::new("P0001", format!("exception \"{name}\""));
    match number {
        None => own(),
        // Nothing is said with it.
        Some(number) if GIVEN_NUMBERS.contains(&number) => {
            own().with_detail(format!("{NUMBERED}{:05}: ", number.unsigned_abs()))
        }
        Some(number) => PgError::new(state_of(number), message_of(number)),
    }
}

/// What the field's SQLCODE says for an error.
pub(super) fn number_of(error: &PgError) -> i32 {
    sqlcode(error.code, &error.message, error.detail.as_deref(), false)
}

/// What the field's SQLCODE says for an error: by its SQLSTATE, and by its message where one
/// SQLSTATE stands for several of the field's. For clients too, which have no number but this.
///
/// `in_change`: a statement has failed that changes rows, for which the field has other numbers
/// than for an assignment.
#[must_use]
pub fn sqlcode(state: &str, message: &str, detail: Option<&str>, in_change: bool) -> i32 {
    if let Some((number, _)) = given_number(state, detail) {
        return number;
    }
    if let Some(number) = changed_number(state, message).filter(|_| in_change) {
        return number;
    }
    let told = BY_MESSAGE.iter().find(|(known, begin, end, _)| {
        *known == state && message.starts_with(*begin) && message.ends_with(*end)
    });
    let by_message = told.map(|(.., number)| *number);
    let known = || NUMBERS.iter().find(|(known, _)| *known == state).map(|(_, number)| *number);
    by_message.or_else(known).unwrap_or(-20_000)
}

/// The same where the field has another number for a statement that changes rows than for an
/// assignment.
pub(super) fn number_in_change(error: &PgError) -> Option<i32> {
    changed_number(error.code, &error.message)
}

fn changed_number(state: &str, message: &str) -> Option<i32> {
    match state {
        "22001" if message.starts_with("value too long for type") => Some(-12_899),
        "22003" if message == "numeric field overflow" => Some(-1438),
        _ => None,
    }
}

/// What the field's SQLERRM says of a number.
pub(super) fn message_of(number: i32) -> String {
    let text = match number {
        0 => return "ORA-0000: normal, successful completion".to_owned(),
        100 | -1403 => return "ORA-01403: no data found".to_owned(),
        1 => return "User-Defined Exception".to_owned(),
        -1 => "unique constraint violated",
        -51 => "timeout occurred while waiting for a resource",
        -54 => "resource busy and acquire with NOWAIT specified or timeout expired",
        -60 => "deadlock detected while waiting for resource",
        -600 => "internal error",
        -900 => "invalid SQL statement",
        -904 => "invalid identifier",
        -918 => "column ambiguously defined",
        -932 => "inconsistent datatypes",
        -942 => "table or view does not exist",
        -957 => "duplicate column name",
        -955 => "name is already used by an existing object",
        -979 => "not a GROUP BY expression",
        -1001 => "invalid cursor",
        -1006 => "bind variable does not exist",
        -1008 => "not all variables bound",
        -1012 => "not logged on",
        -1013 => "user requested cancel of current operation",
        -1017 => "invalid username/password; logon denied",
        -1031 => "insufficient privileges",
        -1400 => "cannot insert NULL",
        -1410 => "invalid ROWID",
        -1427 => "single-row subquery returns more than one row",
        -1430 => "column being added already exists in table",
        -1438 => "value larger than specified precision allowed for this column",
        -1456 => "may not perform insert/delete/update operation inside a READ ONLY transaction",
        -1555 => "snapshot too old",
        -1653 => "unable to extend table",
        -1725 => "USERENV('COMMITSCN') not allowed here",
        -1847 => "day of month must be between 1 and last day of month",
        -1861 => "literal does not match format string",
        -3001 => "unimplemented feature",
        -4043 => "object does not exist",
        -6592 => "CASE not found while executing CASE statement",
        -8004 => "sequence NEXTVAL exceeds its limit and cannot be instantiated",
        -8177 => "can't serialize access for this transaction",
        -1422 => "exact fetch returns more than requested number of rows",
        -1476 => "divisor is equal to zero",
        -1722 => "invalid number",
        -2290 => "check constraint violated",
        -2291 => "integrity constraint violated - parent key not found",
        -2292 => "integrity constraint violated - child record found",
        -1418 => "specified index does not exist",
        -1918 => "user does not exist",
        -1920 => "user name conflicts with another user or role name",
        -2260 => "table can have only one primary key",
        -2289 => "sequence does not exist",
        -2443 => "cannot drop constraint - nonexistent constraint",
        -6550 => "PL/SQL compilation error",
        -6500 => "storage error",
        -6501 => "program error",
        -6502 => "numeric or value error",
        -6504 => "Return types of Result Set variables or query do not match",
        -6511 => "cursor already open",
        -6530 => "Reference to uninitialized composite",
        -6531 => "Reference to uninitialized collection",
        -6532 => "Subscript outside of limit",
        -6533 => "Subscript beyond count",
        -6548 => "no more rows needed",
        -12_899 => "value too large for column",
        -30_006 => "resource busy; acquire with WAIT timeout expired",
        -30_625 => "method dispatch on NULL SELF argument is disallowed",
        -24_381 => "error(s) in array DML",
        number if number > 0 => return format!("-{number}: non-ORACLE exception"),
        _ => "",
    };
    format!("ORA-{:05}: {text}", number.unsigned_abs()).trim_end().trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_numbers_of_the_field() {
        let relation = "relation \"t\" does not exist";
        assert_eq!(sqlcode("42P01", relation, None, false), -942);
        for (state, text, number) in [
            ("42P01", "sequence \"s\" does not exist", -2289),
            ("42704", "index \"i\" does not exist", -1418),
            ("42704", "role \"r\" does not exist", -1918),
            ("42704", "type \"t\" does not exist", -4043),
            ("42704", "constraint \"c\" of relation \"t\" does not exist", -2443),
            ("42710", "role \"r\" already exists", -1920),
            ("42883", "could not find a procedure named \"p\"", -4043),
            ("42883", "procedure p() does not exist", -6550),
            ("42883", "function f() does not exist", -904),
            ("42P16", "multiple primary keys for table \"t\" are not allowed", -2260),
            ("XX000", "program_error", -6501),
            ("XX000", "broken", -600),
            ("55P03", "timeout_on_resource", -51),
            ("42723", "function \"f\" already exists with same argument types", -955),
        ] {
            assert_eq!(sqlcode(state, text, None, false), number, "{text}");
        }
        let own = with_number(-20_017, "no".to_owned(), None);
        assert_eq!(number_of(&own), -20_017);
        let outer = with_number(-20_018, "so".to_owned(), Some(told(&own)));
        assert_eq!((number_of(&outer), outer.message.as_str()), (-20_018, "so"));
        assert_eq!(told(&outer), "ORA-20018: so\nORA-20017: no");
        assert_eq!(sqlcode("P0001", "no", own.detail.as_deref(), true), -20_017);
        assert_eq!(sqlcode("P0001", "no", Some("ORA-00942: x"), false), 1);
        let long = "value too long for type character varying(3)";
        assert_eq!([false, true].map(|c| sqlcode("22001", long, None, c)), [-6502, -12_899]);
        assert_eq!(sqlcode("99999", "", None, true), -20_000);
    }

    #[test]
    fn an_exception_with_a_number_is_the_error_that_has_it() {
        let deadlock = declared("e", Some(-60));
        assert_eq!((deadlock.code, number_of(&deadlock)), ("40P01", -60));
        assert_eq!(told(&deadlock), "ORA-00060: deadlock detected while waiting for resource");
        let own = declared("e", Some(-20_005));
        assert_eq!((own.code, number_of(&own), told(&own)), ("P0001", -20_005, "ORA-20005: "));
        let unknown = declared("e", Some(-2000));
        assert_eq!((unknown.code, told(&unknown)), ("P0001", "ORA-02000"));
        assert_eq!(declared("e", Some(-1013)).code, "P0001");
        let plain = declared("e", None);
        assert_eq!((number_of(&plain), told(&plain)), (1, "exception \"e\""));
    }

    #[test]
    fn each_sqlstate_has_one_number() {
        for pair in NUMBERS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
        }
    }
}
