package main

// What a crowd has counted and written down. Chance is a hash, so that two databases
// of one size are alike.

// Of twenty services one is frozen, one nearly, one warned; the rest are well.
const crowdMinutesSQL = `
with fresh as (
    insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad, exchanges, attempts, retried, recovered, first_try_bad, latency_us, latency_max_us, hist)
    select service, 'prod', service || '-r' || r, service, '', at, 40 - bad, bad, 40, 40 + again, again, again, bad + again, 40 * 21000, 180000,
        array[(20::bigint << 10) + 460, (12 << 10) + 472, (6 << 10) + 490, (2 << 10) + 520]
    from generate_series(0, @services::int - 1) as s, lateral (select 'service-' || lpad(s::text, 3, '0') as service) as n,
        generate_series(0, @routes::int - 1) as r, generate_series(@from::timestamptz, @to::timestamptz - interval '1 minute', interval '1 minute') as at,
        lateral (select abs(hashint8(extract(epoch from at)::bigint / 60 * 7919 + s * 131 + r)::bigint) as dice) as h,
        lateral (select (dice % 10000 < case s % 20 when 0 then 600 when 1 then 360 when 2 then 200 else 40 end)::int as bad, (dice / 10000 % 50 = 0)::int as again) as x
    returning service, env, at, good, bad, exchanges, attempts, retried, recovered, first_try_bad, latency_us
)
insert into service_minute (service, env, at, good, bad, exchanges, attempts, retried, recovered, first_try_bad, latency_us)
select service, env, at, sum(good), sum(bad), sum(exchanges), sum(attempts), sum(retried), sum(recovered), sum(first_try_bad), sum(latency_us)
from fresh group by service, env, at`

const minuteSums = `sum(good), sum(bad), sum(neutral), sum(throttled), sum(aborted), sum(synthetic), sum(bad_local), sum(degraded), sum(chaos_good), sum(chaos_bad), sum(first_try_bad),
    sum(dep_timeouts), sum(dep_timeout_calls), sum(over_limit), sum(aborted_over), sum(exchanges), sum(attempts), sum(retried), sum(recovered), sum(sampled), sum(sample_var_good), sum(sample_var_bad)`

const minuteCounts = `good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
    dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered, sampled, sample_var_good, sample_var_bad`

// Hours of services without minutes of that time.
const crowdHoursSQL = `
insert into service_hour (service, env, at, ` + minuteCounts + `)
select service, 'prod', at, 4800 - bad, bad, 0, 0, 0, 0, 0, 0, 0, 0, bad + 96, 0, 0, 0, 0, 4800, 4900, 96, 96, 0, 0, 0
from generate_series(@whole::int, @services::int - 1) as s, lateral (select 'service-' || lpad(s::text, 3, '0') as service) as n,
    generate_series(date_trunc('hour', @until::timestamptz - @days::int * interval '1 day', 'UTC'), date_trunc('hour', @first::timestamptz, 'UTC') - interval '1 hour', interval '1 hour') as at,
    lateral (select case s % 20 when 0 then 7 when 1 then 4 when 2 then 2 else extract(hour from at)::int % 2 end as bad) as x`

// serviceNames are the services by number, with as many others as a statement needs.
const serviceNames = `generate_series(0, @services::int - 1) as s, lateral (select 'service-' || lpad(s::text, 3, '0') as service) as n`

// anyService picks the service of the row i.
const anyService = `lateral (select 'service-' || lpad((abs(hashint8(i)::bigint) % @services::int)::text, 3, '0') as service, abs(hashint8(i * 31)::bigint) as dice) as n`

const runDays = ` least(@days::int, 6) `

