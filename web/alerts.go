package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/slo"
	"breakwater/slo/alert"
)

// Alerts is what the pages need of incidents.
type Alerts interface {
	Incidents(ctx context.Context, q alert.Question) ([]alert.Incident, error) // latest first
	// Incident is one of them, with why people were or were not told of it; an error
	// that is alert.ErrUnknown is a 404.
	Incident(ctx context.Context, id string) (alert.Incident, []alert.Why, error)
	Notes(ctx context.Context, q alert.Question) ([]alert.Jotting, error)
	Silences(ctx context.Context, now time.Time, all bool) ([]alert.Silence, error)
}

type alertsView struct {
	Sub, Trouble, Said string
	Tabs               []Link
	Tab                string
	Incidents          []IncidentRow
	Notes              []NoteRow
	Silences           []SilenceRow
	Find               string
	MayChange          bool
	Services           []string
	Take               Take
	Refused            Refused
}

// IncidentRow is one incident in the list.
type IncidentRow struct {
	Href, Title, Service, ServiceHref, Env string
	Tier                                   string
	Severity, State                        Chip
	Opened                                 Time
	Lasted, Told                           string
}

// NoteRow is what was only written down.
type NoteRow struct {
	Text, Service, Href string
	First, Last         Time
	Count               string
}

// SilenceRow is one silence.
type SilenceRow struct {
	ID, Of, Reason, By string
	From, Until        Time
	Left               string
	State              Chip
	End                string // where the form that ends it posts
}

func severityChip(s alert.Severity) Chip {
	switch s {
	case alert.Page:
		return Chip{"emergency", "s-emergency", "page"}
	case alert.Freeze:
		return Chip{"frozen", "s-frozen", "freeze"}
	case alert.Ticket:
		return Chip{"warn", "s-warn", "ticket"}
	}
	return Chip{"unknown", "e-log", "note"}
}

// incidentState is where an incident stands: whether somebody has it, or it is over.
func (l lang) incidentState(i alert.Incident) Chip {
	switch {
	case !i.Open():
		return Chip{"fg-normal", "s-normal", "over"}
	case i.AckedBy != "":
		return Chip{"fg-unknown", "b-half", l.say("with %s", i.AckedBy)}
	}
	return Chip{"fg-emergency", "s-emergency", "nobody has it"}
}

// told says whether anybody was told, and why not.
func (l lang) told(i alert.Incident) string {
	switch {
	case i.ToldBy != "":
		return l.say("by %s", i.ToldBy)
	case i.Muted != "":
		return l.say("no: %s", i.Muted)
	case i.Told == "" || i.Told == alert.Note:
		return l.say("nobody")
	}
	return l.count(i.Notified, "message", "messages")
}

func alertHref(id string) string { return "/alerts/" + url.PathEscape(id) }

func (s *Server) alerts(w http.ResponseWriter, r *http.Request, refused Refused) {
	v := s.look(r)
	q := r.URL.Query()
	tab := q.Get("view")
	if r.URL.Path == "/silences" {
		tab = "silences"
	}
	if tab != "all" && tab != "notes" && tab != "silences" {
		tab = "open"
	}
	page := alertsView{Tab: tab, Find: q.Get("q"), MayChange: s.cfg.MayLift(r), Take: take(r, tab), Refused: refused}
	page.Said = map[string]string{"silenced": v.say("The silence is in force."), "spoken": v.say("The silence is over.")}[q.Get("said")]
	for _, t := range []struct{ key, name string }{{"open", v.say("Open")}, {"all", v.say("All")}, {"notes", v.say("Written down (L3)")}, {"silences", v.say("Silences")}} {
		href := "/alerts"
		if t.key != "open" {
			href += "?view=" + t.key
		}
		page.Tabs = append(page.Tabs, Link{Name: t.name, Href: href, Here: t.key == tab})
	}
	covers := func(service string) bool { return service == "" || s.cfg.Covers(r, service) }
	out := sheet{name: tab}
	var err error
	switch tab {
	case "notes":
		err = s.notes(r, v, &page, &out, covers)
	case "silences":
		err = s.silenceList(r, v, &page, &out, covers)
	default:
		err = s.incidentList(r, v, &page, &out, covers, tab == "open")
	}
	page.Trouble = s.read(v, "Alerts", err)
	if s.exported(w, v, out) {
		return
	}
	for _, svc := range v.services {
		if covers(svc.Name) {
			page.Services = append(page.Services, svc.Name)
		}
	}
	s.show(w, v, refused.code(), "alerts", Page{Title: "Alerts", Topics: refused.topics(""), Crumbs: []Link{{Name: "Alerts"}}}, page)
}

