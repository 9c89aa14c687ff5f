use super::number_template::Picture;
use super::*;

fn timestamp(text: &str, template: &str) -> String {
    let us = crate::datetime::parse_timestamp(text, 0).unwrap();
    instants::of_timestamp(us, None, template).unwrap()
}

#[test]
fn common_patterns() {
    for (template, want) in [
        ("YYYY-MM-DD HH24:MI:SS", "2024-02-29 15:04:05"),
        ("HH12:MI am, Dy DD Mon YYYY", "03:04 pm, Thu 29 Feb 2024"),
        ("FMMonth FMDDth, YY", "February 29th, 24"),
        ("MS US DDD Q D", "123 123456 060 1 5"),
        ("\"on\" DAY|", "on THURSDAY |"),
        ("IYYY-IW-ID J", "2024-09-4 2460370"),
    ] {
        assert_eq!(timestamp("2024-02-29 15:04:05.123456", template), want);
    }
}

#[test]
fn numbers_keep_their_places() {
    for (value, template, want) in [
        ((1_234_567, 2), "99,999.99", " 12,345.67"),
        ((-1, 1), "99.99", "  -.10"),
        ((148_500, 2), "FM9G999D0", "1,485.0"),
        ((485, 0), "RN", "        CDLXXXV"),
        ((-12, 0), "S999", " -12"),
        ((12_345_678, 2), "9.99EEEE", " 1.23e+05"),
    ] {
        assert_eq!(numbers::of_numeric(value, template).unwrap(), want);
    }
    assert_eq!(Picture::parse("9.9.9").unwrap_err().code, "42601");
}

#[test]
fn what_is_written_is_read() {
    for template in ["YYYY-MM-DD HH24:MI:SS.US", "J SSSS US", "IYYY IDDD HH12:MI:SS AM US"] {
        let us = crate::datetime::parse_timestamp("2024-02-29 15:04:05.123456", 0).unwrap();
        let written = instants::of_timestamp(us, None, template).unwrap();
        assert_eq!(reading::read(&written, template).unwrap().local_us, us, "{written}");
    }
}
