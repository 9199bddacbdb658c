package injector

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/injector/scenario"
)

// Alert is one that fired.
type Alert struct {
	Name, Service, Level string
	From                 time.Time
	To                   time.Time // zero: it still fires
}

// maxRows bounds what is kept with a result; its span says where the rest is.
const maxRows = 20

// first is the first of times that has come, else the zero time.
func first(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// spanOf is the span of a phase of r: up to its end, or to now. What follows an
// injection begins with the proof that its rules are gone.
func spanOf(r Run, phase string, now time.Time) (from, to time.Time) {
	switch phase {
	case "steady":
		return r.BaselineAt, first(r.InjectAt, r.RecoverAt, now)
	case "during":
		return r.InjectAt, first(r.RecoverAt, now)
	}
	from = r.RecoverAt
	for _, x := range r.Receipts {
		if x.RemovedAt.After(from) {
			from = x.RemovedAt
		}
	}
	return from, first(r.EndedAt, now)
}

// stood is the state of each gateway's breaker at an instant, by its last change.
func stood(all []Transition, at time.Time) map[string]string {
	out := map[string]string{}
	for _, t := range all {
		if !t.At.After(at) {
			out[t.Gateway] = t.To
		}
	}
	return out
}

// openBefore says that the target's breaker was not closed when the injection had
// to begin, or "": what opens then would not be the fault's doing.
func openBefore(sc scenario.Scenario, o Observations) string {
	var out []string
	for gateway, state := range stood(o.Breakers[sc.Target.Service], o.Now) {
		if state != "closed" {
			out = append(out, gateway)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return fmt.Sprintf("the breaker of %s is not closed at %s", sc.Target.Service, strings.Join(out, ", "))
}

// tripped judges what a service's breaker did. Events come a moment later than they
// happen: that something did not happen is known only once they reach so far.
func tripped(out Assertion, a scenario.Assertion, o Observations) Assertion {
	all := o.Breakers[a.Service]
	from, until := out.From, out.Until
	if a.Within > 0 {
		until = from.Add(a.Within)
	}
	var rows []Row
	var openings int64
	count := map[string]int64{}
	done := time.Time{}
	at := ""
	for _, t := range all {
		if !t.At.After(from) || t.At.After(until) {
			continue
		}
		rows = append(rows, Row{t.At, fmt.Sprintf("breaker of %s at %s: %s to %s: %s", a.Service, t.Gateway, t.From, t.To, t.Reason)})
		if t.To == "open" && t.From == "closed" {
			count[t.Gateway]++
			openings = max(openings, count[t.Gateway])
		}
		wanted := t.To == "open" && (a.Event == scenario.Opened || a.Event == scenario.StaysClosed) || t.To == "half_open" && a.Event == scenario.HalfOpened
		if wanted && done.IsZero() {
			done, at = t.At, t.Gateway
		}
	}
	out.Rows, out.N = rows[:min(len(rows), maxRows)], int64(len(rows))
	known := !o.Heard.Before(until)
	unknown := fmt.Sprintf("nothing, and events are known only up to %s", clockOf(o.Heard))
	switch {
	case a.Measure == scenario.Flaps:
		flaps := max(openings-1, 0)
		out.Seen = fmt.Sprintf("%d flaps", flaps)
		switch {
		case !met(a.Op, float64(flaps), float64(a.Limit)) && upper(a.Op):
			out.Result = Fail // more cannot make it fewer
		case !known:
			out.Seen += ", and events are known only up to " + clockOf(o.Heard)
		case met(a.Op, float64(flaps), float64(a.Limit)):
			out.Result = Pass
		default:
			out.Result = Fail
		}
	case a.Event == scenario.Closed:
		return closedAgain(out, a, o, until)
	case !done.IsZero() && a.Event == scenario.StaysClosed:
		out.Result, out.Seen = Fail, fmt.Sprintf("it opened after %s at %s", after(done.Sub(from)), at)
	case !done.IsZero():
		out.Result, out.Seen = Pass, fmt.Sprintf("after %s at %s", after(done.Sub(from)), at)
	case !known:
		out.Seen = unknown
	case a.Event == scenario.StaysClosed:
		out.Result, out.Seen = Pass, "it stayed closed"
	case out.Until.Before(until):
		out.Seen = fmt.Sprintf("nothing in the %s that there were", after(out.Until.Sub(from)))
	default:
		out.Result, out.Seen = Fail, fmt.Sprintf("it did not within %s", after(until.Sub(from)))
	}
	out.late = !known && out.Result == NoData
	return out
}

// closedAgain: at every gateway where it had opened. A breaker that never opened
// shows nothing of how it closes.
func closedAgain(out Assertion, a scenario.Assertion, o Observations, until time.Time) Assertion {
	all := o.Breakers[a.Service]
	begin, looked := out.From, until
	if o.Now.Before(looked) {
		looked = o.Now
	}
	state := stood(all, looked)
	var last time.Time
	opened := false
	for _, t := range all {
		opened = opened || t.To == "open"
		if t.To == "closed" && t.At.After(last) && !t.At.After(looked) {
			last = t.At
		}
	}
	var still []string
	for g, s := range state {
		if s != "closed" {
			still = append(still, g+" "+strings.ReplaceAll(s, "_", " "))
		}
	}
	slices.Sort(still)
	switch {
	case len(still) > 0 && !o.Heard.Before(looked):
		out.Result, out.Seen = Fail, fmt.Sprintf("still %s after %s", strings.Join(still, ", "), after(looked.Sub(begin)))
	case len(still) > 0:
		out.late = true
		out.Seen = fmt.Sprintf("%s, and events are known only up to %s", strings.Join(still, ", "), clockOf(o.Heard))
	case !opened:
		out.Seen = "it never opened, so it could not close"
	case last.Before(begin):
		out.Result, out.Seen = Pass, "closed before the fault was gone"
	default:
		out.Result, out.Seen = Pass, "closed after "+after(last.Sub(begin))
	}
	return out
}

// alerted judges whether an alert fired.
func alerted(out Assertion, a scenario.Assertion, o Observations) Assertion {
	if o.AlertsHeard.IsZero() {
		out.Seen = "there is no feed of alerts"
		return out
	}
	from, until := out.From, out.Until
	if a.Within > 0 {
		until = from.Add(a.Within)
	}
	for _, x := range o.Alerts {
		// One that fired before still fires.
		if x.Name != a.Service || x.From.After(until) || !x.To.IsZero() && x.To.Before(from) {
			continue
		}
		out.Rows = append(out.Rows, Row{x.From, fmt.Sprintf("alert %s of %s fired, %s", x.Name, x.Service, x.Level)})
	}
	out.N, out.Rows = int64(len(out.Rows)), out.Rows[:min(len(out.Rows), maxRows)]
	fired := out.N > 0
	switch {
	case fired && a.Event == scenario.Silent:
		out.Result, out.Seen = Fail, "it fired after "+after(max(out.Rows[0].At.Sub(from), 0))
	case fired:
		out.Result, out.Seen = Pass, "after "+after(max(out.Rows[0].At.Sub(from), 0))
	case o.AlertsHeard.Before(until):
		out.late = true
		out.Seen = "nothing, and alerts are known only up to " + clockOf(o.AlertsHeard)
	case a.Event == scenario.Silent:
		out.Result, out.Seen = Pass, "it stayed silent"
	default:
		out.Result, out.Seen = Fail, "it did not fire"
	}
	return out
}

// served judges the configuration that the gateways of the run serve.
func served(out Assertion, r Run, a scenario.Assertion, o Observations) Assertion {
	seen := map[string]bool{}
	for _, x := range r.Receipts {
		i := slices.IndexFunc(o.Served, func(g Gateway) bool { return g.Name == x.Gateway })
		if seen[x.Gateway] {
			continue
		}
		seen[x.Gateway] = true
		if i < 0 || o.Served[i].ConfigHash == "" || a.Event == scenario.Unchanged && x.Config == "" {
			out.Seen = "gateway " + x.Gateway + " did not say what it serves"
			return out
		}
		g := o.Served[i]
		if a.Event == scenario.Unchanged && g.ConfigHash != x.Config ||
			a.Event != scenario.Unchanged && !strings.HasPrefix(g.ConfigHash, a.Event) && g.ConfigRevision != a.Event {
			out.Rows = append(out.Rows, Row{g.At, fmt.Sprintf("gateway %s serves %s, and served %s when it armed", g.Name, g.ConfigHash, x.Config)})
		}
	}
	out.N = int64(len(seen))
	switch {
	case len(seen) == 0:
	case len(out.Rows) > 0:
		out.Result, out.Seen = Fail, fmt.Sprintf("%d of %d gateways serve another one", len(out.Rows), len(seen))
	default:
		out.Result, out.Seen = Pass, fmt.Sprintf("gateways: %d", len(seen))
	}
	return out
}

func after(d time.Duration) string { return took(float64(d.Microseconds())) }

func clockOf(t time.Time) string {
	if t.IsZero() {
		return "nowhere"
	}
	return t.UTC().Format("15:04:05 UTC")
}