func (s *Server) incidentList(r *http.Request, v view, page *alertsView, out *sheet, covers func(string) bool, open bool) error {
	list, err := s.cfg.Alerts.Incidents(r.Context(), alert.Question{Service: r.URL.Query().Get("service"), Open: open, Before: v.now.Add(time.Hour), Limit: 200})
	if err != nil {
		return err
	}
	out.columns = []string{"id", "service", "env", "tier", "class", "severity", "title", "opened_at", "closed_at", "acked_by", "acked_at", "messages", "told_by", "muted", "flaps"}
	at := func(t *time.Time) field {
		if t == nil {
			return field{}
		}
		return instant(*t)
	}
	urgent := 0
	for _, i := range list {
		if !covers(i.Service) {
			continue
		}
		if i.Open() && i.Tier == alert.L1 && i.AckedBy == "" {
			urgent++
		}
		end := v.now
		if i.ClosedAt != nil {
			end = *i.ClosedAt
		}
		page.Incidents = append(page.Incidents, IncidentRow{Href: alertHref(i.ID), Title: sentenceCase(v.tell(i.Title)), Service: i.Service, ServiceHref: serviceHref(i.Service), Env: i.Env, Tier: string(i.Tier),
			Severity: severityChip(i.Severity), State: v.incidentState(i), Opened: v.short(i.OpenedAt), Lasted: v.lasting(max(end.Sub(i.OpenedAt), 0).Truncate(time.Second)), Told: v.told(i)})
		out.rows = append(out.rows, []field{txt(i.ID), txt(i.Service), txt(i.Env), txt(string(i.Tier)), txt(string(i.Class)), txt(string(i.Severity)), txt(i.Title), instant(i.OpenedAt), at(i.ClosedAt), txt(i.AckedBy),
			at(i.AckedAt), num(int64(i.Notified)), txt(i.ToldBy), txt(i.Muted), num(int64(i.Flaps))})
	}
	page.Sub = v.say("%s, newest first.", v.count(len(page.Incidents), "incident", "incidents"))
	if open {
		page.Sub = v.clauses(v.count(len(page.Incidents), "incident goes on", "incidents go on"), v.count(urgent, "of them that users feel is nobody's.", "of them that users feel are nobody's."))
	}
	return nil
}

func (s *Server) notes(r *http.Request, v view, page *alertsView, out *sheet, covers func(string) bool) error {
	list, err := s.cfg.Alerts.Notes(r.Context(), alert.Question{Service: r.URL.Query().Get("service"), Find: page.Find, Before: v.now.Add(time.Hour), Limit: 200})
	out.columns = []string{"service", "env", "key", "text", "first_at", "last_at", "count"}
	for _, n := range list {
		if !covers(n.Service) {
			continue
		}
		page.Notes = append(page.Notes, NoteRow{Text: v.tell(n.Text), Service: n.Service, Href: serviceHref(n.Service), First: v.short(n.First), Last: v.short(n.Last), Count: slo.Count(n.Count)})
		out.rows = append(out.rows, []field{txt(n.Service), txt(n.Env), txt(n.Key), txt(n.Text), instant(n.First), instant(n.Last), num(n.Count)})
	}
	page.Sub = v.say("Written down, never sent: what may explain something later.")
	return err
}

