//! Countries whose national phone numbers can be read: calling code and trunk prefix (ITU-T E.164, E.129 and its operational
//! bulletin on dialling procedures).
//!
//! A table and no library: numbers are compared with a list digit by digit, so all that is needed is where the national
//! number starts. Which ranges are in service changes monthly and decides nothing here.

use std::fmt;

/// A country, by its ISO 3166 code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Region(&'static Row);

struct Row {
    codes: &'static str,
    calling: &'static str,
    trunk: Trunk,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Row {}

/// What stands before a national number that is dialled within the country.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trunk {
    /// Nothing: a leading zero belongs to the number.
    None,
    /// Always this.
    Always(&'static str),
    /// This, where people do not leave it out.
    Often(&'static str),
}

use Trunk::{Always, None as Without, Often};

/// Countries with one calling code and one trunk prefix stand together only where they share a numbering plan.
const ROWS: &[Row] = &[
    row(
        "US CA AG AI AS BB BM BS DM DO GD GU JM KN KY LC MP MS PR SX TC TT VC VG VI",
        "1",
        Often("1"),
    ),
    row("RU KZ", "7", Often("8")),
    row("EG", "20", Always("0")),
    row("ZA", "27", Always("0")),
    row("GR", "30", Without),
    row("NL", "31", Always("0")),
    row("BE", "32", Always("0")),
    row("FR", "33", Always("0")),
    row("ES", "34", Without),
    row("HU", "36", Always("06")),
    row("IT VA", "39", Without),
    row("RO", "40", Always("0")),
    row("CH", "41", Always("0")),
    row("AT", "43", Always("0")),
    row("GB GG JE IM", "44", Always("0")),
    row("DK", "45", Without),
    row("SE", "46", Always("0")),
    row("NO SJ", "47", Without),
    row("PL", "48", Without),
    row("DE", "49", Always("0")),
    row("PE", "51", Often("0")),
    row("MX", "52", Without),
    row("CU", "53", Always("0")),
    row("AR", "54", Often("0")),
    row("BR", "55", Often("0")),
    row("CL", "56", Without),
    row("CO", "57", Often("0")),
    row("VE", "58", Always("0")),
    row("MY", "60", Always("0")),
    row("AU CX CC", "61", Always("0")),
    row("ID", "62", Always("0")),
    row("PH", "63", Always("0")),
    row("NZ", "64", Always("0")),
    row("SG", "65", Without),
    row("TH", "66", Always("0")),
    row("JP", "81", Always("0")),
    row("KR", "82", Always("0")),
    row("VN", "84", Always("0")),
    row("CN", "86", Often("0")),
    row("TR", "90", Often("0")),
    row("IN", "91", Often("0")),
    row("PK", "92", Always("0")),
    row("AF", "93", Always("0")),
    row("LK", "94", Always("0")),
    row("MM", "95", Always("0")),
    row("IR", "98", Always("0")),
    row("SS", "211", Always("0")),
    row("MA EH", "212", Always("0")),
    row("DZ", "213", Always("0")),
    row("TN", "216", Without),
    row("LY", "218", Always("0")),
    row("GM", "220", Without),
    row("SN", "221", Without),
    row("ML", "223", Without),
    row("CI", "225", Without),
    row("BF", "226", Without),
    row("NE", "227", Without),
    row("TG", "228", Without),
    row("BJ", "229", Without),
    row("MU", "230", Without),
    row("LR", "231", Often("0")),
    row("SL", "232", Always("0")),
    row("GH", "233", Always("0")),
    row("NG", "234", Always("0")),
    row("CM", "237", Without),
    row("CV", "238", Without),
    row("AO", "244", Without),
    row("SC", "248", Without),
    row("SD", "249", Always("0")),
    row("RW", "250", Often("0")),
    row("ET", "251", Always("0")),
    row("KE", "254", Always("0")),
    row("TZ", "255", Always("0")),
    row("UG", "256", Always("0")),
    row("MZ", "258", Without),
    row("ZM", "260", Always("0")),
    row("MG", "261", Always("0")),
    row("RE YT", "262", Always("0")),
    row("ZW", "263", Always("0")),
    row("NA", "264", Always("0")),
    row("BW", "267", Without),
    row("GI", "350", Without),
    row("PT", "351", Without),
    row("LU", "352", Without),
    row("IE", "353", Always("0")),
    row("IS", "354", Without),
    row("AL", "355", Always("0")),
    row("MT", "356", Without),
    row("CY", "357", Without),
    row("FI AX", "358", Always("0")),
    row("BG", "359", Always("0")),
    row("LT", "370", Often("0")),
    row("LV", "371", Without),
    row("EE", "372", Without),
    row("MD", "373", Always("0")),
    row("AM", "374", Always("0")),
    row("BY", "375", Often("8")),
    row("AD", "376", Without),
    row("MC", "377", Without),
    row("SM", "378", Without),
    row("UA", "380", Always("0")),
    row("RS", "381", Always("0")),
    row("ME", "382", Always("0")),
    row("XK", "383", Always("0")),
    row("HR", "385", Always("0")),
    row("SI", "386", Always("0")),
    row("BA", "387", Always("0")),
    row("MK", "389", Always("0")),
    row("CZ", "420", Without),
    row("SK", "421", Always("0")),
    row("LI", "423", Without),
    row("BZ", "501", Without),
    row("GT", "502", Without),
    row("SV", "503", Without),
    row("HN", "504", Without),
    row("NI", "505", Without),
    row("CR", "506", Without),
    row("PA", "507", Without),
    row("HT", "509", Without),
    row("GP BL MF", "590", Always("0")),
    row("BO", "591", Often("0")),
    row("GY", "592", Without),
    row("EC", "593", Always("0")),
    row("GF", "594", Always("0")),
    row("PY", "595", Often("0")),
    row("MQ", "596", Always("0")),
    row("UY", "598", Often("0")),
    row("FJ", "679", Without),
    row("HK", "852", Without),
    row("MO", "853", Without),
    row("KH", "855", Always("0")),
    row("LA", "856", Always("0")),
    row("BD", "880", Always("0")),
    row("TW", "886", Always("0")),
    row("MV", "960", Without),
    row("LB", "961", Always("0")),
    row("JO", "962", Always("0")),
    row("SY", "963", Always("0")),
    row("IQ", "964", Always("0")),
    row("KW", "965", Without),
    row("SA", "966", Always("0")),
    row("YE", "967", Always("0")),
    row("OM", "968", Without),
    row("PS", "970", Always("0")),
    row("AE", "971", Always("0")),
    row("IL", "972", Always("0")),
    row("BH", "973", Without),
    row("QA", "974", Without),
    row("BT", "975", Without),
    row("MN", "976", Often("0")),
    row("NP", "977", Often("0")),
    row("TM", "993", Often("8")),
    row("AZ", "994", Always("0")),
    row("GE", "995", Often("0")),
    row("KG", "996", Always("0")),
    row("UZ", "998", Without),
];

const fn row(codes: &'static str, calling: &'static str, trunk: Trunk) -> Row {
    Row {
        codes,
        calling,
        trunk,
    }
}

impl Region {
    /// The country of that ISO 3166 code, upper case, if its national numbers can be read.
    pub fn named(code: &str) -> Option<Self> {
        let is = |row: &&Row| code.len() == 2 && row.codes.split(' ').any(|known| known == code);
        ROWS.iter().find(is).map(Self)
    }

    /// Every code that [`Region::named`] knows.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        ROWS.iter().flat_map(|row| row.codes.split(' '))
    }

    /// `digits`, as dialled within the country, behind the country's calling code.
    pub(super) fn international(self, digits: &str) -> Option<String> {
        let national = match self.0.trunk {
            Trunk::None => digits,
            Trunk::Always(trunk) => digits.strip_prefix(trunk)?,
            Trunk::Often(trunk) => digits.strip_prefix(trunk).unwrap_or(digits),
        };
        Some(format!("{}{national}", self.0.calling))
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}", self.0.calling)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_country_stands_once_and_every_calling_code_is_one() {
        let mut seen = HashSet::new();
        for code in Region::codes() {
            assert!(seen.insert(code), "{code}");
            assert!(Region::named(code).is_some());
            assert!(Region::named(&code.to_lowercase()).is_none());
        }
        for row in ROWS {
            assert!((1..=3).contains(&row.calling.len()));
            assert!(row.calling.bytes().all(|b| b.is_ascii_digit()));
            // No calling code is the beginning of another (E.164 section 6).
            let others = ROWS.iter().filter(|other| other.calling != row.calling);
            for other in others {
                assert!(!other.calling.starts_with(row.calling), "{}", row.calling);
            }
        }
        assert!(Region::named("US CA").is_none());
        assert!(Region::named("").is_none());
    }
}
