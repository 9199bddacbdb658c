package web

import (
	"breakwater/injector"
	"breakwater/internal/retrylog"
)

// serviceSheet is the overview as a file: a line for each objective of the services
// that are shown, the worst of a service first.
func serviceSheet(shown []service) sheet {
	s := sheet{name: "services", columns: []string{"service", "objective", "env", "state", "owner", "remaining_ppm", "remaining_events", "allowed_events", "valid_events", "good_events",
		"bad_events", "data_until", "evaluated_at", "running"}}
	for _, svc := range shown {
		for _, st := range svc.Statuses {
			b := st.Budget
			figures := []field{num(b.RemainingPPM), num(b.Remaining), num(b.Allowed), num(b.Valid), num(b.Tally.Good), num(b.Tally.Bad)}
			if b.NoData { // no data is not 0
				figures = make([]field, len(figures))
			}
			run := field{}
			if svc.Run != nil {
				run = txt(svc.Run.ID)
			}
			row := append([]field{txt(svc.Name), txt(st.Objective.ID), txt(st.Env), txt(statusChip(st).Text), txt(st.Objective.Owner)}, figures...)
			s.rows = append(s.rows, append(row, instant(st.DataUntil), instant(st.At), run))
		}
	}
	return s
}

func failureSheet(recent []retrylog.Exchange) sheet {
	s := sheet{name: "failures", columns: []string{"at", "request_id", "route", "method", "status", "outcome", "caller", "tries", "latency_us", "refusal", "experiment", "exchanges"}}
	for i := range recent {
		x := &recent[i]
		s.rows = append(s.rows, []field{instant(x.End), txt(x.RequestID), txt(x.Route), txt(x.Method), num(int64(x.Status)), txt(string(x.Outcome)), txt(x.Caller), num(int64(len(x.Tries))),
			num(x.LatencyUS), txt(x.Refusal), txt(x.Experiment), num(max(x.Count, 1))})
	}
	return s
}

func runSheet(runs []injector.Run) sheet {
	s := sheet{name: "runs", columns: []string{"id", "scenario", "title", "service", "game_day", "state", "verdict", "reason", "why", "planned_at", "started_at", "inject_at", "ended_at",
		"attempts", "injected", "good", "bad", "budget_spent_ppm", "started_by"}}
	for _, r := range runs {
		s.rows = append(s.rows, []field{txt(r.ID), txt(r.Scenario), txt(r.Title), txt(r.Service), txt(r.GameDay), txt(string(r.State)), txt(string(r.Verdict)), txt(r.Reason), txt(r.Why),
			instant(r.PlannedAt), instant(r.StartedAt), instant(r.InjectAt), instant(r.EndedAt), num(r.Attempts), num(r.Injected), num(r.Good), num(r.Bad), num(r.BudgetSpentPPM), txt(r.Actor)})
	}
	return s
}

// runSheets are the tables of one run.
func runSheets(r injector.Run, events []injector.Event) []sheet {
	checks := sheet{name: "expectations", columns: []string{"phase", "id", "text", "expected", "seen", "n", "result"}}
	for _, a := range r.Assertions {
		checks.rows = append(checks.rows, []field{txt(a.Phase), txt(a.ID), txt(a.Text), txt(a.Expected), txt(a.Seen), num(a.N), txt(string(a.Result))})
	}
	parts := sheet{name: "cohorts", columns: []string{"phase", "cohort", "good", "bad", "degraded"}}
	for _, p := range r.Cohorts {
		parts.rows = append(parts.rows, []field{txt(p.Phase), txt(string(p.Cohort)), num(p.Good), num(p.Bad), num(p.Degraded)})
	}
	receipts := sheet{name: "receipts", columns: []string{"gateway", "fault", "hash", "armed_at", "removed_at", "by_lease"}}
	for _, x := range r.Receipts {
		by := "no"
		if x.ByLease {
			by = "yes"
		}
		receipts.rows = append(receipts.rows, []field{txt(x.Gateway), txt(x.Fault), txt(x.Hash), instant(x.ArmedAt), instant(x.RemovedAt), txt(by)})
	}
	log := sheet{name: "log", columns: []string{"at", "kind", "text", "actor"}}
	for _, e := range events {
		log.rows = append(log.rows, []field{instant(e.At), txt(e.Kind), txt(e.Text), txt(e.Actor)})
	}
	return []sheet{checks, parts, receipts, log}
}
