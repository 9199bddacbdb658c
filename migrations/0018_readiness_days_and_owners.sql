-- +goose Up
-- How ready a service was, day by day (of UTC): the newest look of a day is kept.
create table readiness_day (
    service text        not null,
    day     date        not null,
    states  jsonb       not null, -- of each item: yes, no, unknown
    at      timestamptz not null,
    primary key (service, day)
);

create index readiness_day_by_day on readiness_day (day);

-- Of what users cannot do without, the owners of the services are among those who
-- agree to a game day.
alter table gameday add column owners text[] not null default '{}'; -- services
alter table gameday_approval add column owns text[] not null default '{}'; -- services they speak for
