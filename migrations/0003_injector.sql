-- +goose Up
-- Experiments: what is due, what runs, what gateways were told and answered.

create table scenario (
    id      text    primary key,
    title   text    not null,
    service text    not null,
    text    text    not null,
    hash    text    not null,
    file    text    not null,
    present boolean not null -- its document is there
);

create table schedule (
    id        text        primary key, -- the game day's name
    title     text        not null,
    scenarios text[]      not null,
    cron      text        not null,
    zone      text        not null,
    grant_ppm bigint      not null,
    text      text        not null,
    enabled   boolean     not null,
    next_at   timestamptz,
    last_run  text        not null default '',
    check (not enabled or next_at is not null)
);

create index schedule_due on schedule (next_at) where enabled;

-- One row a due instant, whatever became of it: a start is never made twice and
-- a skip is never silent.
create table occurrence (
    schedule      text        not null references schedule (id),
    scheduled_for timestamptz not null,
    decided_at    timestamptz not null,
    skipped       text        not null default '',
    detail        text        not null default '',
    primary key (schedule, scheduled_for)
);

-- Claims are numbered over all runs. Both counters begin at the time of this
-- migration, so that a database made anew still speaks above what gateways heard before.
create sequence run_epoch;
select setval('run_epoch', extract(epoch from clock_timestamp())::bigint);

create table run (
    id          text        primary key,
    schedule    text        not null default '', -- '' for one that a person started
    seq         int         not null default 0,
    gameday     text        not null default '',
    scenario    text        not null,
    title       text        not null,
    service     text        not null,
    text        text        not null,
    hash        text        not null,
    actor       text        not null,
    state       text        not null check (state in ('draft', 'pending_approval', 'scheduled', 'arming', 'baseline',
        'injecting', 'recovering', 'completed', 'aborting', 'aborted', 'rejected', 'cancelled', 'skipped', 'expired', 'engine_error')),
    reason      text        not null default '',
    verdict     text        not null default 'not_evaluated' check (verdict in ('passed', 'failed', 'inconclusive', 'not_evaluated')),
    why         text        not null default '',
    owner       text        not null default '',
    epoch       bigint      not null default 0,
    lease_until timestamptz,
    starts      int         not null default 0,
    cap_ppm     bigint      not null default 0,
    planned_at  timestamptz not null,
    due_at      timestamptz not null,
    started_at  timestamptz,
    baseline_at timestamptz,
    inject_at   timestamptz,
    recover_at  timestamptz,
    ended_at    timestamptz,
    baseline_ms bigint      not null,
    inject_ms   bigint      not null,
    recover_ms  bigint      not null,
    expected_ppm     bigint not null,
    attempts         bigint not null default 0,
    injected         bigint not null default 0,
    good             bigint not null default 0,
    bad              bigint not null default 0,
    budget_spent_ppm bigint not null default 0,
    assertions  jsonb       not null default '[]',
    check ((ended_at is not null) = (state in ('completed', 'aborted', 'rejected', 'cancelled', 'skipped', 'expired', 'engine_error'))),
    check (verdict = 'not_evaluated' or ended_at is not null)
);

create unique index run_once on run (schedule, planned_at, seq) where schedule <> '';
create index run_open on run (due_at) where ended_at is null;
create index run_newest on run (planned_at desc, id desc);
create index run_epoch_max on run (epoch desc);

create table run_event (
    id    bigint generated always as identity primary key,
    run   text        not null references run (id),
    at    timestamptz not null,
    kind  text        not null,
    text  text        not null,
    actor text        not null
);

create index run_event_run on run_event (run, id);

-- Each gateway's word on each rule of a run.
create table run_receipt (
    run        text        not null references run (id),
    gateway    text        not null,
    fault      text        not null,
    hash       text        not null,
    ppm        bigint      not null,
    boot       text        not null, -- of the gateway when it armed first
    armed_at   timestamptz not null,
    removed_at timestamptz,
    by_lease   boolean     not null default false,
    primary key (run, gateway, fault)
);

-- The newest word of each gateway.
create table gateway_receipt (
    gateway         text        primary key,
    boot            text        not null,
    at              timestamptz not null, -- our clock
    epoch           bigint      not null,
    revision        bigint      not null,
    halted          boolean     not null,
    skew_ms         bigint      not null,
    armed           jsonb       not null,
    refused         jsonb       not null,
    config_revision text        not null,
    config_hash     text        not null
);

-- What a gateway had counted at its newest word, since its start.
create table gateway_tally (
    gateway  text   not null,
    boot     text   not null,
    run      text   not null,
    service  text   not null,
    good     bigint not null,
    bad      bigint not null,
    attempts bigint not null,
    injected bigint not null,
    primary key (gateway, boot, run, service)
);

-- The differences of those counts, summed over gateways, by the second in which
-- they arrived. run '' is a service's whole traffic.
create table run_tally (
    service  text        not null,
    run      text        not null,
    at       timestamptz not null,
    good     bigint      not null,
    bad      bigint      not null,
    attempts bigint      not null,
    injected bigint      not null,
    primary key (service, run, at)
);

create index run_tally_at on run_tally (at);

-- One row: the number of the plan, the hash of its content, and the halt. Who
-- makes a run, or numbers a plan, locks it.
create table injector_state (
    one         boolean primary key default true check (one),
    revision    bigint  not null,
    epoch_base  bigint  not null,
    plan_hash   text    not null default '',
    halted_at   timestamptz,
    halted_by   text    not null default ''
);

insert into injector_state (revision, epoch_base)
select extract(epoch from clock_timestamp())::bigint, extract(epoch from clock_timestamp())::bigint;
