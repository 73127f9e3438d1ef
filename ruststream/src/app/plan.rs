//! From a builder to mount points: choose, configure, bind, check. Nothing is connected.

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;

use super::App;
use crate::broker;
use crate::broker::Broker;
use crate::config::Origin;
use crate::config::apply::Apply;
use crate::config::apply::Settings;
use crate::config::layer;
use crate::config::nearest::cure;
use crate::describe::Description;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Problem;
use crate::mount::Mount;
use crate::mount::bind::Bound;
use crate::mount::bind::bind;
use crate::mount::bind::is_mqtt;
use crate::mount::check::Findings;
use crate::mount::check::check;
use crate::mount::check::grammar;
use crate::mount::draft::DEFAULT_BROKER;
use crate::mount::draft::Draft;

/// How long a stop may take unless something says otherwise (spec C7).
const DRAIN: Duration = Duration::from_secs(25);

/// A checked application, ready to connect.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) app: ByteString,
    pub(crate) mounts: Vec<Bound>,
    pub(crate) brokers: Vec<(String, Arc<dyn Broker>)>,
    pub(crate) drain: (Duration, Origin),
    pub(crate) warnings: Vec<Problem>,
}

/// A handler that is to run: its mount point in the making, and what the program says over it.
struct Candidate {
    draft: Draft,
    over: Option<Mount>,
}

