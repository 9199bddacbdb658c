-- +goose Up
-- What drills found, until a drill shows that it is gone.

create table finding (
    id          text        primary key, -- made of its key: the same fault has one finding
    service     text        not null,
    scenario    text        not null,
    assertion   text        not null,
    title       text        not null,
    expected    text        not null,
    seen        text        not null, -- of the newest failure
    severity    text        not null check (severity in ('low', 'medium', 'high', 'critical')),
    owner       text        not null,
    state       text        not null check (state in ('open', 'claimed_fixed', 'verifying', 'verified', 'reopened', 'accepted_risk')),
    due_at      timestamptz not null,
    opened_at   timestamptz not null,
    closed_at   timestamptz,
    reopened    int         not null default 0,
    text        text        not null, -- the scenario that found it, at its intensity
    hash        text        not null,
    config      text        not null, -- what gateways served when it was found
    run         text        not null, -- that found it
    last_run    text        not null, -- that looked at it last
    seen_from   timestamptz,
    seen_until  timestamptz,
    claimed_by  text        not null default '',
    claimed_at  timestamptz,
    risk_by     text        not null default '',
    risk_until  timestamptz,
    escalated_at timestamptz,
    unique (service, scenario, assertion),
    check ((closed_at is not null) = (state in ('verified')))
);

create index finding_open on finding (service) where state <> 'verified';

create table finding_event (
    id      bigint generated always as identity primary key,
    finding text        not null references finding (id),
    at      timestamptz not null,
    actor   text        not null,
    kind    text        not null,
    run     text        not null default '',
    text    text        not null
);

create index finding_event_of on finding_event (finding, id);

-- What people answer for a service where nothing here can know. Kept whole, the
-- newest rules.
create table readiness_answer (
    id       bigint generated always as identity primary key,
    service  text        not null,
    item     text        not null,
    yes      boolean     not null,
    evidence text        not null,
    actor    text        not null,
    at       timestamptz not null
);

create index readiness_answer_of on readiness_answer (service, item, id desc);
