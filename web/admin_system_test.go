package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo/alert"
)

// machine is the machinery of the world, as its admin sees it.
type machine struct{ *house }

func (m machine) Routes() []alert.Route {
	if len(m.statuses) == 0 {
		return nil
	}
	return []alert.Route{{Name: "all", Receivers: []alert.Receiver{{Name: "slack", Type: alert.Slack, URL: "https://hooks.example.com/services/T0/B0/s3cr3t"}, {Name: "pager", Type: alert.PagerDuty, URL: "https://events.pagerduty.com/v2/enqueue", SecretFile: "/etc/key"}}},
		{Name: "night", Services: []string{"order"}, Receivers: []alert.Receiver{{Name: "hook", Type: alert.Webhook, URL: "https://ops.example.com/in?key=s3cr3t"}, {Name: "chat", Type: alert.Slack, URLFile: "/etc/slack"}}}}
}

func (m machine) Deliveries(context.Context, time.Time) ([]alert.Delivered, error) {
	text := `<script>alert(1)</script> 503 Service Unavailable`
	return []alert.Delivered{{Receiver: "all/slack", Sent: 14, SentAt: m.now.Add(-time.Hour), LastAt: m.now.Add(-time.Hour), Outcome: "sent"},
		{Receiver: "all/pager", Sent: 3, GaveUp: 1, LastAt: m.now.Add(-20 * time.Minute), Outcome: "gave_up", Text: text},
		{Receiver: "night/hook", Waiting: 2, LastAt: m.now.Add(-time.Minute), Outcome: "failed", Text: "attempt 2: connection refused"},
		{Receiver: "old/mail", Sent: 1, Outcome: "sent"}}, m.broken
}

func (m machine) Sizes(context.Context) (Sizes, error) {
	if m.broken != nil {
		return Sizes{}, m.broken
	}
	return Sizes{Version: "15.14", Bytes: 3 << 30, Tables: []TableSize{{Name: "rollup_minute", Parts: 38, Rows: 12_400_000, TableBytes: 1_900 << 20, IndexBytes: 700 << 20, All: 2_600 << 20}, {Name: "event", Parts: 9, Rows: 81_000, TableBytes: 90 << 20, IndexBytes: 12 << 20, All: 102 << 20}, {Name: "silence", Parts: 1, TableBytes: 0, IndexBytes: 8192, All: 8192}}}, nil
}

func (m machine) Gateways(context.Context) []GatewayStats {
	if len(m.statuses) == 0 {
		return nil
	}
	return []GatewayStats{{Address: "127.0.0.1:15000", Revision: "0a1b2c3d4e5f", AppliedAt: m.now.Add(-2 * time.Hour), Connections: 214, Endpoints: 9, Ready: 8, InFlight: 17, Faults: 1},
		{Address: "10.0.3.7:15000", Trouble: "dial tcp 10.0.3.7:15000: connect: connection refused"}, {Address: "10.0.3.8:15000", Revision: "0a1b2c3d4e5f", LastError: "gw.yaml:15:16: retry.max_retries: must be 0 to 5, got 9", Dropped: 41}}
}

func (m machine) Examine(context.Context) []Examined {
	return []Examined{{"config", "ok", "revision 0a1b2c3d4e5f, 12 routes", ""}, {"spool", "warn", "41 events found no room", "give it more room (Gateway spool.max_size) or let control catch up; coverage is lower for that time"}, {"database", "fail", "cannot be reached: <img src=x>", "see --db, DATABASE_URL, and whether it runs"}, {"halt", "skip", "", ""}}
}

// asAdmin asks a page under /admin as who.
func asAdmin(s *Server, m machine, path string, who auth.Principal) (int, string) {
	h := http.StripPrefix("/admin", s.Admin(Accounts{System: m}))
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8081/admin"+path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
	return w.Code, w.Body.String()
}

