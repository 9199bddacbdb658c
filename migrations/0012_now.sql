-- +goose Up
-- What the page for people on call asks: of refused requests too by whom, and
-- where an endpoint stands beside its rack.

alter table facet_minute add column throttled bigint not null default 0; -- in total alone
alter table endpoint_label add column zone text not null default '';
