package alert

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo/webhook"
)

// product is a server that judges what it is sent as its product's documentation
// says, strictly: members that are not documented are refused.
type product struct {
	t  *testing.T
	mu sync.Mutex
	// state is what the product would show, by its own key.
	state map[string]string
	// fail answers the next requests with a status instead.
	fail  []int
	after string
}

func (p *product) serve(judge func(p *product, r *http.Request, body []byte) (int, string)) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		if len(p.fail) > 0 {
			status := p.fail[0]
			p.fail = p.fail[1:]
			if p.after != "" {
				w.Header().Set("Retry-After", p.after)
			}
			w.WriteHeader(status)
			return
		}
		status, text := judge(p, r, body)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	p.t.Cleanup(srv.Close)
	return srv
}

func strict(body []byte, into any) error {
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// Alertmanager: POST /api/v2/alerts takes a list; alerts are one by their labels; an
// end before the start is refused; names of labels are those of Prometheus.
func alertmanagerServer(p *product, r *http.Request, body []byte) (int, string) {
	var alerts []struct {
		Labels       map[string]string
		Annotations  map[string]string
		StartsAt     time.Time `json:"startsAt"`
		EndsAt       time.Time `json:"endsAt"`
		GeneratorURL string    `json:"generatorURL"`
	}
	if r.URL.Path != "/api/v2/alerts" || r.Header.Get("Content-Type") != "application/json" {
		return 404, "not found"
	}
	if err := strict(body, &alerts); err != nil || len(alerts) == 0 {
		return 400, "bad request"
	}
	for _, a := range alerts {
		if a.Labels["alertname"] == "" || a.EndsAt.Before(a.StartsAt) {
			return 400, "invalid alert"
		}
		state := "firing"
		if !a.EndsAt.After(noon) {
			state = "resolved"
		}
		p.state[a.Labels["incident"]+" "+a.Labels["severity"]] = state
	}
	return 200, ""
}

// Slack: an incoming webhook takes JSON with text or blocks, and answers "ok".
func slackServer(p *product, r *http.Request, body []byte) (int, string) {
	var m struct {
		Text   string
		Blocks []struct {
			Type string
			Text struct{ Type, Text string }
		}
	}
	if err := strict(body, &m); err != nil || m.Text == "" {
		return 400, "invalid_payload"
	}
	for _, b := range m.Blocks {
		if b.Type != "section" || b.Text.Type != "mrkdwn" || len(b.Text.Text) > 3000 {
			return 400, "invalid_blocks"
		}
		if strings.Contains(b.Text.Text, "<script") {
			p.t.Error("markup got through")
		}
	}
	p.state["last"] = m.Text
	return 200, "ok"
}

// PagerDuty: POST /v2/enqueue, 202 where it is taken; a trigger needs a payload with
// summary, source and severity; the others need the dedup_key alone.
func pagerDutyServer(p *product, r *http.Request, body []byte) (int, string) {
	var e struct {
		RoutingKey string `json:"routing_key"`
		Action     string `json:"event_action"`
		DedupKey   string `json:"dedup_key"`
		Client     string `json:"client"`
		ClientURL  string `json:"client_url"`
		Payload    *struct {
			Summary   string         `json:"summary"`
			Source    string         `json:"source"`
			Severity  string         `json:"severity"`
			Timestamp time.Time      `json:"timestamp"`
			Component string         `json:"component"`
			Group     string         `json:"group"`
			Class     string         `json:"class"`
			Details   map[string]any `json:"custom_details"`
		} `json:"payload"`
		Links []struct{ Href, Text string } `json:"links"`
	}
	if err := strict(body, &e); err != nil || len(e.RoutingKey) != 32 {
		return 400, `{"status":"invalid event","message":"Event object is invalid"}`
	}
	severities := map[string]bool{"critical": true, "error": true, "warning": true, "info": true}
	switch {
	case e.Action == "trigger" && (e.Payload == nil || e.Payload.Summary == "" || len(e.Payload.Summary) > 1024 || e.Payload.Source == "" || !severities[e.Payload.Severity]):
		return 400, `{"status":"invalid event"}`
	case e.Action != "trigger" && (e.Action != "resolve" && e.Action != "acknowledge" || e.DedupKey == ""):
		return 400, `{"status":"invalid event"}`
	}
	p.state[e.DedupKey] = e.Action
	return 202, `{"status":"success","message":"Event processed","dedup_key":"` + e.DedupKey + `"}`
}

const secretText = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"

func cloudEventsServer(p *product, r *http.Request, body []byte) (int, string) {
	secret, _ := webhook.ParseSecret(secretText)
	id, err := secret.Check(r.Header, body, noon)
	if err != nil {
		return 401, err.Error()
	}
	var e struct {
		SpecVersion string    `json:"specversion"`
		ID          string    `json:"id"`
		Source      string    `json:"source"`
		Type        string    `json:"type"`
		Subject     string    `json:"subject"`
		Time        time.Time `json:"time"`
		ContentType string    `json:"datacontenttype"`
		Data        json.RawMessage
	}
	if err := strict(body, &e); err != nil || e.SpecVersion != "1.0" || e.ID != id || e.Source == "" || e.Type == "" || r.Header.Get("Content-Type") != "application/cloudevents+json" {
		return 400, "no CloudEvent"
	}
	p.state[e.Subject] = e.Type
	return 204, ""
}

func TestSendersAsTheirProductsAsk(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	end := noon.Add(-time.Second)
	i := Incident{ID: "i-1", Service: "order", Env: "prod", Class: Errors, Tier: L1, Severity: Page, OpenedAt: noon.Add(-time.Minute), AckedBy: "ada",
		Title: "order (prod): <script>alert(1)</script> & " + strings.Repeat("ü", 900), Context: Context{Burn: "burns", TopCode: "50003: 70 %"}}
	over := i
	over.ClosedAt = &end
	message := func(kind Kind, i Incident) Message {
		return Message{ID: "m-" + string(kind), Kind: kind, At: noon, Incident: i}
	}
	s := Sender{Pages: "https://bw.example"}
	tests := []struct {
		to    Receiver
		judge func(*product, *http.Request, []byte) (int, string)
		key   string
		want  map[Kind]string
	}{
		{Receiver{Type: Alertmanager}, alertmanagerServer, "i-1 page", map[Kind]string{Opened: "firing", Update: "firing", Resolved: "resolved"}},
		{Receiver{Type: Slack}, slackServer, "last", nil},
		{Receiver{Type: PagerDuty, SecretFile: file("pd", strings.Repeat("k", 32))}, pagerDutyServer, "i-1", map[Kind]string{Opened: "trigger", Acked: "acknowledge", Resolved: "resolve"}},
		{Receiver{Type: Webhook, SecretFile: file("ce", secretText)}, cloudEventsServer, "order/prod",
			map[Kind]string{Opened: "breakwater.incident.opened", Resolved: "breakwater.incident.resolved", Acked: "breakwater.incident.acknowledged"}},
	}
	for _, tt := range tests {
		p := &product{t: t, state: map[string]string{}}
		srv := p.serve(tt.judge)
		to := tt.to
		to.URL, to.AllowPrivate = srv.URL, true
		if to.Type == Slack {
			to.URL, to.URLFile = "", file("slack", srv.URL+"/services/T0/B0/secret")
		}
		for _, kind := range []Kind{Opened, Escalated, Update, Acked, Resolved} {
			m := message(kind, i)
			if kind == Resolved {
				m = message(kind, over)
			}
			if err := s.Send(t.Context(), to, m, noon); err != nil {
				t.Errorf("%s %s: %v", to.Type, kind, err)
			}
			if want := tt.want[kind]; want != "" && p.state[tt.key] != want {
				t.Errorf("%s shows %q after %s, want %q", to.Type, p.state[tt.key], kind, want)
			}
		}
		if to.Type == Alertmanager && (p.state["i-1 ticket"] != "resolved" || p.state["i-1 freeze"] != "resolved") {
			t.Errorf("what it was before it grew graver: %v", p.state)
		}
		p.fail, p.after = []int{429, 500, 400, 404}, "7"
		for _, want := range []struct{ retry, final bool }{{true, false}, {true, false}, {false, true}, {false, false}} {
			err := s.Send(t.Context(), to, message(Opened, i), noon)
			asked, retry := errors.AsType[*Retry](err)
			if err == nil || retry != want.retry || errors.Is(err, ErrFinal) != want.final || retry && asked.After != 7*time.Second {
				t.Errorf("%s: %v, want retry %v, final %v", to.Type, err, want.retry, want.final)
			}
			if to.Type == Slack && strings.Contains(err.Error(), "secret") {
				t.Errorf("the secret is told: %v", err)
			}
		}
	}
	if err := s.Send(t.Context(), Receiver{Type: Webhook, SecretFile: file("other", strings.Repeat("x", 32)), URL: (&product{t: t, state: map[string]string{}}).serve(cloudEventsServer).URL, AllowPrivate: true}, message(Opened, i), noon); err == nil {
		t.Error("a wrong secret is believed")
	}
}

func TestNoAddressOfOurOwnIsSentTo(t *testing.T) {
	private := &product{t: t, state: map[string]string{}}
	srv := private.serve(slackServer)
	m := Message{Kind: Opened, Incident: Incident{Title: "x"}}
	if err := (Sender{}).Send(t.Context(), Receiver{Type: Slack, URL: srv.URL}, m, noon); !errors.Is(err, ErrFinal) || len(private.state) != 0 {
		t.Errorf("a loopback address is sent to: %v", err)
	}
	allow, refuse := guard(true), guard(false)
	for at, want := range map[string][2]bool{ // by allow_private, else
		"93.184.216.34:443": {true, true}, "127.0.0.1:80": {true, false}, "10.0.0.7:80": {true, false}, "[::1]:80": {true, false}, "[fd12::1]:80": {true, false},
		"169.254.169.254:80": {false, false}, "[::ffff:169.254.169.254]:80": {false, false}, "[fe80::1%eth0]:80": {false, false}, "0.0.0.0:80": {false, false}, "[fd00:ec2::254]:80": {false, false},
		"[::ffff:127.0.0.1]:80": {true, false}, "nonsense": {false, false},
	} {
		if got := [2]bool{allow("tcp", at, nil) == nil, refuse("tcp", at, nil) == nil}; got != want {
			t.Errorf("%s: %v, want %v", at, got, want)
		}
	}
}

func TestTriedForADay(t *testing.T) {
	j := Job{Created: noon}
	at, tries := noon, 0
	for range 1000 {
		r := Settle(j, &Retry{0, errors.New("answered 503")}, at)
		if r.Outcome == "gave_up" {
			break
		}
		if wait := r.NextAt.Sub(at); wait < time.Second || wait > 5*time.Minute {
			t.Fatalf("attempt %d waits %v", tries, wait)
		}
		at, tries, j.Attempts = r.NextAt, tries+1, j.Attempts+1
	}
	if d := at.Sub(noon); d < 23*time.Hour || d > 25*time.Hour {
		t.Errorf("given up after %v and %d tries", d, tries)
	}
	if r := Settle(j, &Retry{time.Hour, errors.New("x")}, noon); r.NextAt.Sub(noon) != time.Hour {
		t.Errorf("asked to wait an hour, waits %v", r.NextAt.Sub(noon))
	}
}

func TestAlertRoutes(t *testing.T) {
	read := func(text string) ([]Route, error) {
		var log conf.Log
		r := ParseRoutes([]conf.File{{Name: "r.yaml", Data: []byte(text)}}, &log)
		return r, log.Err()
	}
	head := "apiVersion: breakwater/v1\nkind: AlertRoute\nname: oncall\n"
	routes, err := read(head + `services: [order]
severity: page
resolve_after: 30s
to:
  - {type: pagerduty, secret_file: /run/pd}
  - {type: alertmanager, url: "http://am:9093", allow_private: true}
---
apiVersion: breakwater/v1
kind: AlertRoute
name: all
to: [{type: slack, name: team, url_file: /run/slack}]
`)
	if err != nil || len(routes) != 2 {
		t.Fatal(routes, err)
	}
	page, ticket := Incident{Service: "order", Env: "prod", Severity: Page}, Incident{Service: "order", Env: "prod", Severity: Ticket}
	for want, got := range map[string][]string{
		"oncall/pagerduty oncall/alertmanager all/team": recipients(routes, page, Opened),
		"all/team":            recipients(routes, ticket, Opened),
		"oncall/alertmanager": recipients(routes, page, Update),
		"oncall/pagerduty":    recipients(routes, page, Acked),
	} {
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	if x, ok := Find(routes, "oncall/pagerduty"); !ok || x.URL != pagerDuty {
		t.Errorf("%+v", x)
	}
	if hold := holdOf(routes); hold("order", "prod") != 30*time.Second || hold("points", "prod") != DefaultHold {
		t.Error("resolve_after is not kept")
	}
	for text, want := range map[string]string{
		head + "to: []": "must name at least one", head: "to: must be given", head + "to: [{type: fax}]": "must be alertmanager",
		head + "to: [{type: slack}]":                                          "must have either url or url_file",
		head + "to: [{type: webhook, url: \"ftp://x\", secret_file: s}]":      "must be an http or https URL",
		head + "to: [{type: webhook, url: \"http://u:p@x\", secret_file: s}]": "without a user",
		head + "to: [{type: pagerduty}]":                                      "secret_file: must be given",
		head + "to: [{type: slack, url_file: a}, {type: slack, url_file: b}]": "must have a name of its own",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", text, err, want)
		}
	}
}