var crowdSQL = []string{
	`insert into service_hour (service, env, at, ` + minuteCounts + `) select service, env, date_trunc('hour', at, 'UTC'), ` + minuteSums + ` from service_minute group by 1, 2, 3`,
	`insert into service_day (service, env, at, ` + minuteCounts + `) select service, env, date_trunc('day', at, 'UTC'), ` + minuteSums + ` from service_hour group by 1, 2, 3`,
	`insert into slo_scope (service, env) select service, 'prod' from ` + serviceNames,
	`insert into rollup_hour (service, env, route, upstream, experiment, at, good, bad, exchanges, attempts)
	 select service, env, route, upstream, experiment, date_trunc('hour', at, 'UTC'), sum(good), sum(bad), sum(exchanges), sum(attempts) from rollup_minute where at >= @until::timestamptz - interval '2 days' group by 1, 2, 3, 4, 5, 6`,
	`insert into gateway_boot (env, gateway, boot, from_at, until_at, seq, batches, stopped) select 'prod', 'gw-' || g, 'b1', @until::timestamptz - @days::int * interval '1 day', @until, 1, 1, false from generate_series(0, 2) as g`,
	`insert into gateway (env, gateway, boot, seq, until_at, stopped, last_ack) select 'prod', 'gw-' || g, 'b1', 1, @until, false, clock_timestamp() from generate_series(0, 2) as g`,
	`insert into gateway_minute (env, gateway, at, covered_us, lost) select 'prod', 'gw-' || g, at, 60000000, 0 from generate_series(0, 2) as g,
	 generate_series(@until::timestamptz - @days::int * interval '1 day', @until::timestamptz - interval '1 minute', interval '1 minute') as at`,
	`insert into facet_minute (service, env, dimension, value, at, good, bad, total)
	 select service, 'prod', dimension, value, at, 20, (dimension in ('code', 'kind'))::int, 20 from ` + serviceNames + `,
	 (values ('caller', 'web'), ('caller', 'app'), ('caller', 'service-001'), ('status', '200'), ('endpoint', 'a'), ('endpoint', 'b'), ('gateway', 'gw-0'), ('gateway', 'gw-1'), ('gateway', 'gw-2'), ('revision', 'r12')) as d (dimension, value),
	 generate_series(@until::timestamptz - least(@much::int, 25) * interval '1 hour', @until::timestamptz - interval '1 minute', interval '1 minute') as at`,
	`insert into facet_minute (service, env, dimension, value, at, bad, total)
	 select m.service, 'prod', dimension, value, m.at, m.bad, m.bad from service_minute m, (values ('status', '503'), ('code', '50003'), ('kind', 'status'), ('kind', 'limit:rate'), ('skip', 'attempts_exhausted')) as d (dimension, value)
	 where m.bad > 0 and m.at >= @until::timestamptz - least(@much::int, 25) * interval '1 hour'`,
	`insert into retry_minute (service, env, upstream, status, reason, experiment, at, retried, retries, succeeded)
	 select service, 'prod', service, 503, 'status_listed', '', at, retried, retried, recovered from service_minute where retried > 0 and at >= @until::timestamptz - least(@much::int, 25) * interval '1 hour'`,
	`insert into run_tally (service, run, at, good, bad, attempts, injected) select service, '', at, 20, (extract(epoch from at)::bigint % 7 = 0)::int, 21, 0 from ` + serviceNames + `,
	 generate_series(@until::timestamptz - interval '2 hours', @until, interval '5 seconds') as at`,
	// Requests that were kept: failures, and what was retried.
	`insert into event (service, env, at, kind, gateway, experiment, request_id, body)
	 select service, 'prod', at, 'exchange', 'gw-' || dice % 3, '', 'q-' || i, jsonb_build_object('v', 1, 'exchange', jsonb_build_object('count', 1, 'request_id', 'q-' || i, 'start', at - interval '1 second', 'end', at,
	    'gateway', 'gw-' || dice % 3, 'env', 'prod', 'service', service, 'route', service || '-r0', 'upstream', service, 'method', 'GET', 'caller', 'web', 'status', 503 - 303 * (dice % 2), 'first_status', 503,
	    'outcome', (array['upstream_failure', 'ok'])[1 + dice % 2], 'decision_reason', 'status_listed', 'latency_us', 90000, 'body_complete', true, 'origin', 'upstream', 'config_revision', 'r12',
	    'tries', jsonb_build_array(jsonb_build_object('endpoint', '10.0.0.1:8080', 'status', 503, 'kind', 'status', 'latency_us', 40000, 'decision_reason', 'status_listed'), jsonb_build_object('endpoint', '10.0.0.2:8080', 'status', 503 - 303 * (dice % 2), 'latency_us', 40000, 'wait_ms', 10))))
	 from generate_series(1, 2000 * @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (2000.0 * @much::int)) * ` + runDays + ` * interval '1 day' as at) as a`,
	`insert into event (service, env, at, kind, gateway, experiment, request_id, body)
	 select '', 'prod', at, 'transition', 'gw-' || dice % 3, '', '', jsonb_build_object('v', 1, 'transition', jsonb_build_object('at', at, 'gateway', 'gw-' || dice % 3, 'env', 'prod', 'policy', 'breaker', 'service', '', 'upstream', service,
	    'from', (array['closed', 'open', 'half_open'])[1 + i % 3], 'to', (array['open', 'half_open', 'closed'])[1 + i % 3], 'reason', 'half of 40 requests failed'))
	 from generate_series(1, 100 * @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (100.0 * @much::int)) * ` + runDays + ` * interval '1 day' as at) as a`,
	`insert into slo_transition (service, objective, env, at, from_level, to_level, reason, revision, data_until, good, bad, coverage_ppm)
	 select service, service || '-availability', 'prod', @until::timestamptz - (i / (30.0 * @much::int)) * @days::int * interval '1 day', (array['normal', 'warn', 'emergency', 'frozen'])[1 + i % 4], (array['warn', 'emergency', 'frozen', 'normal'])[1 + i % 4],
	    '41 % of the error budget is spent.', 1, @until, 100000, 41, 1000000 from generate_series(1, 30 * @much::int) as i, ` + anyService,
	`insert into slo_cause (service, env, kind, ref, title, from_at, to_at, actor, at)
	 select service, 'prod', (array['deploy', 'deploy', 'deploy', 'incident'])[1 + i % 4], 'v' || i, 'release ' || i, at, case when i % 4 = 3 then at + interval '20 minutes' end, 'ci', at
	 from generate_series(1, 50 * @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (50.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into gate_decision (service, id, env, kind, ref, decision, state, reason_code, at, asked_by, body)
	 select service, 'd-' || i, 'prod', 'feature', 'c' || i, (array['allow', 'deny', 'hold', 'unknown'])[1 + i % 4], 'normal', 'budget_ok', at, 'ci', jsonb_build_object('decision', (array['allow', 'deny', 'hold', 'unknown'])[1 + i % 4], 'state', 'normal', 'reason_code', 'budget_ok',
	    'reasons', jsonb_build_array(service || '-availability: 41 % of the error budget is spent.'), 'remaining', 0.59, 'burn', jsonb_build_object('1h', 1.2), 'coverage', 1, 'decision_id', 'd-' || i, 'valid_until', at + interval '15 minutes',
	    'service', service, 'env', 'prod', 'kind', 'feature', 'ref', 'c' || i, 'issued_at', at, 'fallback_until', at + interval '15 minutes', 'policy', 'default', 'policy_revision', '1')
	 from generate_series(1, 200 * @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (200.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into freeze_order (id, service, env, reason, ticket, by_whom, at, until_at, ended_by, ended_at) select 'f-' || i, service, '', 'the shop is being moved', 'OPS-1', 'ada', at, null, 'ada', at + interval '3 hours'
	 from generate_series(1, @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (1.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into freeze_override (id, service, env, ref, reason, ticket, asked_by, asked_at, expires_at, max_uses, granted_by, granted_at, closed_at) select 'o-' || i, service, 'prod', 'c' || i, 'it mends the outage', 'OPS-2', 'ada', at, at + interval '4 hours', 1, 'bob', at + interval '5 minutes', at + interval '4 hours'
	 from generate_series(1, @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (1.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into alert_incident (id, service, env, class, tier, severity, title, opened_at, closed_at, body)
	 select 'i-' || i, service, 'prod', 'errors', 'L1', 'page', 'errors of ' || service, at, ends, jsonb_build_object('id', 'i-' || i, 'service', service, 'env', 'prod', 'class', 'errors', 'tier', 'L1', 'severity', 'page', 'title', 'errors of ' || service, 'opened_at', at, 'last_seen', at + interval '9 minutes',
	    'closed_at', ends, 'told', 'page', 'flaps', 0, 'notified', 2, 'acked_at', null, 'sent_at', at, 'symptoms', jsonb_build_array(jsonb_build_object('service', service, 'env', 'prod', 'class', 'errors', 'tier', 'L1', 'key', 'burn:1h', 'severity', 'page', 'text', 'it burns', 'since', at, 'last_seen', at)), 'facts', '[]'::jsonb,
	    'context', jsonb_build_object('at', at, 'burn', '14.4', 'budget_left', '20 %', 'outlook', '', 'bad_events', 5, 'events', 100, 'concentrated', '[]'::jsonb, 'upstreams', '[]'::jsonb, 'experiments', '[]'::jsonb, 'protecting', '[]'::jsonb))
	 from generate_series(1, 20 * @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (20.0 * @much::int)) * @days::int * interval '1 day' as at) as a, lateral (select at + interval '10 minutes' as ends) as e`,
	`insert into alert_why (incident, at, kind, receiver, outcome, text) select 'i-' || (1 + i % (20 * @much::int)), @until, 'opened', 'default/chat', 'sent', 'told' from generate_series(1, 100 * @much::int) as i`,
	`insert into alert_outbox (message, incident, receiver, kind, body, created_at, due_at, done_at, outcome) select 'm-' || i, 'i-' || (1 + i % (20 * @much::int)), 'default/chat', 'opened', '{}', at, at, at, 'sent'
	 from generate_series(1, 50 * @much::int) as i, lateral (select @until::timestamptz - (i / (50.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into alert_silence (id, service, env, class, severity, from_at, until_at, by_whom, reason) select 's-' || i, service, 'prod', '', '', @until, @until::timestamptz + interval '1 hour', 'ada', 'planned work' from generate_series(1, 1 + @much::int / 4) as i, ` + anyService,
	// Drills: runs with their story, game days, findings.
	`insert into run (id, gameday, scenario, title, service, text, hash, actor, state, verdict, why, epoch, planned_at, due_at, started_at, baseline_at, inject_at, recover_at, ended_at, filed_at, baseline_ms, inject_ms, recover_ms, expected_ppm, attempts, injected, good, bad, assertions)
	 select 'r-' || i, case when i % 3 = 0 then 'day-' || i % 12 else '' end, 'drill-' || dice % least(60, @services::int), service || ' loses some of its answers', service, 'kind: Scenario', 'abc', 'ada', 'completed', (array['passed', 'failed', 'inconclusive'])[1 + i % 3], 'd1 held', i, at, at, at, at,
	    at + interval '1 minute', at + interval '3 minutes', at + interval '4 minutes', at + interval '4 minutes', 60000, 120000, 60000, 100000, 4000, 400, 3900, 100,
	    jsonb_build_array(jsonb_build_object('ID', 's1', 'Phase', 'steady', 'Text', 'success', 'Expected', '98 %', 'Seen', '99 %', 'N', 100, 'Result', 'pass'), jsonb_build_object('ID', 'd1', 'Phase', 'during', 'Text', 'success', 'Expected', '98 %', 'Seen', '97 %', 'N', 100, 'Result', 'fail'))
	 from generate_series(1, 20 * @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (20.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into run_event (run, at, kind, text, actor) select 'r-' || i, @until, 'state', 'injecting', 'ada' from generate_series(1, 20 * @much::int) as i, generate_series(1, 12)`,
	`insert into run_receipt (run, gateway, fault, hash, ppm, boot, armed_at, removed_at) select 'r-' || i, 'gw-' || g, 'lose', 'abc', 100000, 'b1', @until, @until from generate_series(1, 20 * @much::int) as i, generate_series(0, 2) as g`,
	`insert into gameday (id, name, title, planned_at, actor, text, hash, needs, started_at, ended_at) select 'g-' || i, 'day-' || i % 12, 'Drill ' || i % 12, at, 'schedule', 'apiVersion: breakwater/v1' || chr(10) || 'kind: GameDay' || chr(10) || 'name: day-' || i % 12 || chr(10) || 'scenarios: [drill-1]' || chr(10), 'abc', 1, at, at + interval '20 minutes'
	 from generate_series(1, 3 * @much::int) as i, lateral (select @until::timestamptz - (i / (3.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into gameday_note (gameday, at, actor, kind, text) select 'g-' || i, @until, 'ada', 'note', 'it went well' from generate_series(1, 3 * @much::int) as i, generate_series(1, 10)`,
	`insert into gameday_approval (gameday, actor, hash, at) select 'g-' || i, 'bob', 'abc', @until from generate_series(1, 3 * @much::int) as i`,
	`insert into finding (id, service, scenario, assertion, title, expected, seen, severity, owner, state, due_at, opened_at, closed_at, text, hash, config, run, last_run)
	 select 'x-' || i, service, 'drill-' || i, 'd1', 'the fallback was not served', '98 %', '91 %', (array['low', 'medium', 'high', 'critical'])[1 + i % 4], 'team', case when i % 3 = 0 then 'verified' else 'open' end, at + interval '14 days', at, case when i % 3 = 0 then at + interval '5 days' end, 'kind: Scenario', 'abc', 'r12', 'r-' || i, 'r-' || i
	 from generate_series(1, 10 * @much::int) as i, ` + anyService + `, lateral (select @until::timestamptz - (i / (10.0 * @much::int)) * @days::int * interval '1 day' as at) as a`,
	`insert into finding_event (finding, at, actor, kind, run, text) select 'x-' || i, @until, 'ada', 'opened', 'r-' || i, 'seen by a run' from generate_series(1, 10 * @much::int) as i, generate_series(1, 4)`,
	`insert into readiness_answer (service, item, yes, evidence, actor, at) select service, 'runbook', true, 'https://wiki/' || service, 'ada', @until from ` + serviceNames,
	`insert into person (name, role, created_by, created_at) select 'person-' || i, 'operator', 'admin', @until from generate_series(1, 1 + @much::int / 2) as i`,
	`insert into token (name, role, hash, created_by, created_at) select 'token-' || i, 'pipeline', sha256(i::text::bytea), 'admin', @until from generate_series(1, 1 + @much::int / 2) as i`,
}

const crowdConfigsSQL = `
insert into event (service, env, at, kind, gateway, experiment, request_id, body)
select '', 'prod', at, 'config', 'gw-' || g, '', '', jsonb_build_object('v', 1, 'config', jsonb_build_object('at', at, 'gateway', 'gw-' || g, 'env', 'prod', 'revision', 'r' || i, 'hash', 'h' || i, 'effective', @effective::text))
from generate_series(1, 12) as i, generate_series(0, 2) as g, lateral (select @until::timestamptz - (13 - i) * interval '10 hours' as at) as a where at > @until::timestamptz - @days::int * interval '1 day'`