func (s *Server) silenceList(r *http.Request, v view, page *alertsView, out *sheet, covers func(string) bool) error {
	list, err := s.cfg.Alerts.Silences(r.Context(), v.now, true)
	out.columns = []string{"id", "service", "env", "class", "severity", "from", "until", "by", "reason", "ended_by"}
	for _, x := range list {
		if !covers(x.Service) {
			continue
		}
		row := SilenceRow{ID: x.ID, Of: v.silenceOf(x), Reason: x.Reason, By: x.By, From: v.short(x.From), Until: v.short(x.Until), State: Chip{"fg-unknown", "s-nodata", "over"}}
		switch {
		case x.EndedAt != nil:
			row.State.Text = v.say("ended by %s", x.EndedBy)
		case v.now.Before(x.From):
			row.State, row.Left = Chip{"fg-unknown", "s-unknown", "to come"}, v.in(x.From)
		case v.now.Before(x.Until):
			row.State, row.Left = Chip{"fg-warn", "s-warn", "in force"}, v.say("ends %s", v.in(x.Until))
		}
		if page.MayChange && x.EndedAt == nil && v.now.Before(x.Until) {
			row.End = "/silences/" + url.PathEscape(x.ID) + "/end"
		}
		page.Silences = append(page.Silences, row)
		out.rows = append(out.rows, []field{txt(x.ID), txt(x.Service), txt(x.Env), txt(string(x.Class)), txt(string(x.Severity)), instant(x.From), instant(x.Until), txt(x.By), txt(x.Reason), txt(x.EndedBy)})
	}
	page.Sub = v.say("What is silenced is not sent; it is shown all the same.")
	return err
}

func (l lang) silenceOf(x alert.Silence) string {
	parts := []string{l.say("all services")}
	if x.Service != "" {
		parts[0] = x.Service
	}
	if x.Env != "" {
		parts = append(parts, x.Env)
	}
	if x.Class != "" {
		parts = append(parts, l.say("%s alone", l.word(string(x.Class))))
	}
	if x.Severity != "" {
		parts = append(parts, l.say("up to %s", l.word(string(x.Severity))))
	}
	return l.list(parts...)
}

type alertView struct {
	ID, Title, Sub, Service, ServiceHref, Said string
	Severity, State                            Chip
	Ack, Silence                               string // where forms post
	Facts                                      []Fact
	Symptoms, Causes                           []LastingRow
	Context                                    []string
	Whys                                       []WhyRow
	Now, Take                                  string
	TakeWhy                                    Take
	Refused                                    Refused
}

// LastingRow is a symptom or a cause with its time.
type LastingRow struct {
	Text        string
	Since, Last Time
}

// WhyRow says why somebody was told, or was not.
type WhyRow struct {
	Time                 Time
	Kind, Receiver, Text string
	Outcome              Chip
}

func outcomeChip(outcome string) Chip {
	word := strings.ReplaceAll(outcome, "_", " ")
	switch outcome {
	case "sent", "acknowledged":
		return Chip{"fg-normal", "s-normal", word}
	case "failed", "gave_up":
		return Chip{"fg-emergency", "s-emergency", word}
	case "silenced", "inhibited", "too_mild", "no_route":
		return Chip{"fg-unknown", "s-nodata", word}
	}
	return Chip{"fg-unknown", "e-log", word}
}

