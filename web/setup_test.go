package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/slo/openslo"
)

// as is a handler behind a guard that lets somebody in.
func as(h http.Handler, p auth.Principal) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(auth.With(r.Context(), p))) })
}

func TestSetupSteps(t *testing.T) {
	boss := auth.Principal{Name: "boss", Role: auth.Admin}
	fresh := func(set func(*house)) http.Handler {
		h := empty(noon)
		h.mayLift = true
		set(h)
		return as(h.server(t).Handler(), boss)
	}
	gw := []injector.Gateway{{Name: "gw-<1>", At: noon.Add(-2 * time.Second)}}
	worlds := map[string]http.Handler{
		"nothing":  fresh(func(*house) {}),
		"gateway":  fresh(func(h *house) { h.gateways = gw }),
		"traffic":  fresh(func(h *house) { h.gateways, h.counted = gw, []string{"checkout", "search"} }),
		"closed":   fresh(func(h *house) { h.gateways, h.counted, h.closed = gw, []string{"checkout"}, "Control reads one file." }),
		"promised": fresh(func(h *house) { h.statuses = shop(noon).statuses }),
		"done":     fresh(func(h *house) { *h = *shop(noon) }),
		"lost":     lost(noon).server(t).Handler(),
	}
	for _, tt := range []struct {
		name, world, path string
		want, not         []string
	}{
		{"first, where traffic is", "nothing", "/setup", []string{"Step 1 of 3", "Connect a gateway", "Make a token and the command", "No gateway has reported yet"}, []string{"bw_"}},
		{"and the overview leads there", "nothing", "/", []string{`href="/setup"`, "Nothing is watched yet"}, nil},
		{"a gateway without traffic", "gateway", "/setup", []string{"Step 2 of 3", "1 gateway reports", "gw-&lt;1&gt; was heard 2\u202fs ago", "Waiting for the first request"}, []string{"Connect a gateway"}},
		{"a service with its numbers", "traffic", "/setup", []string{"48\u202f210", "12 of 48\u202f210 requests of checkout failed", "99.95\u202f% is the strictest target here", "slo-checkout.yaml", "Make this promise", `class: valid`}, nil},
		{"another service", "traffic", "/setup?service=search&target=99.5", []string{"12 of 8\u202f210 requests of search failed", `value="99.5" checked`, "slo-search.yaml", "target: 0.995"}, nil},
		{"nowhere to write", "closed", "/setup", []string{"Control reads one file. Put the document there yourself", "checkout-availability"}, []string{"Make this promise"}},
		{"the drill, with its next five", "promised", "/setup?service=payment&zone=Europe/Berlin&day=4&at=09:30", []string{"Step 3 of 3", "every Thursday at 09:30", "Thu 26 Nov 09:30", "Thu 24 Dec 09:30", "08:30Z", "1 % of the reads of payment are lost once", "could start", "Plan this drill", "kind: GameDay"}, nil},
		{"a zone that is none", "promised", "/setup?zone=Mars/Base", []string{"must be an IANA name", "Mars/Base"}, []string{"Plan this drill"}},
		{"what is refused may be meant", "promised", "/setup?service=points", []string{"no_fallback", `name="accept"`, "would be refused"}, nil},
		{"and is then", "promised", "/setup?service=points&accept=no_fallback", []string{"accept: [no_fallback]", "could start", `value="no_fallback" checked`}, []string{"would be refused"}},
		{"all is there", "done", "/setup", []string{"All is set up", "Next: "}, nil},
		{"and the overview says no more", "done", "/", nil, []string{`href="/setup"`}},
		{"with the database away nothing is concluded", "lost", "/", nil, []string{`href="/setup"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := get(t, worlds[tt.world], tt.path)
			if status != 200 {
				t.Errorf("status %d", status)
			}
			for _, w := range tt.want {
				if !strings.Contains(body, w) {
					t.Errorf("%q is not on the page", w)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(body, n) {
					t.Errorf("%q is on the page", n)
				}
			}
		})
	}
}

func TestSetupWrites(t *testing.T) {
	h := empty(noon)
	handler := h.server(t).Handler()
	boss := as(handler, auth.Principal{Name: "boss", Role: auth.Admin})
	for _, path := range []string{"/setup/gateway", "/setup/slo", "/setup/drill"} {
		if status, _, _ := sends(t, handler, path, url.Values{"name": {"gw"}, "service": {"checkout"}, "target": {"99"}}); status != 403 || len(h.stopped) != 0 {
			t.Errorf("%s by who may only read: %d", path, status)
		}
	}
	h.mayLift = true
	if status, _, _ := sends(t, as(handler, auth.Principal{Name: "op", Role: auth.Operator}), "/setup/gateway", url.Values{"name": {"gw"}}); status != 403 {
		t.Errorf("an operator makes a token: %d", status)
	}
	if status, _, _ := sends(t, as(handler, auth.Principal{Name: "part", Role: auth.Admin, Services: []string{"checkout"}}), "/setup/gateway", url.Values{"name": {"gw"}}); status != 403 {
		t.Errorf("an admin of one service makes a token: %d", status)
	}
	status, _, body := sends(t, boss, "/setup/gateway", url.Values{"name": {"GW-East"}, "service": {"shop"}, "address": {"10.0.0.1:80"}})
	if want := "BREAKWATER_TOKEN=bw_secret breakwater gateway --name gw-east --config gw.yaml --control http://127.0.0.1:8081"; status != 200 || !strings.Contains(body, want) || !strings.Contains(body, "Waiting for gw-east to report") {
		t.Errorf("%d, and the command is not there", status)
	}
	if status, _, body := sends(t, boss, "/setup/gateway", url.Values{"name": {"<b>"}, "service": {"shop"}}); status != 422 || !strings.Contains(body, "must be lower case letters") || strings.Contains(body, "<b>&#34;: must") {
		t.Errorf("a name that is none: %d", status)
	}
	if status, _, body := sends(t, boss, "/setup/gateway", url.Values{"name": {"gw"}, "service": {"<script>alert(1)</script>"}}); status != 422 || !strings.Contains(body, "gw.yaml:3:7") || strings.Contains(body, "<script>alert") || !strings.Contains(body, `value="gw"`) {
		t.Errorf("a service that is none: %d", status)
	}
	h.counted = []string{"checkout"}
	if status, to, _ := sends(t, boss, "/setup/slo", url.Values{"service": {"checkout"}, "target": {"99.9"}, "owner": {`team "a" # b`}}); status != 303 || to != "/setup?said=promised" {
		t.Errorf("%d to %s", status, to)
	}
	if status, _, body := sends(t, boss, "/setup/slo", url.Values{"service": {"checkout"}, "target": {"0.1%"}}); status != 422 || !strings.Contains(body, "must be a percentage") {
		t.Errorf("a target that is none: %d", status)
	}
	h.statuses = shop(noon).statuses
	if status, to, _ := sends(t, boss, "/setup/drill", url.Values{"service": {"payment"}, "day": {"4"}, "at": {"09:30"}, "zone": {"Europe/Berlin"}}); status != 303 || to != "/setup?said=drilled" {
		t.Errorf("%d to %s", status, to)
	}
	if status, _, body := sends(t, boss, "/setup/drill", url.Values{"service": {"points"}}); status != 422 || !strings.Contains(body, "would never start") {
		t.Errorf("what is refused is written: %d", status)
	}
	if status, _, _ := sends(t, boss, "/setup/drill", url.Values{"service": {"payment"}, "at": {"25:99"}}); status != 422 {
		t.Errorf("a time that is none: %d", status)
	}
	if len(h.stopped) != 3 || h.stopped[0] != "web issued gw-east" {
		t.Fatalf("did %q", h.stopped)
	}
	// What was written is what the parsers read.
	name, text, _ := strings.Cut(h.stopped[1], "\n")
	var log conf.Log
	set := openslo.Parse(conf.File{Name: "x", Data: []byte(text)}, &log)
	if log.Err() != nil || name != "web wrote slo-checkout.yaml" || len(set.Objectives) != 1 || set.Objectives[0].TargetPPB != 999_000_000 || set.Objectives[0].Owner != `team "a" # b` || set.Objectives[0].Service != "checkout" {
		t.Errorf("%s: %v, %+v\n%s", name, log.Err(), set.Objectives, text)
	}
	name, text, _ = strings.Cut(h.stopped[2], "\n")
	drills, _, err := scenario.Parse(conf.File{Name: "x", Data: []byte(text)})
	if err != nil || name != "web wrote drill-payment.yaml" || len(drills.Scenarios) != 1 || len(drills.GameDays) != 1 || drills.GameDays[0].Schedule.Zone != "Europe/Berlin" || drills.GameDays[0].Schedule.Cron != "30 9 * * 4" || drills.GameDays[0].Scenarios[0] != drills.Scenarios[0].ID {
		t.Errorf("%s: %v\n%s", name, err, text)
	}
}

// costly refuses a document twice for what it costs.
type costly struct{ Scenarios }

func (c costly) Preview(ctx context.Context, id, document string) (injector.Preview, error) {
	p, err := c.Scenarios.Preview(ctx, id, document)
	p.Warnings = append(p.Warnings, scenario.Warning{Code: scenario.Cost, Refuse: true, Text: "it spends too much"}, scenario.Warning{Code: scenario.Cost, Refuse: true, Text: "it hits too many"})
	return p, err
}

// Two refusals of one code are one box, and one word in the document.
func TestACodeIsAgreedToOnce(t *testing.T) {
	h := empty(noon)
	h.mayLift = true
	h.statuses = shop(noon).statuses
	s := h.server(t)
	s.cfg.Scenarios = costly{s.cfg.Scenarios}
	_, _, body := get(t, as(s.Handler(), auth.Principal{Name: "boss", Role: auth.Admin}), "/setup?service=payment&accept=cost&accept=cost")
	if n := strings.Count(body, `value="cost"`); n != 1 || !strings.Contains(body, "it hits too many") {
		t.Errorf("%d boxes", n)
	}
	if strings.Contains(body, "must stand once") || !strings.Contains(body, "accept: [cost]") {
		t.Error("the document does not have the code once")
	}
}

func TestSuggestedTargets(t *testing.T) {
	for _, tt := range []struct {
		valid, bad int64
		want       string
		sure       bool
	}{
		{0, 0, "99", false}, {50, 0, "99", false}, {1_000, 0, "99.9", true}, {1_000, 1, "99.5", true}, {48_210, 12, "99.95", true}, {1_000_000, 0, "99.99", true}, {1_000, 400, "99", false},
	} {
		if got, sure := suggested(tt.valid, tt.bad); got != tt.want || sure != tt.sure {
			t.Errorf("%d failures of %d: %s %v, want %s %v", tt.bad, tt.valid, got, sure, tt.want, tt.sure)
		}
	}
}

// An open page of the setup hears of a gateway, and only an open one is worth a look.
func TestSetupIsLive(t *testing.T) {
	h := empty(noon)
	s := h.server(t)
	if topics := s.setupNews(t.Context()); topics != nil {
		t.Errorf("nobody looks, and %v is told", topics)
	}
	get(t, s.Handler(), "/setup")
	s.setupNews(t.Context())
	if topics := s.setupNews(t.Context()); topics != nil {
		t.Errorf("nothing changed, and %v is told", topics)
	}
	h.gateways = []injector.Gateway{{Name: "gw-1", At: noon}}
	if topics := s.setupNews(t.Context()); len(topics) != 1 || topics[0] != topicSetup {
		t.Errorf("a gateway came, and %v is told", topics)
	}
}
