// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which format a request asks for.

use crate::exposition::Exposition;

/// The format by the query and the `Accept` header of a request: what `format=classic` or `format=protobuf` in the query says, otherwise the
/// format that the header prefers. Text where it names neither.
pub fn negotiate(query: Option<&str>, accept: Option<&str>) -> Exposition {
    let asked = query.into_iter().flat_map(|query| query.split('&')).find_map(|one| match one {
        "format=classic" | "format=text" => Some(Exposition::Text),
        "format=protobuf" => Some(Exposition::Protobuf),
        _ => None,
    });
    asked.unwrap_or_else(|| preferred(accept.unwrap_or_default()))
}

fn preferred(accept: &str) -> Exposition {
    let (mut protobuf, mut text) = (0.0f64, 0.0f64);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(String, &str)> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
            .collect();
        let of = |name: &str| parameters.iter().find(|(one, _)| one == name).map(|(_, value)| *value);
        let quality =
            of("q").map_or(Some(1.0), |q| q.parse::<f64>().ok()).filter(|q| (0.0..=1.0).contains(q));
        let quality = quality.unwrap_or(0.0);
        match kind.as_str() {
            "application/vnd.google.protobuf"
                if of("proto") == Some("io.prometheus.client.MetricFamily")
                    && of("encoding") == Some("delimited") =>
            {
                protobuf = protobuf.max(quality);
            }
            "text/plain" if of("version").is_none_or(|version| version == "0.0.4") => {
                text = text.max(quality)
            }
            "text/*" | "*/*" => text = text.max(quality),
            _ => {}
        }
    }
    if protobuf > 0.0 && protobuf >= text { Exposition::Protobuf } else { Exposition::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOBUF: &str =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    #[test]
    fn the_header_of_a_prometheus_decides_by_its_qualities() {
        let rest =
            "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of = |accept: &str| negotiate(None, Some(accept));
        assert_eq!(of(&format!("{PROTOBUF},{rest}")), Exposition::Protobuf);
        assert_eq!(of(&format!("{PROTOBUF};q=0.2,{rest}")), Exposition::Text);
        assert_eq!(of(rest), Exposition::Text);
        assert_eq!(of("*/*"), Exposition::Text);
        // Other protobuf messages, and a quality that is no number, are not what is offered.
        assert_eq!(of("application/vnd.google.protobuf;proto=other;encoding=delimited"), Exposition::Text);
        assert_eq!(of(&format!("{PROTOBUF};q=NaN")), Exposition::Text);
        assert_eq!(of(&format!("{PROTOBUF};q=0")), Exposition::Text);
        assert_eq!(negotiate(None, None), Exposition::Text);
    }

    #[test]
    fn the_query_goes_before_the_header() {
        assert_eq!(negotiate(Some("a=b&format=classic"), Some(PROTOBUF)), Exposition::Text);
        assert_eq!(negotiate(Some("format=protobuf"), Some("text/plain")), Exposition::Protobuf);
        assert_eq!(negotiate(Some("format=other"), Some(PROTOBUF)), Exposition::Protobuf);
    }
}
