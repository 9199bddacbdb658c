// Package alert turns what is wrong with services into incidents that tell people
// once what they need: who suffers, what is likely the cause, what protects now.
//
// L1 is what users feel, and the only tier that is sent. L2 is a cause: it joins an
// open L1, or opens an incident that nobody is told of. L3 is written down.
package alert

import (
	"time"

	"breakwater/slo"
)

// Tier is how close to a user's pain a symptom is.
type Tier string

// The tiers.
const (
	L1 Tier = "L1"
	L2 Tier = "L2"
	L3 Tier = "L3"
)

// Class is what an incident is about. A scope, a service in an environment, has
// at most one open incident of each.
type Class string

// The classes.
const (
	Errors Class = "errors"  // requests fail, or are too slow, faster than the promise allows
	Budget Class = "budget"  // the budget is nearly or wholly spent
	Silent Class = "silence" // no gateway reports
	Causes Class = "cause"   // L2 alone
	// Override: somebody asks to pass a freeze, or was let. It hurts no user, so it is
	// no L1; but each of them is told, whatever else people know.
	Override Class = "override"
)

// Severity is how much somebody has to do, in rising order.
type Severity string

// The severities.
const (
	Note   Severity = "note"   // never sent
	Ticket Severity = "ticket" // in working hours
	Freeze Severity = "freeze" // releases stop
	Page   Severity = "page"   // now
)

// rank orders severities.
func (s Severity) rank() int {
	return map[Severity]int{Note: 0, Ticket: 1, Freeze: 2, Page: 3}[s]
}

// Symptom is one thing wrong with one scope at one look.
type Symptom struct {
	Service  string   `json:"service"`
	Env      string   `json:"env"`
	Class    Class    `json:"class"`
	Tier     Tier     `json:"tier"`
	Key      string   `json:"key"` // within its class: "burn:1h"
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	// Rank 0 is the clearest word for what happens; it makes the title.
	Rank int `json:"-"`
}

// Lasting is a symptom with its time.
type Lasting struct {
	Symptom
	Since time.Time `json:"since"`
	Last  time.Time `json:"last_seen"`
}

// Incident is what people are told of, once.
type Incident struct {
	ID       string    `json:"id"`
	Service  string    `json:"service"`
	Env      string    `json:"env"`
	Class    Class     `json:"class"`
	Tier     Tier      `json:"tier"`
	Severity Severity  `json:"severity"` // the highest it reached
	Title    string    `json:"title"`
	OpenedAt time.Time `json:"opened_at"`
	// LastSeen is when a symptom was last seen; it closes when none was for a while.
	LastSeen time.Time  `json:"last_seen"`
	ClosedAt *time.Time `json:"closed_at"`
	// Told is the highest severity that people were told of; ToldBy names the
	// incident that told them of more, so that this one need not. "": itself.
	Told   Severity `json:"told"`
	ToldBy string   `json:"told_by,omitempty"`
	// Flaps is how often it came back soon after it had closed.
	Flaps    int        `json:"flaps"`
	Notified int        `json:"notified"` // how many messages it made, updates left out
	AckedBy  string     `json:"acked_by,omitempty"`
	AckedAt  *time.Time `json:"acked_at"`
	AckNote  string     `json:"ack_note,omitempty"`
	SentAt   time.Time  `json:"sent_at"` // last message, updates too
	// Muted is the silence, or another reason, that last kept it from being sent.
	Muted    string    `json:"muted,omitempty"`
	Symptoms []Lasting `json:"symptoms"`
	Facts    []Lasting `json:"facts"` // L2
	Context  Context   `json:"context"`
}

// Open reports whether i goes on.
func (i Incident) Open() bool { return i.ClosedAt == nil }

// Kind is what a message says of an incident.
type Kind string

// The kinds. Update goes only where a receiver wants the state again and again.
const (
	Opened    Kind = "opened"
	Escalated Kind = "escalated"
	Resolved  Kind = "resolved"
	Acked     Kind = "acknowledged"
	Update    Kind = "update"
)

// Message is one thing to say, to whoever the routes name.
type Message struct {
	ID       string    `json:"id"`
	Kind     Kind      `json:"kind"`
	At       time.Time `json:"at"`
	Incident Incident  `json:"incident"`
}

// Why is why somebody was told of an incident, or was not.
type Why struct {
	Incident string    `json:"incident"`
	At       time.Time `json:"at"`
	Kind     Kind      `json:"kind"`
	Receiver string    `json:"receiver"` // "": nobody in particular
	// Outcome: queued, sent, failed, gave_up, silenced, inhibited, too_mild, no_route.
	Outcome string `json:"outcome"`
	Text    string `json:"text"`
}

// Silence keeps matching incidents from being sent, until it ends. Empty fields
// match all.
type Silence struct {
	ID       string     `json:"id"`
	Service  string     `json:"service"`
	Env      string     `json:"env"`
	Class    Class      `json:"class"`
	Severity Severity   `json:"severity"` // the highest it keeps quiet; "": all
	From     time.Time  `json:"from"`
	Until    time.Time  `json:"until"`
	By       string     `json:"by"`
	Reason   string     `json:"reason"`
	EndedBy  string     `json:"ended_by,omitempty"`
	EndedAt  *time.Time `json:"ended_at"`
}

// Mutes reports whether s keeps i quiet at now.
func (s Silence) Mutes(i Incident, now time.Time) bool {
	return s.EndedAt == nil && !now.Before(s.From) && now.Before(s.Until) &&
		(s.Service == "" || s.Service == i.Service) && (s.Env == "" || s.Env == i.Env) && (s.Class == "" || s.Class == i.Class) &&
		(s.Severity == "" || i.Severity.rank() <= s.Severity.rank())
}

// Jotting is an L3: written down, never sent.
type Jotting struct {
	Service string    `json:"service"`
	Env     string    `json:"env"`
	Key     string    `json:"key"`
	Text    string    `json:"text"`
	First   time.Time `json:"first_at"`
	Last    time.Time `json:"last_at"`
	Count   int64     `json:"count"`
}

// scope is a service in an environment.
type scope struct{ service, env string }

// Sight is what one look at the evaluation saw.
type Sight struct {
	Symptoms []Symptom
	Notes    []Jotting
	// Blind are the scopes of which nothing can be said now: what was wrong with
	// them is not over because it cannot be seen.
	blind map[scope]bool
	worst map[scope]slo.Status
}

// Add adds symptoms that others have seen, such as facts that were posted.
func (s *Sight) Add(more ...Symptom) { s.Symptoms = append(s.Symptoms, more...) }
