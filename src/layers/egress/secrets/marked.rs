//! Tokens that begin with a mark of their issuer.

use super::check;
use super::kind::Kind;
use super::text::{self, Is, base62, dashed, hex, is_random, run, upper, url_safe, word};

/// How a token goes on behind its mark.
pub(super) struct Marked {
    pub(super) kind: Kind,
    /// As written, case and all.
    pub(super) mark: &'static str,
    is: Is,
    least: usize,
    most: usize,
    proof: Proof,
}

/// What more must hold of what follows the mark.
#[derive(Clone, Copy)]
enum Proof {
    /// Letters and digits in no order.
    Random,
    /// A checksum; without it, as random.
    Checksum,
    /// It decodes, after so many characters that the mark has of it.
    Macaroon,
    /// Many different characters, as the mark itself is rare.
    Mark,
}

const fn fixed(kind: Kind, mark: &'static str, is: Is, length: usize) -> Marked {
    between(kind, mark, is, length, length)
}

const fn least(kind: Kind, mark: &'static str, is: Is, least: usize) -> Marked {
    between(kind, mark, is, least, 1024)
}

const fn between(kind: Kind, mark: &'static str, is: Is, least: usize, most: usize) -> Marked {
    Marked {
        kind,
        mark,
        is,
        least,
        most,
        proof: Proof::Random,
    }
}

impl Marked {
    const fn by(mut self, proof: Proof) -> Self {
        self.proof = proof;
        self
    }

    /// The token whose mark stands at `start..end`: its end.
    pub(super) fn read(&self, all: &str, start: usize, end: usize) -> Option<usize> {
        if matches!(self.proof, Proof::Checksum) {
            // What proves itself may be glued to anything.
            let body = run(all, end, self.is, self.most);
            if body.len() == self.most && check::crc(body) && !text::is_placeholder(body) {
                return Some(end + body.len());
            }
        }
        let body = run(all, end, self.is, self.most + 1);
        if !text::begins(all, start) || body.len() < self.least || body.len() > self.most {
            return None;
        }
        let holds = match self.proof {
            Proof::Random | Proof::Checksum => is_random(body),
            Proof::Macaroon => {
                let decoded = check::decoded(body);
                decoded.is_some_and(|bytes| {
                    bytes.starts_with(&[2, 1, 8]) || bytes.starts_with(&[2, 1, 13])
                })
            }
            Proof::Mark => !text::is_placeholder(body) && text::entropy(body.as_bytes()) >= 2.5,
        };
        holds.then_some(end + body.len())
    }
}

use Kind::{Aws, GitHub, GitLab, Google, Messaging, Model, Registry, Service, Slack, Stripe};

/// Issuers' own documentation is the source of each.
pub(super) const MARKED: [Marked; 67] = [
    fixed(GitHub, "ghp_", base62, 36).by(Proof::Checksum),
    fixed(GitHub, "gho_", base62, 36).by(Proof::Checksum),
    fixed(GitHub, "ghu_", base62, 36).by(Proof::Checksum),
    fixed(GitHub, "ghs_", base62, 36).by(Proof::Checksum),
    fixed(GitHub, "ghr_", base62, 36).by(Proof::Checksum),
    between(GitHub, "github_pat_", word, 70, 100),
    least(GitLab, "glpat-", url_safe, 20),
    least(GitLab, "gldt-", url_safe, 20),
    least(GitLab, "glrt-", url_safe, 20),
    least(GitLab, "glptt-", url_safe, 20),
    least(GitLab, "glsoat-", url_safe, 20),
    least(GitLab, "glcbt-", url_safe, 20),
    least(GitLab, "glagent-", url_safe, 20),
    fixed(Aws, "AKIA", upper, 16).by(Proof::Mark),
    fixed(Aws, "ASIA", upper, 16).by(Proof::Mark),
    fixed(Aws, "ABIA", upper, 16).by(Proof::Mark),
    fixed(Google, "AIza", url_safe, 35),
    least(Google, "ya29.", url_safe, 30),
    fixed(Google, "GOCSPX-", url_safe, 28).by(Proof::Mark),
    least(Slack, "xoxb-", dashed, 20),
    least(Slack, "xoxp-", dashed, 20),
    least(Slack, "xoxa-", dashed, 20),
    least(Slack, "xoxr-", dashed, 20),
    least(Slack, "xoxs-", dashed, 20),
    least(Slack, "xoxc-", dashed, 20),
    least(Slack, "xoxd-", percented, 20),
    least(Slack, "xoxe.xox", dashed, 20),
    least(Slack, "xapp-", dashed, 20),
    least(Stripe, "sk_live_", base62, 16),
    least(Stripe, "rk_live_", base62, 16),
    least(Stripe, "whsec_", percented, 24),
    least(Model, "sk-proj-", url_safe, 20),
    least(Model, "sk-svcacct-", url_safe, 20),
    least(Model, "sk-admin-", url_safe, 20),
    least(Model, "sk-ant-", url_safe, 20),
    fixed(Model, "sk-or-v1-", hex, 64),
    between(Model, "sk-", base62, 32, 64),
    fixed(Model, "hf_", base62, 34).by(Proof::Mark),
    fixed(Model, "gsk_", base62, 52),
    fixed(Model, "xai-", base62, 80),
    between(Model, "pplx-", base62, 40, 64),
    fixed(Model, "r8_", base62, 37),
    fixed(Registry, "npm_", base62, 36).by(Proof::Checksum),
    least(Registry, "pypi-", url_safe, 50).by(Proof::Macaroon),
    fixed(Registry, "rubygems_", hex, 48),
    between(Registry, "dckr_pat_", url_safe, 24, 40),
    fixed(Messaging, "SG.", dotted, 66),
    fixed(Messaging, "SK", hex, 32),
    fixed(Messaging, "key-", hex, 32),
    fixed(Service, "dop_v1_", hex, 64),
    fixed(Service, "doo_v1_", hex, 64),
    fixed(Service, "shpat_", hex, 32),
    fixed(Service, "shpss_", hex, 32),
    fixed(Service, "shpca_", hex, 32),
    fixed(Service, "shppa_", hex, 32),
    between(Service, "dapi", hex, 32, 34),
    between(Service, "glsa_", word, 38, 48),
    least(Service, "hvs.", url_safe, 24),
    least(Service, "hvb.", url_safe, 24),
    fixed(Service, "lin_api_", base62, 40),
    between(Service, "ntn_", base62, 40, 50),
    fixed(Service, "NRAK-", upper, 27),
    least(Service, "ATATT3", percented, 150),
    fixed(Service, "sbp_", hex, 40),
    least(Service, "sntrys_", percented, 40),
    between(Service, "PMAK-", dashed, 50, 64),
    least(Service, "dp.pt.", base62, 40),
];

fn dotted(b: u8) -> bool {
    url_safe(b) || b == b'.'
}

fn percented(b: u8) -> bool {
    url_safe(b) || b"%+/=".contains(&b)
}
