// Package readiness answers, for one service, the questions that have to be asked
// before it is broken on purpose: is its promise written down, would anybody notice,
// does what should protect it do so, and does what is found get mended.
//
// Answers are computed from what the system holds, each with the place to look. What
// it cannot know people answer, with evidence, and their answer grows old.
package readiness

import (
	"fmt"
	"strings"
	"time"
)

// State of an answer.
type State string

// The states. Unknown is never a yes.
const (
	Yes     State = "yes"
	No      State = "no"
	Unknown State = "unknown"
)

// Answer is one question with what is known of it.
type Answer struct {
	ID       string    `json:"id"`
	Group    string    `json:"group"`
	Question string    `json:"question"`
	State    State     `json:"state"`
	Text     string    `json:"text"`
	Evidence string    `json:"evidence,omitempty"` // where to look
	ByHand   bool      `json:"by_hand"`            // a person answers it
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// Given is what a person said of one question.
type Given struct {
	Item, Evidence, Actor string
	Yes                   bool
	At                    time.Time
}

// GoodFor is how long a person's answer holds.
const GoodFor = 180 * 24 * time.Hour

// Cadence is how long ago the last drill may be.
const Cadence = 100 * 24 * time.Hour

// Proof is a run that showed something.
type Proof struct {
	Run string
	At  time.Time
}

// Facts are what the system holds of one service.
type Facts struct {
	Service   string
	Now       time.Time
	Contracts []string // documents that describe its interface
	Checks    []string // resilience contracts that are checked against what gateways serve
	Codes     []string // dictionaries of its error codes
	Success   []string // objectives on the share of good requests
	Latency   []string // objectives on how long they take
	Receivers []string // who is told when its users suffer
	AlertFeed bool     // alerts are computed, with context, at this moment
	Routes    int      // that gateways take for it
	Limited   int      // of them, with a limit
	// Retried counts the routes that try again, Bounded those of them whose tries
	// are bounded by a budget or an error rate, Declared those whose documents say
	// that what changes something may be sent twice; of the others it never is.
	Retried, Bounded, Declared int
	Gateways                   int // that report
	Opened                     *Proof
	Schedules                  []string
	Held                       time.Time // the newest drill of it that was completed
	Findings, Open, Overdue    int
	Incidents                  int // that were marked, of late
	Drawn                      []string
	Given                      []Given
}

// Items are the ids of the fifteen questions, in order. The list has four groups;
// what alerts are sent by and what they say is one question.
func Items() []string {
	return []string{"contract", "contract-check", "error-codes", "versions", "sli", "slo", "alerts", "limits", "breaker", "retries", "retry-count",
		"cadence", "findings", "scenarios", "budget-review"}
}

// ByHand reports whether a person answers item.
func ByHand(item string) bool {
	switch item {
	case "contract-check", "versions", "limits", "budget-review":
		return true
	}
	return false
}

// Known reports whether item is one of Items.
func Known(item string) bool {
	for _, id := range Items() {
		if id == item {
			return true
		}
	}
	return false
}

// Assess answers all fifteen.
func Assess(f Facts) []Answer {
	at := func(path string) string { return path + "?service=" + f.Service }
	out := []Answer{
		has("contract", "contract", "Is its interface written down so that a machine can read it?", f.Contracts, "no contract names it", "/api/v1/services"),
		{ID: "contract-check", Group: "contract", Question: "Is every change of the contract checked for compatibility before it goes out?", State: Unknown,
			Text: "pipelines run elsewhere", Evidence: "/api/v1/services"},
		has("error-codes", "contract", "Do error codes come from one dictionary that gateways map to?", f.Codes, "no dictionary covers it", "/api/v1/services"),
		{ID: "versions", Group: "contract", Question: "Is it said how long an old version is kept, half a year or more?", State: Unknown, Text: "no document says it"},
		sli(f),
		slo(f),
		alerts(f),
		limits(f),
		breaker(f),
		retries(f),
		retryCount(f),
		cadence(f, at("/api/v1/gamedays")),
		findings(f, at("/api/v1/findings")),
		scenarios(f, at("/api/v1/experiments")),
		{ID: "budget-review", Group: "practice", Question: "Does the team look at what spent its error budget, regularly?", State: Unknown,
			Text: "reading leaves no trace", Evidence: at("/api/v1/reports/budget")},
	}
	for i := range out {
		out[i].ByHand = ByHand(out[i].ID)
		if out[i].ByHand && out[i].State == Unknown { // what is plainly not so stays so
			given(&out[i], f)
		}
	}
	return out
}

// Ready counts the answers that are yes.
func Ready(all []Answer) (n int) {
	for _, a := range all {
		if a.State == Yes {
			n++
		}
	}
	return n
}

func yes(ok bool) State {
	if ok {
		return Yes
	}
	return No
}

func has(id, group, question string, names []string, none, evidence string) Answer {
	a := Answer{ID: id, Group: group, Question: question, State: yes(len(names) > 0), Text: strings.Join(names, ", "), Evidence: evidence}
	if len(names) == 0 {
		a.Text = none
	}
	return a
}

// given takes a person's newest answer, where it is fresh enough.
func given(a *Answer, f Facts) {
	for _, g := range f.Given {
		if g.Item != a.ID || g.At.Before(a.At) {
			continue
		}
		a.By, a.At, a.Text, a.State = g.Actor, g.At, g.Evidence, yes(g.Yes)
		if f.Now.Sub(g.At) >= GoodFor {
			a.State, a.Text = Unknown, "answered on "+g.At.UTC().Format(time.DateOnly)+", too long ago: "+g.Evidence
		}
	}
}

func sli(f Facts) Answer {
	a := Answer{ID: "sli", Group: "observation", Question: "Do its indicators cover both success and the spread of latency?", Evidence: "/api/v1/slos",
		State: yes(len(f.Success) > 0 && len(f.Latency) > 0)}
	a.Text = fmt.Sprintf("objectives on success: %d, on latency: %d", len(f.Success), len(f.Latency))
	return a
}

func slo(f Facts) Answer {
	all := append(append([]string{}, f.Success...), f.Latency...)
	a := has("slo", "observation", "Is there a promise, with a budget computed from it?", all, "no objective is defined for it", "/api/v1/slos")
	if len(all) > 0 {
		a.Evidence = "/api/v1/slos/" + all[0] + "/budget"
	}
	return a
}

func alerts(f Facts) Answer {
	a := Answer{ID: "alerts", Group: "observation", Question: "Are alerts graded, sent to somebody, and do they say what is likely the cause?", Evidence: "/api/v1/alerts",
		State: yes(f.AlertFeed && len(f.Receivers) > 0), Text: "told: " + strings.Join(f.Receivers, ", ")}
	switch {
	case !f.AlertFeed:
		a.Text = "nothing computes alerts at this moment"
	case len(f.Receivers) == 0:
		a.Text = "no AlertRoute names anybody for it"
	}
	return a
}

func limits(f Facts) Answer {
	a := Answer{ID: "limits", Group: "protection", Question: "Do its limits rest on a load test?", State: Unknown,
		Text: fmt.Sprintf("%d of %d routes have a limit; no document says what it rests on", f.Limited, f.Routes), Evidence: "/api/v1/services"}
	if f.Routes > 0 && f.Limited == 0 {
		a.State, a.Text = No, "no route of it has a limit"
	}
	return a
}

func breaker(f Facts) Answer {
	a := Answer{ID: "breaker", Group: "protection", Question: "Has a drill shown that its breaker opens when it should?", State: No, Text: "no drill has shown it", Evidence: "/api/v1/experiments"}
	if f.Opened != nil {
		a.State, a.Text, a.Evidence = Yes, "opened in "+f.Opened.Run+" on "+f.Opened.At.UTC().Format(time.DateOnly), "/api/v1/experiments/"+f.Opened.Run
		if f.Now.Sub(f.Opened.At) > Cadence {
			a.State, a.Text = No, "last shown on "+f.Opened.At.UTC().Format(time.DateOnly)+", too long ago"
		}
	}
	return a
}

func retries(f Facts) Answer {
	a := Answer{ID: "retries", Group: "protection", Question: "Do retries respect what may be done twice, and can they make no storm?", Evidence: "/api/v1/services",
		State: yes(f.Routes > 0 && f.Bounded == f.Retried),
		Text:  fmt.Sprintf("%d of %d routes try again, %d of them bounded; %d declare that what changes something may be sent twice", f.Retried, f.Routes, f.Bounded, f.Declared)}
	if f.Routes == 0 {
		a.State, a.Text = Unknown, "no route of it is known here"
	}
	return a
}

func retryCount(f Facts) Answer {
	a := Answer{ID: "retry-count", Group: "protection", Question: "Do calls carry how often they were tried already?", Evidence: "/api/v1/experiments",
		State: yes(f.Gateways > 0 && f.Routes > 0), Text: fmt.Sprintf("gateways that report: %d; each adds Retry-Count to what it sends", f.Gateways)}
	switch {
	case f.Gateways == 0:
		a.State, a.Text = Unknown, "no gateway reports"
	case f.Routes == 0:
		a.State, a.Text = Unknown, "no route of it is known here"
	}
	return a
}

func cadence(f Facts, evidence string) Answer {
	a := Answer{ID: "cadence", Group: "practice", Question: "Is it drilled on a fixed schedule?", Evidence: evidence, State: No, Text: "no schedule drills it"}
	if len(f.Schedules) == 0 {
		return a
	}
	a.Text = "scheduled by " + strings.Join(f.Schedules, ", ")
	switch {
	case f.Held.IsZero():
		a.Text += "; none was completed yet"
	case f.Now.Sub(f.Held) > Cadence:
		a.Text += "; last completed on " + f.Held.UTC().Format(time.DateOnly) + ", too long ago"
	default:
		a.State, a.Text = Yes, a.Text+"; last completed on "+f.Held.UTC().Format(time.DateOnly)
	}
	return a
}

func findings(f Facts, evidence string) Answer {
	a := Answer{ID: "findings", Group: "practice", Question: "Is what drills find written down, with a date, and mended by it?", Evidence: evidence,
		State: yes(f.Overdue == 0), Text: fmt.Sprintf("%d found, %d open, %d overdue", f.Findings, f.Open, f.Overdue)}
	if f.Held.IsZero() && f.Findings == 0 {
		a.State, a.Text = Unknown, "no drill has looked yet"
	}
	return a
}

func scenarios(f Facts, evidence string) Answer {
	a := Answer{ID: "scenarios", Group: "practice", Question: "Did each real incident become a scenario?", Evidence: evidence,
		State: yes(len(f.Drawn) >= f.Incidents), Text: fmt.Sprintf("%d incidents of late, %d scenarios drawn from incidents", f.Incidents, len(f.Drawn))}
	if f.Incidents == 0 && len(f.Drawn) == 0 {
		a.State, a.Text = Unknown, "no incident was marked"
	}
	return a
}
