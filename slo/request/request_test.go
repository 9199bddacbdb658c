package request

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/retrylog"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, query, err string }{
		{"nothing asked is the last hour", "", ""},
		{"everything", "service=order&route=order-get&status=5xx&reason=non_idempotent&outcome=timeout&r=6h&limit=200", ""},
		{"an instant of another zone", "from=2026-11-24T10:00:00%2B01:00&to=2026-11-24T11:30:00Z", ""},
		{"every mistake is told", "status=9xx&outcome=bad&r=1y&limit=0&before=x&from=yesterday", `status must be like 503 or 5xx, got "9xx"; outcome must be one of ok, recovered, upstream_failure, timeout, local_refusal, client_abort, panic, got "bad"; r must be one of 15m, 1h, 6h, 24h, 7d, got "1y"; from must be an instant such as 2026-11-24T14:00:00Z, got "yesterday"; before must be a place in the log as the link to older rows has it, got "x"; limit must be 1 to 200, got "0"`},
		{"from after to", "from=2026-11-24T12:00:00Z&to=2026-11-24T11:00:00Z", "from must be before to"},
		{"too long", "route=" + strings.Repeat("x", 1025), "route must have at most 1024 bytes, got 1025"},
		{"a status that is none", "status=99", `got "99"`},
	} {
		v, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(v, noon)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
	}
	q, _ := Parse(url.Values{"status": {"5XX"}, "r": {"24h"}}, noon)
	if q.StatusFrom != 500 || q.StatusTo != 599 || q.From != noon.Add(-24*time.Hour) || q.To != noon || q.Limit != Rows {
		t.Errorf("%+v", q)
	}
}

// A mark comes back from an address, whatever clients call their requests.
func FuzzMark(f *testing.F) {
	f.Add(int64(1), "gw-1", "id,with.all+of%20it")
	f.Add(int64(1_790_000_000_000_000), "", "\xff\x00")
	f.Fuzz(func(t *testing.T, micros int64, gateway, id string) {
		if micros <= 0 || micros > 1<<53 {
			return
		}
		m := Mark{At: time.UnixMicro(micros).UTC(), Gateway: gateway, ID: id}
		got, err := ParseMark(m.String())
		if err != nil || got != m {
			t.Fatalf("%+v came back as %+v, %v", m, got, err)
		}
	})
}

type fakeLog struct {
	asked Query
	err   error
}

func (l *fakeLog) Requests(_ context.Context, q Query) (Page, error) {
	l.asked = q
	return Page{Rows: []Row{{Exchange: retrylog.Exchange{RequestID: "a", Service: "order"}}}, Looked: 7, Next: Mark{At: noon, ID: "a", Gateway: "gw-1"}}, l.err
}
func (l *fakeLog) Request(_ context.Context, id string) ([]Row, error) {
	if id != "a" {
		return nil, l.err
	}
	return []Row{{Exchange: retrylog.Exchange{RequestID: "a", Service: "order"}}}, l.err
}
func (l *fakeLog) Counted(context.Context, Query) (Counted, error) { return Counted{}, l.err }

func TestTheAPIHoldsToTheScope(t *testing.T) {
	log := &fakeLog{}
	api := API{Log: log, Now: func() time.Time { return noon }}
	ask := func(who auth.Principal, query string) (int, string) {
		r := httptest.NewRequest("GET", "/api/v1/events?"+query, nil)
		w := httptest.NewRecorder()
		api.List(w, r.WithContext(auth.With(r.Context(), who)))
		return w.Code, w.Body.String()
	}
	all, some := auth.Principal{Name: "a", Role: auth.Viewer}, auth.Principal{Name: "s", Role: auth.Viewer, Services: []string{"points", "coupon"}}
	if status, body := ask(all, ""); status != 200 || log.asked.Service != "" || !strings.Contains(body, `"next":"`+Mark{At: noon, ID: "a", Gateway: "gw-1"}.String()) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask(some, ""); status != 200 || log.asked.Service != "points" {
		t.Errorf("who may see some was shown %q (%d)", log.asked.Service, status)
	}
	if status, body := ask(some, "service=order"); status != 403 || !strings.Contains(body, `"code":"scope"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask(all, "status=x"); status != 400 {
		t.Errorf("%d", status)
	}
	show := func(who auth.Principal, id string) (int, string) {
		r := httptest.NewRequest("GET", "/api/v1/events/x", nil)
		w := httptest.NewRecorder()
		api.Show(w, r.WithContext(auth.With(r.Context(), who)), id)
		return w.Code, w.Body.String()
	}
	if status, body := show(all, "a"); status != 200 || !json.Valid([]byte(body)) || !strings.Contains(body, `"exchange":{`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := show(all, "b"); status != 404 {
		t.Errorf("%d", status)
	}
	if status, _ := show(some, "a"); status != 404 { // what is not theirs is not there
		t.Errorf("%d", status)
	}
	log.err = errors.New("away")
	if status, _ := ask(all, ""); status != 503 {
		t.Errorf("%d", status)
	}
}
