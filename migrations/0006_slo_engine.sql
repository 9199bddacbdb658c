-- +goose Up

-- What objectives may promise beside a share of answered requests, and every
-- revision of them: a decision of last month speaks of the promise of last month.
alter table objective
    add column terms      jsonb,       -- slo.Terms; null: none
    add column counted_at timestamptz; -- when its indicator began to be counted; null: always was

create table objective_revision (
    id         text        not null,
    revision   bigint      not null,
    service    text        not null,
    target_ppb bigint      not null,
    window_s   bigint      not null,
    terms      jsonb,
    text       text        not null,
    source     text        not null,
    at         timestamptz not null,
    primary key (id, revision)
);

insert into objective_revision (id, revision, service, target_ppb, window_s, text, source, at)
select id, revision, service, target_ppb, window_s, text, source, since from objective;

-- Sums of a service's minutes over all routes, by hour and by day of UTC: with
-- service_minute, a window of whole days at any minute is at most 112 rows. Always
-- recomputed from minutes, never added to.
drop trigger rollup_minute_inserted on rollup_minute;
drop trigger rollup_minute_updated on rollup_minute;
alter table slo_hour rename to service_hour;
alter table service_hour rename constraint slo_hour_pkey to service_hour_pkey;
alter table service_hour
    add column synthetic         bigint not null default 0,
    add column bad_local         bigint not null default 0,
    add column degraded          bigint not null default 0,
    add column chaos_good        bigint not null default 0,
    add column dep_timeouts      bigint not null default 0,
    add column dep_timeout_calls bigint not null default 0,
    add column aborted_over      bigint not null default 0,
    add column sampled           bigint not null default 0,
    add column sample_var_good   bigint not null default 0,
    add column sample_var_bad    bigint not null default 0;

create table service_day (
    service           text        not null,
    env               text        not null,
    at                timestamptz not null,
    good              bigint      not null,
    bad               bigint      not null,
    neutral           bigint      not null,
    throttled         bigint      not null,
    aborted           bigint      not null,
    synthetic         bigint      not null,
    bad_local         bigint      not null,
    degraded          bigint      not null,
    chaos_good        bigint      not null,
    chaos_bad         bigint      not null,
    first_try_bad     bigint      not null,
    dep_timeouts      bigint      not null,
    dep_timeout_calls bigint      not null,
    over_limit        bigint      not null,
    aborted_over      bigint      not null,
    exchanges         bigint      not null,
    attempts          bigint      not null,
    retried           bigint      not null,
    recovered         bigint      not null,
    sampled           bigint      not null,
    sample_var_good   bigint      not null,
    sample_var_bad    bigint      not null,
    primary key (service, env, at)
);

insert into service_day (service, env, at, good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad,
    first_try_bad, dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered,
    sampled, sample_var_good, sample_var_bad)
select service, env, date_trunc('day', at, 'UTC'), sum(good), sum(bad), sum(neutral), sum(throttled), sum(aborted), sum(synthetic),
    sum(bad_local), sum(degraded), sum(chaos_good), sum(chaos_bad), sum(first_try_bad), sum(dep_timeouts), sum(dep_timeout_calls),
    sum(over_limit), sum(aborted_over), sum(exchanges), sum(attempts), sum(retried), sum(recovered), sum(sampled),
    sum(sample_var_good), sum(sample_var_bad)
from service_hour group by 1, 2, 3;

-- A mark of an hour is a mark of its day. It is made where the sums of the minute
-- change, in the same transaction, or neither is. Deletion marks nothing: minutes
-- go long after their hours are summed, and the hours are to stay.
create trigger service_minute_marked after insert on service_minute
    referencing new table as touched for each statement execute function slo_mark_dirty();
create trigger service_minute_marked_again after update on service_minute
    referencing new table as touched for each statement execute function slo_mark_dirty();

-- Hours that were summed without the new columns.
insert into slo_dirty (service, env, at)
select distinct service, env, date_trunc('hour', at, 'UTC') from service_minute;

-- Which slices of an hour were good for an objective on time: one bit a slice.
create table slo_slice (
    service   text        not null,
    objective text        not null,
    env       text        not null,
    at        timestamptz not null,
    measured  bigint      not null,
    bad       bigint      not null,
    bad_us    bigint[]    not null,
    primary key (service, objective, env, at)
);

-- Planned work, and other time in which failures say nothing of a promise.
create table slo_correction (
    id            text        primary key,
    service       text        not null,
    objective     text        not null, -- '' for all of the service
    env           text        not null, -- '' for all
    from_at       timestamptz not null,
    to_at         timestamptz not null check (to_at > from_at),
    mode          text        not null check (mode in ('remove', 'up')),
    reason        text        not null,
    ticket        text        not null,
    author        text        not null,
    at            timestamptz not null,
    revoked_at    timestamptz, -- kept, since decisions were taken under it
    revoked_by    text        not null default '',
    revoke_reason text        not null default ''
);

create index slo_correction_to_at on slo_correction (to_at) where revoked_at is null;

-- What may have made requests fail, beside experiments, which the minutes name
-- themselves: incidents, deploys, revisions of configuration.
create table slo_cause (
    service text        not null, -- '' for all
    env     text        not null, -- '' for all
    kind    text        not null check (kind in ('incident', 'deploy', 'config')),
    ref     text        not null,
    title   text        not null,
    from_at timestamptz not null,
    to_at   timestamptz, -- null: an incident that goes on
    actor   text        not null,
    at      timestamptz not null,
    primary key (service, env, kind, ref, from_at)
);

create index slo_cause_from_at on slo_cause (from_at);
