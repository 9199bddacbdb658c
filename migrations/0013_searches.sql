-- +goose Up
-- Searches for the boundary of a fault, the probes they make, and who agreed to a run.

alter table run add column search text not null default ''; -- the search whose probe it is
alter table run add column knob bigint not null default 0;  -- the amount that is probed
alter table run add column class text not null default '';  -- C: a core service, or much of all traffic
alter table run add column needs int not null default 0;    -- approvals

create table search (
    id          text        primary key,
    scenario    text        not null,
    service     text        not null,
    owner       text        not null, -- the control that drives it
    lease_until timestamptz not null,
    stop        text        not null default '', -- why somebody wants it to end
    started_at  timestamptz not null,
    ended_at    timestamptz,
    body        jsonb       not null -- injector.Search
);

create unique index search_open on search (service) where ended_at is null;
create index search_scenario on search (scenario, started_at desc, id);
create index search_newest on search (started_at desc, id);

-- An approval is of one content; of another it says nothing.
create table run_approval (
    run   text        not null references run (id) on delete cascade,
    actor text        not null,
    hash  text        not null,
    owner boolean     not null, -- of the service
    at    timestamptz not null,
    primary key (run, actor)
);