impl App {
    /// Everything that can be known before connecting.
    pub(super) fn plan(&self) -> Result<Plan, Error> {
        let mut findings = Findings::default();
        if let Err(rule) = crate::check::name("name", &self.name) {
            let what = format!("of the application: {rule}");
            findings.problems.push(Problem::new(what));
        }
        let candidates = self.candidates(&mut findings);
        let (drafts, settings) = self.configured(candidates, &mut findings);
        let brokers = self.all_brokers(&settings, &drafts, &mut findings);
        let drain = match (self.drain, settings.drain) {
            (Some(drain), _) => (drain, Origin::Builder),
            (None, Some(configured)) => configured,
            (None, None) => (DRAIN, Origin::Default),
        };
        let mounts = self.bound(drafts, &brokers, &mut findings);
        check(&mounts, &self.state, drain.0, &mut findings);
        if !findings.problems.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, findings.problems));
        }
        Ok(Plan {
            app: self.name.clone(),
            mounts,
            brokers,
            drain,
            warnings: findings.warnings,
        })
    }

    /// The handlers that are to run.
    fn candidates(&self, findings: &mut Findings) -> Vec<Candidate> {
        let candidates = if self.chosen.is_empty() {
            self.discovered(findings)
        } else {
            self.chosen(findings)
        };
        for (index, one) in candidates.iter().enumerate() {
            let earlier = candidates.iter().take(index);
            for other in earlier.filter(|other| other.draft.name == one.draft.name) {
                let (here, there) = (one.draft.place(), other.draft.place());
                findings.problems.push(
                    Problem::new(format!("it has the same name as {there}"))
                        .cure("give one of them a `name`: it marks retries and durable subscriptions, so it must be its own")
                        .at(here),
                );
            }
        }
        candidates
    }

    fn discovered(&self, findings: &mut Findings) -> Vec<Candidate> {
        if self.registry.is_empty() {
            findings.problems.push(
                Problem::new("no handler is linked into this program").cure(
                    "declare one with `#[subscriber]`; if it stands in another crate, this one must name that \
                     crate, as in `use handlers as _;`, or the linker leaves it out",
                ),
            );
            return Vec::new();
        }
        let groups: Vec<&str> = self
            .registry
            .iter()
            .filter_map(|handler| handler.options.group)
            .collect();
        for group in &self.groups {
            if !groups.contains(&group.as_str()) {
                findings.problems.push(
                    Problem::new(format!("no handler is of the group `{group}`"))
                        .cure(cure(group, groups.iter().copied())),
                );
            }
        }
        let wanted = |group: Option<&str>| {
            self.groups.is_empty()
                || group.is_some_and(|group| self.groups.iter().any(|wanted| wanted == group))
        };
        self.registry
            .iter()
            .filter(|handler| wanted(handler.options.group))
            .map(|handler| Candidate {
                draft: Draft::new(ByteString::from_static(handler.name), handler),
                over: None,
            })
            .collect()
    }

    fn chosen(&self, findings: &mut Findings) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for chosen in &self.chosen {
            let Some(handler) = self.registry.by_type(chosen.function.id) else {
                findings.problems.push(
                    Problem::new(format!("`{}` is not a handler", chosen.function.path)).cure(
                        "put `#[subscriber(…)]` on it, and name the function itself: a closure or a function pointer has another type",
                    ),
                );
                continue;
            };
            let name = chosen.mount.name.clone();
            candidates.push(Candidate {
                draft: Draft::new(
                    name.unwrap_or_else(|| ByteString::from_static(handler.name)),
                    handler,
                ),
                over: Some(chosen.mount.clone()),
            });
        }
        candidates.sort_by_key(|candidate| {
            let handler = candidate.draft.registration;
            (
                handler.options.broker,
                handler.address,
                candidate.draft.name.clone(),
            )
        });
        candidates
    }

    /// Put file, environment, builder and prefix over the attributes.
    fn configured(
        &self,
        candidates: Vec<Candidate>,
        findings: &mut Findings,
    ) -> (Vec<Draft>, Settings) {
        let (mut drafts, overs): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .map(|candidate| (candidate.draft, candidate.over))
            .unzip();
        let mut others: Vec<Draft> = self
            .registry
            .iter()
            .map(|handler| Draft::new(ByteString::from_static(handler.name), handler))
            .filter(|other| drafts.iter().all(|draft| draft.name != other.name))
            .collect();
        let mut known: Vec<String> = self.brokers.iter().map(|(name, _)| name.clone()).collect();
        known.extend(drafts.iter().map(|draft| draft.broker().to_owned()));
        let layers = layer::read(&self.config, &mut findings.problems);
        let mut apply = Apply {
            drafts: &mut drafts,
            others: &mut others,
            brokers: &known,
            settings: Settings::default(),
            problems: &mut findings.problems,
        };
        for layer in &layers {
            apply.layer(layer);
        }
        let settings = apply.settings;
        for (draft, over) in drafts.iter_mut().zip(overs) {
            if let Some(over) = over {
                draft.lay(&over.overlay, &Origin::Builder);
            }
            let own = settings
                .brokers
                .get(draft.broker())
                .and_then(|broker| broker.prefix.as_ref());
            if let Some((prefix, origin)) = own.or(settings.prefix.as_ref()) {
                draft.prefix(prefix, origin);
            }
        }
        (drafts, settings)
    }

    /// The program's brokers, and those that only the configuration names.
    fn all_brokers(
        &self,
        settings: &Settings,
        drafts: &[Draft],
        findings: &mut Findings,
    ) -> Vec<(String, Arc<dyn Broker>)> {
        let mut brokers: Vec<(String, Arc<dyn Broker>)> = Vec::new();
        for (name, broker) in &self.brokers {
            if brokers.iter().any(|(known, _)| known == name) {
                findings.problems.push(
                    Problem::new(format!("two brokers are called `{name}`"))
                        .cure("give one of them another name with `App::named_broker`"),
                );
            } else {
                brokers.push((name.clone(), Arc::clone(broker)));
            }
        }
        for (name, configured) in &settings.brokers {
            let used = drafts.iter().any(|draft| draft.broker() == name);
            if !used && !brokers.iter().any(|(known, _)| known == name) {
                let names = drafts.iter().map(Draft::broker);
                let origin = configured.url.as_ref().or(configured.prefix.as_ref());
                let mut warning = Problem::new(format!("no handler uses the broker `{name}`"))
                    .cure(cure(name, names));
                if let Some((_, origin)) = origin {
                    warning = warning.from(origin);
                }
                findings.warnings.push(warning);
            }
            let Some((url, origin)) = &configured.url else {
                continue;
            };
            if brokers.iter().any(|(known, _)| known == name) {
                findings.warnings.push(
                    Problem::new(format!(
                        "this URL is not used: the program sets the broker `{name}` itself"
                    ))
                    .cure("leave the broker out of the program to have it configured")
                    .from(origin),
                );
                continue;
            }
            match broker::from_url(url) {
                Ok(broker) => brokers.push((name.clone(), broker)),
                Err(error) => findings
                    .problems
                    .push(Problem::new(error.reason).from(origin)),
            }
        }
        brokers
    }

    /// Bind what is enabled to its brokers.
    fn bound(
        &self,
        drafts: Vec<Draft>,
        brokers: &[(String, Arc<dyn Broker>)],
        findings: &mut Findings,
    ) -> Vec<Bound> {
        let all = drafts.len();
        let enabled: Vec<Draft> = drafts.into_iter().filter(Draft::is_enabled).collect();
        if enabled.is_empty() && all > 0 {
            findings.problems.push(
                Problem::new(format!("all {all} handlers are disabled"))
                    .cure("set `enabled = true` for one of them"),
            );
        }
        let mut mounts = Vec::new();
        for draft in enabled {
            let name = draft.broker();
            let Some((_, broker)) = brokers.iter().find(|(known, _)| known == name) else {
                findings.problems.push(no_broker(&draft, brokers));
                continue;
            };
            match bind(&self.name, draft.clone(), broker) {
                Ok(mount) => mounts.push(mount),
                Err(problem) => {
                    // What is wrong by our own rules says more than a broker's refusal of it.
                    let known = findings.problems.len();
                    let options = &draft.values.options;
                    let is_mqtt = is_mqtt(broker.system(), draft.registration.form, options);
                    grammar::check(&draft, &draft.values, is_mqtt, findings);
                    if findings.problems.len() == known {
                        findings.problems.push(problem);
                    }
                }
            }
        }
        mounts
    }
}

fn no_broker(draft: &Draft, brokers: &[(String, Arc<dyn Broker>)]) -> Problem {
    let name = draft.broker();
    if name == DEFAULT_BROKER {
        return Problem::new("the application has no default broker")
            .cure("give it one with `App::broker`, as in `.broker(ruststream::broker::from_env()?)`, or configure `brokers.default.url`")
            .at(draft.place());
    }
    let known = brokers.iter().map(|(name, _)| name.as_str());
    let meant = cure(name, known);
    Problem::new(format!("there is no broker `{name}`"))
        .cure(format!(
            "add it with `App::named_broker` or configure `brokers.{name}.url` ({meant})"
        ))
        .at(draft.place())
        .from(draft.origin("broker"))
}

impl Plan {
    /// What will run, for people.
    pub(super) fn describe(&self) -> Description {
        Description::of(
            &self.app,
            &self.mounts,
            &self.brokers,
            &self.drain,
            &self.warnings,
        )
    }
}
