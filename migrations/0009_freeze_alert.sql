-- +goose Up
-- Freezes by hand, overrides, what signs decisions; incidents and how people
-- were told of them.

-- The seed of the key that signs decisions. One row, made when it is first needed.
create table signing_key (
    one        boolean     primary key default true check (one),
    seed       bytea       not null check (length(seed) = 32),
    created_at timestamptz not null
);

create table freeze_order (
    id       text        primary key,
    service  text        not null,
    env      text        not null, -- '' for all
    reason   text        not null,
    ticket   text        not null,
    by_whom  text        not null,
    at       timestamptz not null,
    until_at timestamptz, -- null: until it is taken back
    ended_by text        not null default '',
    ended_at timestamptz
);

create index freeze_order_live on freeze_order (service) where ended_at is null;

create table freeze_override (
    id         text        primary key,
    service    text        not null,
    env        text        not null, -- '' for all
    ref        text        not null,
    reason     text        not null,
    ticket     text        not null,
    asked_by   text        not null,
    asked_at   timestamptz not null,
    expires_at timestamptz not null check (expires_at > asked_at and expires_at <= asked_at + interval '24 hours'),
    max_uses   bigint      not null check (max_uses > 0),
    used       bigint      not null default 0 check (used >= 0 and used <= max_uses),
    granted_by text        not null default '' check (granted_by <> asked_by), -- never one's own, whatever the program thinks
    granted_at timestamptz,
    revoked_by text        not null default '',
    revoked_at timestamptz,
    closed_at  timestamptz, -- its end is in the audit
    asked_on   jsonb,
    granted_on jsonb,
    check ((granted_by = '') = (granted_at is null)),
    check (used = 0 or granted_at is not null)
);

create index freeze_override_service on freeze_override (service, asked_at);
create index freeze_override_open on freeze_override (expires_at) where closed_at is null;

create table freeze_override_use (
    override text        not null references freeze_override (id),
    decision text        not null,
    once     text        not null, -- names the change; '' where each question is one
    at       timestamptz not null,
    primary key (override, decision)
);

create unique index freeze_override_use_once on freeze_override_use (override, once) where once <> '';

create table alert_incident (
    id         text        primary key,
    service    text        not null,
    env        text        not null,
    class      text        not null check (class in ('errors', 'budget', 'silence', 'cause')),
    tier       text        not null check (tier in ('L1', 'L2')),
    severity   text        not null,
    title      text        not null,
    opened_at  timestamptz not null,
    closed_at  timestamptz,
    body       jsonb       not null -- alert.Incident
) with (fillfactor = 50); -- an open one is rewritten every second

create unique index alert_incident_open on alert_incident (service, env, class) where closed_at is null;
create index alert_incident_at on alert_incident (opened_at desc, id);

create table alert_silence (
    id       text        primary key,
    service  text        not null,
    env      text        not null,
    class    text        not null,
    severity text        not null,
    from_at  timestamptz not null,
    until_at timestamptz not null check (until_at > from_at),
    by_whom  text        not null,
    reason   text        not null,
    ended_by text        not null default '',
    ended_at timestamptz
);

create index alert_silence_until on alert_silence (until_at) where ended_at is null;

-- Facts that others told: L2 of what goes on, until a stated time.
create table alert_fact (
    service  text        not null,
    env      text        not null,
    key      text        not null,
    text     text        not null,
    by_whom  text        not null,
    at       timestamptz not null,
    until_at timestamptz not null,
    primary key (service, env, key)
);

-- L3: written down, never sent.
create table alert_note (
    id       bigint      generated always as identity primary key,
    service  text        not null,
    env      text        not null,
    key      text        not null,
    text     text        not null,
    first_at timestamptz not null,
    last_at  timestamptz not null,
    count    bigint      not null
);

create index alert_note_key on alert_note (service, env, key, last_at desc);
create index alert_note_at on alert_note (last_at desc);

-- What is to be sent. The rows of one incident to one receiver go in their order.
create table alert_outbox (
    id         bigint      generated always as identity primary key,
    message    text        not null, -- its id, by which receivers may tell a repetition
    incident   text        not null,
    receiver   text        not null, -- route/receiver
    kind       text        not null,
    body       jsonb       not null, -- alert.Message
    created_at timestamptz not null,
    due_at     timestamptz not null,
    attempts   bigint      not null default 0,
    lease      timestamptz, -- somebody is at it until then
    done_at    timestamptz,
    outcome    text        not null default '' check (outcome in ('', 'sent', 'gave_up', 'superseded')),
    error      text        not null default ''
);

create index alert_outbox_due on alert_outbox (due_at) where done_at is null;
create index alert_outbox_order on alert_outbox (incident, receiver, id) where done_at is null;
create index alert_outbox_done on alert_outbox (done_at);

-- Every attempt, and every reason there was none.
create table alert_why (
    id       bigint      generated always as identity primary key,
    incident text        not null,
    at       timestamptz not null,
    kind     text        not null,
    receiver text        not null,
    outcome  text        not null,
    text     text        not null,
    took_ms  bigint      not null default 0
);

create index alert_why_incident on alert_why (incident, id);
create index alert_why_at on alert_why (at);

-- Messages of others that were taken, with what they were answered.
create table webhook_seen (
    source text        not null,
    id     text        not null,
    at     timestamptz not null,
    status bigint,     -- null: being answered
    type   text        not null default '',
    body   bytea       not null default '',
    primary key (source, id)
);

create index webhook_seen_at on webhook_seen (at);

-- What an address of an upstream is called, by the configuration that was served:
-- failures gather in racks and instances, while minutes know addresses.
create table endpoint_label (
    env      text        not null,
    address  text        not null,
    upstream text        not null,
    instance text        not null,
    rack     text        not null,
    at       timestamptz not null,
    primary key (env, address)
);
