package alert

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

func (s Sender) link(i Incident) string {
	if s.Pages == "" {
		return ""
	}
	return strings.TrimSuffix(s.Pages, "/") + "/now?incident=" + url.QueryEscape(i.ID)
}

// headline is the one line of a message.
func headline(m Message) string {
	i := m.Incident
	switch m.Kind {
	case Resolved:
		return fmt.Sprintf("resolved: %s", i.Title)
	case Acked:
		return fmt.Sprintf("acknowledged by %s: %s", i.AckedBy, i.Title)
	}
	return i.Title
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most-len("…")]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

func lines(m Message) []string {
	out := m.Incident.Context.Lines()
	for _, f := range m.Incident.Facts {
		out = append(out, "Cause: "+f.Text)
	}
	return out
}

// amAlert is a postableAlert of Alertmanager's API v2.
type amAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// NameOf is the name under which Alertmanager knows incidents of c.
func NameOf(c Class) string {
	if c == "" {
		return "Breakwater"
	}
	return "Breakwater" + strings.ToUpper(string(c[:1])) + string(c[1:])
}

// lives is how long Alertmanager is to believe an alert that is not sent again: a
// few times Rules.Resend, so that one lost update resolves nothing.
const lives = 5 * time.Minute

// alertmanager has labels that stay the same while the incident lives: they are
// its identity there. Severity is one, since people route by it; an incident that
// has grown graver ends the alert it was before.
func (s Sender) alertmanager(m Message, now time.Time) []amAlert {
	i := m.Incident
	of := func(severity Severity, ends time.Time) amAlert {
		return amAlert{
			Labels: map[string]string{"alertname": NameOf(i.Class), "service": i.Service,
				"env": i.Env, "tier": string(i.Tier), "severity": string(severity), "incident": i.ID},
			Annotations:  map[string]string{"summary": headline(m), "description": strings.Join(lines(m), "\n")},
			StartsAt:     i.OpenedAt.UTC(),
			EndsAt:       ends.UTC(),
			GeneratorURL: s.link(i),
		}
	}
	if m.Kind == Resolved && i.ClosedAt != nil {
		return []amAlert{of(i.Severity, *i.ClosedAt)}
	}
	out := []amAlert{of(i.Severity, now.Add(lives))}
	if m.Kind == Escalated {
		for _, was := range []Severity{Ticket, Freeze} {
			if was.rank() < i.Severity.rank() {
				out = append(out, of(was, m.At))
			}
		}
	}
	return out
}

// slackText escapes what Slack reads as markup.
func slackText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

type slackMessage struct {
	Text   string       `json:"text"` // of notifications, and where blocks are not shown
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type string      `json:"type"`
	Text *slackField `json:"text,omitempty"`
}

type slackField struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// A section holds at most 3000 characters, a header 150, and that plain.
func (s Sender) slack(m Message) slackMessage {
	mark := map[Kind]string{Resolved: ":white_check_mark:", Acked: ":eyes:"}[m.Kind]
	if mark == "" {
		mark = map[Severity]string{Page: ":rotating_light:", Freeze: ":snowflake:"}[m.Incident.Severity]
	}
	head := headline(m)
	body := strings.Join(lines(m), "\n• ")
	if body != "" {
		body = "• " + body
	}
	text := strings.TrimSpace(mark + " *" + slackText(clip(head, 600)) + "*")
	if m.Kind != Resolved && body != "" {
		text += "\n" + slackText(clip(body, 2000))
	}
	if l := s.link(m.Incident); l != "" {
		text += "\n<" + l + "|" + "what happens now>"
	}
	return slackMessage{Text: slackText(clip(head, 300)), Blocks: []slackBlock{{Type: "section", Text: &slackField{"mrkdwn", text}}}}
}

type pdEvent struct {
	RoutingKey string     `json:"routing_key"`
	Action     string     `json:"event_action"`
	DedupKey   string     `json:"dedup_key"`
	Client     string     `json:"client,omitempty"`
	ClientURL  string     `json:"client_url,omitempty"`
	Payload    *pdPayload `json:"payload,omitempty"`
	Links      []pdLink   `json:"links,omitempty"`
}

type pdPayload struct {
	Summary   string         `json:"summary"` // up to 1024 characters
	Source    string         `json:"source"`
	Severity  string         `json:"severity"` // critical, error, warning, info
	Timestamp time.Time      `json:"timestamp"`
	Component string         `json:"component,omitempty"`
	Group     string         `json:"group,omitempty"`
	Class     string         `json:"class,omitempty"`
	Details   map[string]any `json:"custom_details,omitempty"`
}

type pdLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

func (s Sender) pagerDuty(m Message, key string) pdEvent {
	i := m.Incident
	e := pdEvent{RoutingKey: key, Action: "trigger", DedupKey: i.ID, Client: "breakwater", ClientURL: s.link(i)}
	switch m.Kind {
	case Resolved:
		e.Action = "resolve"
	case Acked:
		e.Action = "acknowledge"
	}
	if e.Action != "trigger" {
		return e
	}
	severity := map[Severity]string{Page: "critical", Freeze: "error", Ticket: "warning"}[i.Severity]
	if severity == "" {
		severity = "info"
	}
	e.Payload = &pdPayload{Summary: clip(headline(m), 1000), Source: i.Service + "." + i.Env, Severity: severity, Timestamp: i.OpenedAt.UTC(),
		Component: i.Service, Group: i.Env, Class: string(i.Class), Details: map[string]any{"context": lines(m), "incident": i.ID}}
	if e.ClientURL != "" {
		e.Links = []pdLink{{e.ClientURL, "what happens now"}}
	}
	return e
}

// cloudEvent is CloudEvents 1.0 in structured mode.
type cloudEvent struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject"`
	Time        time.Time `json:"time"`
	ContentType string    `json:"datacontenttype"`
	Data        any       `json:"data"`
}

func (s Sender) cloudEvent(m Message) cloudEvent {
	i := m.Incident
	source := s.Pages
	if source == "" {
		source = "breakwater"
	}
	return cloudEvent{"1.0", m.ID, source, "breakwater.incident." + string(m.Kind), i.Service + "/" + i.Env, m.At.UTC(), "application/json", struct {
		Incident Incident `json:"incident"`
		Text     string   `json:"text"`
		Lines    []string `json:"lines"`
		Link     string   `json:"link,omitempty"`
	}{i, headline(m), lines(m), s.link(i)}}
}
