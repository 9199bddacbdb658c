package web

// closedSets are closed sets of other packages, as pages write them: a new member
// belongs here too, or it stays English on a Chinese page.
var closedSets = map[string][]string{
	"an outcome": {"upstream failure", "local refusal", "timeout", "client abort", "panic"},
	"a try that failed": {"dial", "connect timeout", "tls", "write", "response header timeout", "try timeout", "reset before first byte", "reset after first byte",
		"body cut", "bad response"},
	"a cause":      {"experiment", "incident", "deploy", "config", "unknown"},
	"a correction": {"remove", "up"},
	"a phase":      {"steady", "baseline", "during", "inject", "after", "recover"},
	"a cohort":     {"exposed", "control", "unmatched"},
	"a run": {"draft", "scheduled", "arming", "baseline", "injecting", "recovering", "completed", "aborting", "aborted", "rejected", "cancelled", "skipped",
		"expired", "not_evaluated"},
	"why a run ended": {"stop condition", "budget cap", "halt", "user", "gateway lost", "feed silent", "freeze", "blast radius", "engine error", "clock skew", "refused",
		"engine lost", "no gateway", "arming timeout", "bad document", "missed", "overlap", "blackout", "halted", "budget", "budget unknown", "no document",
		"earlier run", "outside hours", "gameday stopped", "gameday over", "not calm"},
	"a likely cause": {"limiter", "measure", "load", "dns", "retry storm", "dependency", "instance", "rack", "zone", "caller", "tenant", "gateway", "concurrency",
		"shed", "upstream", "route", "code"},
	"a gate":       {"attempts", "method", "body", "retry count", "client", "deadline", "error rate", "other host", "retry budget"},
	"a promise":    {"Share of valid requests that were good."},
	"a protection": {"breaker", "limiter", "concurrency", "retry", "fallback", "freeze", "measure"},
	"a table":      {"steps", "fates", "routes", "cohorts", "expectations", "receipts", "log"},
	"an answer": {"pipelines run elsewhere", "no document says it", "reading leaves no trace", "nothing computes alerts at this moment", "no AlertRoute names anybody for it",
		"no drill has shown it", "no schedule drills it", "no contract names it", "no dictionary covers it", "no objective is defined for it", "no incident was marked",
		"no route of it is known here", "no gateway reports"},
	"a rule":       {"page", "ticket"},
	"who answered": {"upstream", "gateway"},
}
