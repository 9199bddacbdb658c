-- +goose Up
-- How often marked hours were summed. Who kept a sum knows by it, and by the marks there
-- are, whether anything changed below it: a mark comes with its minutes, and goes with
-- this number moving on.
create table slo_rolled (
    one boolean primary key default true check (one),
    n   bigint not null
);
insert into slo_rolled (n) values (0);
