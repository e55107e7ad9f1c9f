//! How often words of the rules are met in ordinary texts: which word of a pattern is looked for first is chosen by it.
//!
//! Counted over mail, listings in JSON, manuals, changelogs and program text, in a million words. It decides how fast a text is
//! read, and nothing about what is found.

use std::collections::HashMap;

use super::dictionary::{Class, Entries};
use super::marks::mark;

/// Entries by how often they are met, roughly.
const COUNTED: &[(u32, &str)] = &[
    (16000, "a, and, the, to"),
    (8000, "for, in, is, of"),
    (
        4000,
        "as, be, id, if, not, on, or, read, received, sende*, subject, this, with, you, your",
    ),
    (
        2000,
        "add, all, an, any, are, at, by, can, each, email, file, from, has, hi, i, it, let, new, please, that, true, \
        use, user, ver*, will",
    ),
    (
        1000,
        "agent, agent*, cannot, change, content, context, data, details, document, feature, free, get, have, help, into, \
        link, me, must, my, no, objective, only, order, request, result, return, set, should, the user, update, we, \
        where, will be, work, write, you can",
    ),
    (
        500,
        "about, after, also, api, as a, before, book, call, can be, cancel, cancelled, create, current, debug, do, \
        download, else, end, features, files, find, first, following, function, has been, image, information, input, \
        instead, its, just, list, mail, main, make, model, model*, need, next, notice, ok, output, owner, password, \
        payment, provide, push, quote, refund, remove, review, run, session, ssh key, start, system*, text, \
        the following, their, these, token, tokens, using, was, when, without, you should",
    ),
    (
        250,
        "above, access, action, additional, address, already, always, as the, ask, buy, changed, click, client, clone, \
        collect, confirmation, confirmed, copy, customer, dear, discuss, display, do not, enable, enabled, encoding, \
        every, execute, execute*, filter, forward, give, given, hello, his, human, ignore, im, include, initial, it is, \
        know, knowledge, latest, launch, log, make sure, memory, message, modify, need to, needs to, non, note, now, \
        null, open, original, over, part, pay, permissions, policy, pre, print, private, process, reasons, register, \
        regul*, report, require, required, results, role, root, rules, search, security, send, shall, share, should be, \
        should not, solving, star, state, summary, sys, system, taken, task, then, they, through, times, tool, \
        tool call, tools, training, transfer, updated, url, users, via, want, were, while, you are, you need",
    ),
    (
        125,
        "after that, append, approval, as an, assist, between, bound, cancella*, chat, command, company, complete, \
        configuration, continue, critical, documents, dollars, dont, drop, encode, entering, exactly, follow, \
        follow up, for you, functions, further, generate, go, goals, handle, handling, header, inform, insert, install, \
        instead of, instruction, invalid, is to, issue, learn, limited, lock, may be, mode, move, must be, needed, \
        notes, old, once, once*, outputs, parameters, parsing, per, permission, post, proceed, purchase, purpose, put, \
        questions, render, replace, requests, reset, respond, response, resume, rights, safety, schedule, section, sep, \
        sessions, shall be, special, systems, testing, the above, upload, visit, wanted, wants, website, what, \
        you have, you must, you need to, you were",
    ),
    (
        62,
        "100 times, ai, any other, anything, arguments, asks, assistant, assume, attention, avoid, calls, capabilities, \
        clear, close, commit, completed, confirm, contact, contain, contents, credential, dev, disable, done, encoded, \
        enter, everything, existing, export, fill, finalize, finish, functionality, gather, goal, grant, granted, \
        hidden, hint, history, important, important*, in order to, inst, instructions, keep, load, merge, messages, \
        models, necessary, never, normal, official, operator, overrid*, page, parameter, perform, place, previous, \
        prior, processes, processing, produce, query, rather than, reading, real, regardless of, reminder, requested, \
        running, save, say*, secret, show, sign, skip, solve, steps, store, tasks, that you, this link, to do, ty, \
        untrusted, verified, void, warn, warning, you could, you may, your user, youre",
    ),
    (
        31,
        "a summary, abort, action items, active, actual, additionally, agents, alignment, answer, approve, approved, \
        are now, attempt, audit, awareness, begin, beginning, checks, closed, come, compliance, debugging, doing, \
        earlier, environment variables, eom, experimental, expose, external, fetch, former, funds, guidelines, hand, \
        handles, have to, if you are, if youre, ignored, immediately, in addition, in case, inputs, inte, interactions, \
        invite, limitations, limits, maintenance, make sure to, management, measures, mention, money, must not, ne, \
        objectives, okay, older, operating, override, para, paste, pending, placeholder, previously, primary, priority, \
        proceed with, programming, protocols, publish, reader, reads, recommend, refer to, remember, rename, repeat, \
        replaced, reporting, requiring, reserve, resolved, revised, rule, say, security code, seek, simply, so far, \
        started, step, stop, submit, substitute, tell, the final, the task, to solve, to you, todo, tool calls, turn, \
        urgent, urgent*, verification, verify, wait, waiting, wont, you will, youll, youve",
    ),
];

/// Small words of other languages, which their texts are full of.
const FUNCTION: &str = "de, la, le, en, y, e, o, un, die, der, das, und, van, el, los, in, w, z, na, i, si, se, ver, es, im, als, \
    wenn, nicht, sie, du, ihre, deine, alle, nie, sin, su, te, ta, tu, je, je, nu, per, por, para, pour, mit, von, sans, pas, ne, non, \
    mai, no, do, для, на, по, не, в, все, ты, вы, bez, niet, kein, ohne, vous, que, dass, à, às, uma, une, einen, als, om, sen, siz";

/// How often such a word is met, and any letter that is a word by itself where there are no spaces.
const SMALL: u32 = 4_000;

/// How often what was not met is taken to be met.
const UNMET: u32 = 2;

/// Frequencies of classes.
pub(super) struct Frequencies {
    counted: HashMap<&'static str, u32>,
}

impl Frequencies {
    pub(super) fn new() -> Self {
        let small = FUNCTION.split(", ").map(|word| (word, SMALL));
        let rows = COUNTED
            .iter()
            .flat_map(|(count, words)| words.split(", ").map(move |word| (word, *count)));
        Self {
            counted: small.chain(rows).collect(),
        }
    }

    /// The share of words that are of a class and have such punctuation; `None` where the dictionary alone cannot tell.
    pub(super) fn of(&self, entries: &Entries, class: Class, marks: u16) -> Option<f64> {
        let mut sum = 0;
        for entry in entries.of(class) {
            if entry.starts_with('\0') {
                return None;
            }
            let letters = entry.chars().count();
            let spaceless = letters == 1 && !entry.is_ascii();
            let known = self.counted.get(entry).copied();
            sum += known.unwrap_or(if spaceless { SMALL } else { UNMET });
        }
        let share: f64 = MARKED
            .iter()
            .filter(|(mark, _)| marks & mark != 0)
            .map(|(_, share)| *share)
            .fold(1.0, f64::min);
        Some((f64::from(sum) / 1e6).min(1.0) * share)
    }
}

/// Shares of words that have such punctuation.
const MARKED: &[(u16, f64)] = &[
    (mark::OPEN | mark::SLASH | mark::ANGLE | mark::PIPE, 0.02),
    (mark::UNDER | mark::COLON | mark::CLOSE, 0.06),
    (mark::HEAD | mark::TAIL, 0.2),
    (mark::START | mark::PAUSE, 0.3),
];