func (s *Server) alert(w http.ResponseWriter, r *http.Request, refused Refused) {
	v := s.look(r)
	id := chi.URLParam(r, "id")
	i, whys, err := s.cfg.Alerts.Incident(r.Context(), id)
	switch {
	case errors.Is(err, alert.ErrUnknown) || err == nil && !s.cfg.Covers(r, i.Service):
		s.trouble(w, v, http.StatusNotFound, v.say("No incident %s", id), "There is no incident of this id, or your token does not cover its service.")
		return
	case err != nil:
		s.trouble(w, v, http.StatusServiceUnavailable, v.say("Incident %s", id), v.text(s.read(v, "The incident", err), v.say("Control asks the database again by itself.")))
		return
	}
	log := sheet{name: "why", columns: []string{"at", "kind", "receiver", "outcome", "text"}}
	page := alertView{ID: i.ID, Title: sentenceCase(v.tell(i.Title)), Service: i.Service, ServiceHref: serviceHref(i.Service), Severity: severityChip(i.Severity), State: v.incidentState(i), Context: v.tellAll(i.Context.Lines()),
		Now: "/now?" + url.Values{"service": {i.Service}, "env": {i.Env}}.Encode(), TakeWhy: take(r, "why"), Refused: refused}
	page.Said = map[string]string{"acknowledged": v.say("It is yours: everybody who was told is told so.")}[r.URL.Query().Get("said")]
	page.Sub = v.say("%s of %s in %s, since %s.", string(i.Tier), i.Service, i.Env, v.day(i.OpenedAt).Text)
	if i.Open() && s.cfg.MayLift(r) {
		page.Silence = i.Service
		if i.AckedBy == "" {
			page.Ack = alertHref(i.ID) + "/ack"
		}
	}
	page.Facts = v.incidentFacts(i)
	for _, x := range i.Symptoms {
		page.Symptoms = append(page.Symptoms, LastingRow{v.tell(x.Text), v.short(x.Since), v.short(x.Last)})
	}
	for _, x := range i.Facts {
		page.Causes = append(page.Causes, LastingRow{v.tell(x.Text), v.short(x.Since), v.short(x.Last)})
	}
	for _, y := range whys {
		page.Whys = append(page.Whys, WhyRow{Time: v.short(y.At), Kind: string(y.Kind), Receiver: y.Receiver, Outcome: outcomeChip(y.Outcome), Text: v.tell(y.Text)})
		log.rows = append(log.rows, []field{instant(y.At), txt(string(y.Kind)), txt(y.Receiver), txt(y.Outcome), txt(y.Text)})
	}
	if s.exported(w, v, log) {
		return
	}
	s.show(w, v, refused.code(), "alert", Page{Title: i.ID, Topics: refused.topics(""), Crumbs: []Link{{Name: "Alerts", Href: "/alerts"}, {Name: i.ID}}}, page)
}

func (v view) incidentFacts(i alert.Incident) []Fact {
	end, lasted := v.now, v.say("Goes on.")
	if i.ClosedAt != nil {
		end, lasted = *i.ClosedAt, v.say("Over since %s.", v.day(*i.ClosedAt).Text)
	}
	facts := []Fact{{Name: "Lasted", Value: v.lasting(max(end.Sub(i.OpenedAt), 0).Truncate(time.Second)), Text: lasted}}
	who := Fact{Name: "Looked after", Value: v.say("nobody"), Class: "fg-emergency", Text: v.say("Not acknowledged.")}
	if i.AckedBy != "" {
		who.Value, who.Class, who.Text = i.AckedBy, "", v.say("Since %s.", v.short(*i.AckedAt).Text)+" "+i.AckNote
	} else if !i.Open() {
		who.Class = "mute"
	}
	facts = append(facts, who, Fact{Name: "Messages", Value: slo.Count(int64(i.Notified)), Text: sentence(v.told(i))})
	failed := Fact{Name: "Failed", Value: "–", Class: "mute", Text: v.say("No counts were at hand.")}
	if c := i.Context; c.Total > 0 {
		failed.Value, failed.Class, failed.Text = slo.Percent(slo.Part(c.Bad, c.Total)), "", v.say("%s of %s events when it was looked at.", slo.Count(c.Bad), slo.Count(c.Total))
	}
	if i.Flaps > 0 {
		facts[0].Text += v.say(" Came back %s.", v.count(i.Flaps, "time", "times"))
	}
	return append(facts, failed)
}
