-- +goose Up
-- Protective measures: what the state of a budget called for beside the freeze of
-- releases, from its beginning to its end. Rows are kept: they are the story of what
-- was done to users for their own good.
create table measure (
    id         text        primary key,
    service    text        not null,
    env        text        not null,
    kind       text        not null check (kind in ('shed', 'limit', 'stop_experiments', 'refuse_experiments')),
    dry_run    boolean     not null,
    state      text        not null,
    reason     text        not null,
    body       jsonb       not null, -- freeze.Measure
    started_at timestamptz not null,
    seen_at    timestamptz not null, -- the last evaluation that called for it
    ended_at   timestamptz,
    ended      text        not null default '', -- why
    check ((ended_at is null) = (ended = ''))
);

-- One of each kind for a service: two would be merged to the stricter one.
create unique index measure_live on measure (service, env, kind, dry_run) where ended_at is null;
create index measure_started on measure (started_at desc, id);

-- Alerts that others fire and have told us of.
create table foreign_alert (
    source      text        not null,
    fingerprint text        not null,
    service     text        not null,
    env         text        not null,
    name        text        not null,
    tier        text        not null check (tier in ('L1', 'L2')),
    text        text        not null,
    url         text        not null,
    started_at  timestamptz not null,
    ended_at    timestamptz,
    heard_at    timestamptz not null,
    primary key (source, fingerprint, started_at)
);

create index foreign_alert_open on foreign_alert (service) where ended_at is null;
create index foreign_alert_heard on foreign_alert (heard_at);
