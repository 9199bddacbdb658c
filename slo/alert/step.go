package alert

import (
	"fmt"
	"slices"
	"time"
)

// Rules are the times of the machine.
type Rules struct {
	// Hold is how long nothing must be seen before an incident of a scope closes; nil: 15 min.
	Hold func(service, env string) time.Duration
	// Reopen is how soon after its end an incident that comes back is still the
	// same one; zero: an hour.
	Reopen time.Duration
	// Resend is how often an open incident is sent anew to who wants that; zero: a minute.
	Resend time.Duration
	// Routes tell who hears of what.
	Routes []Route
	NewID  func() string
}

// DefaultHold is long enough that a rate hovering at its threshold is one
// incident, and short enough that an outage is over within half an hour of its end.
const DefaultHold = 15 * time.Minute

// State is what the machine remembers: incidents that are open or closed of late,
// and the silences that may hold.
type State struct {
	Incidents []Incident
	Silences  []Silence
}

// Outcome is what one step decided.
type Outcome struct {
	Changed  []Incident
	Messages []Delivery
	Whys     []Why
}

// Delivery is a message to one receiver.
type Delivery struct {
	Message
	Receiver string // route/receiver
}

// machine is one step under way.
type machine struct {
	rules   Rules
	state   State
	now     time.Time
	explain func(Incident) Context
	changed map[string]bool
	out     Outcome
}

// Step takes the machine from state to the next, with what was seen at now.
// explain gives the context of an incident that is about to be told.
func Step(rules Rules, state State, sight Sight, explain func(Incident) Context, now time.Time) Outcome {
	if rules.Reopen == 0 {
		rules.Reopen = time.Hour
	}
	if rules.Resend == 0 {
		rules.Resend = time.Minute
	}
	if rules.Hold == nil {
		rules.Hold = func(string, string) time.Duration { return DefaultHold }
	}
	m := &machine{rules: rules, state: State{slices.Clone(state.Incidents), state.Silences}, now: now, explain: explain, changed: map[string]bool{}}
	for _, s := range sight.Symptoms {
		if s.Tier == L1 || s.Class == Override {
			m.symptom(s)
		}
	}
	for _, s := range sight.Symptoms {
		if s.Tier == L2 && s.Class != Override {
			m.fact(s)
		}
	}
	m.close(sight)
	// The gravest first, so that the milder ones find that people know already.
	order := make([]int, len(m.state.Incidents))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return m.state.Incidents[b].Severity.rank() - m.state.Incidents[a].Severity.rank()
	})
	for _, i := range order {
		m.tell(&m.state.Incidents[i])
	}
	for _, i := range m.state.Incidents {
		if m.changed[i.ID] {
			m.out.Changed = append(m.out.Changed, i)
		}
	}
	return m.out
}

// find returns the open incident of a scope and class, or one closed so lately
// that it is still the same trouble.
func (m *machine) find(service, env string, class Class, closedToo bool) *Incident {
	var found *Incident
	for k := range m.state.Incidents {
		i := &m.state.Incidents[k]
		if i.Service != service || i.Env != env || i.Class != class {
			continue
		}
		if i.Open() {
			return i
		}
		if closedToo && m.now.Sub(*i.ClosedAt) < m.rules.Reopen && (found == nil || i.ClosedAt.After(*found.ClosedAt)) {
			found = i
		}
	}
	return found
}

func (m *machine) open(s Symptom, sev Severity) *Incident {
	if i := m.find(s.Service, s.Env, s.Class, true); i != nil {
		if !i.Open() {
			i.ClosedAt, i.Flaps = nil, i.Flaps+1
			i.Told, i.ToldBy, i.Severity, i.AckedBy, i.AckedAt, i.AckNote = Note, "", Note, "", nil, ""
			i.Title = ""
			m.changed[i.ID] = true
		}
		return i
	}
	m.state.Incidents = append(m.state.Incidents, Incident{ID: m.rules.NewID(), Service: s.Service, Env: s.Env, Class: s.Class, Tier: s.Tier,
		Severity: sev, Told: Note, OpenedAt: m.now, LastSeen: m.now, Symptoms: []Lasting{}, Facts: []Lasting{}})
	i := &m.state.Incidents[len(m.state.Incidents)-1]
	m.changed[i.ID] = true
	return i
}

func (m *machine) symptom(s Symptom) {
	i := m.open(s, s.Severity)
	if i.Tier == L1 && len(i.Facts) == 0 {
		m.absorb(i)
	}
	fresh := s.Class == Override && !slices.ContainsFunc(i.Symptoms, func(l Lasting) bool { return l.Key == s.Key })
	m.saw(i, &i.Symptoms, s)
	if fresh {
		// Each request is news of its own, and no milder than what is let out already.
		i.Told, i.ToldBy, i.Title = Note, "", fmt.Sprintf("%s (%s): %s", s.Service, s.Env, s.Text)
	}
	if s.Severity.rank() > i.Severity.rank() || i.Title == "" {
		i.Severity, i.Title = s.Severity, fmt.Sprintf("%s (%s): %s", s.Service, s.Env, s.Text)
		m.changed[i.ID] = true
	}
}

// saw notes s among list, of the incident i.
func (m *machine) saw(i *Incident, list *[]Lasting, s Symptom) {
	i.LastSeen = m.now
	m.changed[i.ID] = true
	own := slices.Clone(*list)
	k := slices.IndexFunc(own, func(l Lasting) bool { return l.Key == s.Key })
	if k < 0 {
		own = append(own, Lasting{s, m.now, m.now})
	} else {
		own[k].Symptom, own[k].Last = s, m.now
	}
	*list = own
}