func TestSystemPages(t *testing.T) {
	root := auth.Principal{Name: "root", Role: auth.Admin}
	world := shop(noon)
	s, m := world.server(t), machine{world}
	now, was := served()[0].Revision, served()[1].Revision
	for _, tt := range []struct {
		name, path string
		status     int
		want, not  []string
	}{
		{"revisions and what differs", "/config", 200, []string{now, was, "served now", "gw-1, gw-2", "routes[points-balance].retry.max_retries", "<del>1</del>", "<ins>2</ins>", "Refused", "must be 0 to 5, got 9", "/admin/config?now=" + now + "&amp;was=" + was}, nil},
		{"nothing differs from itself", "/config?was=" + now + "&now=" + now, 200, []string{"Nothing differs"}, nil},
		{"a revision that nobody reported", "/config?was=ffff&now=" + now, 404, []string{"The configuration ffff cannot be compared"}, nil},
		{"deliveries, without the secret part of an address", "/deliveries", 200, []string{"hooks.example.com", "arrived", "gave up", "failed, tried again", "not used", "in a file", "no document names it any more", "ops.example.com"}, []string{"s3cr3t", "/services/T0", "<script>alert"}},
		{"sizes", "/database", 200, []string{"3.0\u202fGiB", "rollup_minute", "2.5\u202fGiB", "12\u202f400\u202f000", "PostgreSQL 15.14", "8.0\u202fKiB"}, nil},
		{"the doctor and gateways", "/doctor", 200, []string{"1 broken, 1 doubtful, 1 well, 1 passed over.", "cannot be reached", "see --db", "8 of 9", "no answer", "connection refused", "refused a newer one"}, []string{"<img src=x>"}},
	} {
		status, body := asAdmin(s, m, tt.path, root)
		if status != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, status, tt.status)
		}
		says(t, tt.name, body, tt.want, tt.not)
		for _, found := range refused(body) {
			t.Errorf("%s: %q", tt.name, found)
		}
	}
	for path, columns := range map[string]string{"/config": "env,revision,hash", "/config?table=changes": "path,was,now", "/deliveries": "receiver,type,host", "/database": "table,partitions", "/doctor": "check,state", "/doctor?table=gateways": "address,revision"} {
		mark := "?"
		if strings.Contains(path, "?") {
			mark = "&"
		}
		if _, body := asAdmin(s, m, path+mark+"format=csv", root); !strings.HasPrefix(body, columns) || strings.Count(body, "\n") < 2 || strings.Contains(body, "s3cr3t") {
			t.Errorf("%s as CSV: %.200s", path, body)
		}
		var rows []map[string]any
		if _, body := asAdmin(s, m, path+mark+"format=json", root); json.Unmarshal([]byte(body), &rows) != nil || len(rows) == 0 {
			t.Errorf("%s as JSON: %.200s", path, body)
		}
	}
	for _, who := range []auth.Principal{{Name: "some", Role: auth.Admin, Services: []string{"order"}}, {Name: "op", Role: auth.Operator}, {}} {
		for _, path := range []string{"/config", "/deliveries", "/database", "/doctor"} {
			if status, body := asAdmin(s, m, path, who); status != 403 || strings.Contains(body, "rollup_minute") {
				t.Errorf("%s as %q: %d", path, who.Name, status)
			}
		}
	}
	world.broken = errors.New("away")
	for path, want := range map[string]string{"/config": "The reports of gateways cannot be read now", "/deliveries": "What became of messages cannot be read now", "/database": "The database cannot be read now"} {
		if status, body := asAdmin(s, m, path, root); status != 503 || !strings.Contains(body, want) {
			t.Errorf("%s with the database away: %d", path, status)
		}
	}
	quiet := empty(noon)
	for path, want := range map[string]string{"/config": "No gateway has reported", "/deliveries": "no document names it any more", "/doctor": "--gateway-admin HOST:PORT"} {
		if status, body := asAdmin(quiet.server(t), machine{quiet}, path, root); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s of an empty house: %d", path, status)
		}
	}
}