// absorb takes over what is known of causes from the scope's own L2 incident.
func (m *machine) absorb(i *Incident) {
	l2 := m.find(i.Service, i.Env, Causes, false)
	if l2 == nil {
		return
	}
	i.Facts = slices.Clone(l2.Symptoms)
	at := m.now
	l2.ClosedAt, l2.ToldBy = &at, i.ID
	m.changed[l2.ID], m.changed[i.ID] = true, true
	m.why(*l2, Resolved, "", "attached", "Its facts are part of incident "+i.ID+" now.")
}

// fact puts a cause to the open incident of its scope, or opens one of its own
// that nobody is told of.
func (m *machine) fact(s Symptom) {
	for _, class := range []Class{Errors, Budget, Silent} {
		if i := m.find(s.Service, s.Env, class, false); i != nil && i.Open() {
			k := slices.IndexFunc(i.Facts, func(l Lasting) bool { return l.Key == s.Key })
			seen := i.LastSeen
			m.saw(i, &i.Facts, s)
			i.LastSeen = seen // a cause does not keep a pain alive
			if k < 0 {
				m.why(*i, Update, "", "attached", "A cause joins it: "+s.Text)
			}
			return
		}
	}
	s.Class, s.Severity = Causes, Note
	i := m.open(s, Note)
	m.saw(i, &i.Symptoms, s)
	if i.Title == "" {
		i.Title = fmt.Sprintf("%s (%s): %s", s.Service, s.Env, s.Text)
	}
}

// close ends incidents of which nothing was seen for a while, longer each time one
// has come back. While its scope cannot be seen the clock stands still.
func (m *machine) close(sight Sight) {
	for k := range m.state.Incidents {
		i := &m.state.Incidents[k]
		if !i.Open() || i.LastSeen.Equal(m.now) {
			continue
		}
		at := scope{i.Service, i.Env}
		if _, known := sight.worst[at]; sight.blind[at] && i.Class != Silent && i.Class != Override || !known && i.Tier == L1 {
			i.LastSeen = m.now
			m.changed[i.ID] = true
			continue
		}
		hold := m.rules.Hold(i.Service, i.Env) << min(i.Flaps, 3)
		switch i.Class {
		case Budget, Override:
			hold = 0 // levels have a hysteresis of their own, and an override ends once
		case Silent:
			hold = min(hold, silent)
		}
		if m.now.Sub(i.LastSeen) < hold {
			continue
		}
		end := m.now
		i.ClosedAt = &end
		m.changed[i.ID] = true
		switch {
		case i.Told.rank() > 0 && i.ToldBy == "":
			m.send(i, Resolved)
		case i.ToldBy != "":
			m.why(*i, Resolved, "", "inhibited", "Incident "+i.ToldBy+" told of it, and tells of its own end.")
		default:
			m.why(*i, Resolved, "", "too_mild", "Nobody was told of it, so nobody is told of its end.")
		}
	}
}

// tell says what people do not know yet, unless it is too mild, they know of worse
// in the same place, or it is silenced.
func (m *machine) tell(i *Incident) {
	if !i.Open() {
		return
	}
	if i.Severity.rank() <= i.Told.rank() {
		if i.Told.rank() > 0 && i.ToldBy == "" && m.now.Sub(i.SentAt) >= m.rules.Resend && m.muted(*i) == "" {
			m.send(i, Update)
		}
		return
	}
	if by := m.known(*i); by != "" {
		i.Told, i.ToldBy = i.Severity, by
		m.changed[i.ID] = true
		m.why(*i, Opened, "", "inhibited", "Incident "+by+" of the same service tells of worse already.")
		return
	}
	if silence := m.muted(*i); silence != "" {
		if i.Muted != silence {
			i.Muted = silence
			m.changed[i.ID] = true
			m.why(*i, Opened, "", "silenced", "Silence "+silence+" keeps it quiet; it is sent when that ends, if it still goes on.")
		}
		return
	}
	kind := Opened
	if i.Told.rank() > 0 && i.ToldBy == "" {
		kind = Escalated
	}
	i.Told, i.ToldBy, i.Muted = i.Severity, "", ""
	m.send(i, kind)
}

// known is an open incident of the same scope that told people of at least as much.
func (m *machine) known(i Incident) string {
	for _, other := range m.state.Incidents {
		if i.Class == Override || other.Class == Override {
			continue // who breaks the glass is another matter than why
		}
		if other.ID != i.ID && other.Open() && other.Service == i.Service && other.Env == i.Env && other.ToldBy == "" &&
			other.Told.rank() >= i.Severity.rank() {
			return other.ID
		}
	}
	return ""
}

func (m *machine) muted(i Incident) string {
	for _, s := range m.state.Silences {
		if s.Mutes(i, m.now) {
			return s.ID
		}
	}
	return ""
}

func (m *machine) send(i *Incident, kind Kind) {
	i.SentAt = m.now
	m.changed[i.ID] = true
	if m.explain != nil && kind != Resolved {
		i.Context = m.explain(*i)
	}
	if kind != Update {
		i.Notified++
	}
	msg := Message{ID: m.rules.NewID(), Kind: kind, At: m.now, Incident: *i}
	names := recipients(m.rules.Routes, *i, kind)
	for _, name := range names {
		m.out.Messages = append(m.out.Messages, Delivery{msg, name})
		if kind != Update {
			m.why(*i, kind, name, "queued", "It is sent.")
		}
	}
	if len(names) == 0 && kind != Update {
		m.why(*i, kind, "", "no_route", "No AlertRoute names a receiver for it.")
	}
}

func (m *machine) why(i Incident, kind Kind, receiver, outcome, text string) {
	m.out.Whys = append(m.out.Whys, Why{Incident: i.ID, At: m.now, Kind: kind, Receiver: receiver, Outcome: outcome, Text: text})
}
