package alert

import (
	"strings"
	"testing"
	"time"
)

// A message as Alertmanager's documentation of webhook_config has it, with what real
// rules put into labels.
const notice = `{"version":"4","groupKey":"{}:{alertname=\"PointsSlow\"}","truncatedAlerts":2,"status":"firing","receiver":"breakwater",
"groupLabels":{"alertname":"PointsSlow"},"commonLabels":{},"commonAnnotations":{},"externalURL":"http://am:9093","alerts":[
{"status":"firing","labels":{"alertname":"PointsSlow","service":"points","env":"prod","severity":"page"},"annotations":{"summary":"p95 is 3 s"},"startsAt":"2026-03-10T11:58:00.123Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://prom/graph","fingerprint":"b1"},
{"status":"resolved","labels":{"alertname":"PoolFull","service":"order","environment":"prod","severity":"warning"},"annotations":{"description":"96 of 100"},"startsAt":"2026-03-10T11:00:00Z","endsAt":"2026-03-10T11:30:00Z","generatorURL":"","fingerprint":"b2"},
{"status":"firing","labels":{"alertname":"NodeDown"},"annotations":{},"startsAt":"2026-03-10T11:00:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"","fingerprint":"b3"},
{"status":"firing","labels":{"alertname":"BreakwaterErrors","service":"order","env":"prod","incident":"i-1","severity":"page"},"annotations":{},"startsAt":"2026-03-10T11:00:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"","fingerprint":"b4"},
{"status":"firing","labels":{"alertname":"Chatter","service":"order","env":"prod","tier":"L3"},"annotations":{},"startsAt":"2026-03-10T11:00:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"","fingerprint":"b5"},
{"status":"firing","labels":{"alertname":"Tomorrow","service":"order","env":"prod"},"annotations":{},"startsAt":"2026-03-11T11:00:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"","fingerprint":"b6"}]}`

func TestAlertsOfAlertmanager(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	all, skipped, err := FromAlertmanager([]byte(notice), now)
	if err != nil || len(all) != 2 || len(skipped) != 5 {
		t.Fatalf("%+v, skipped %+v, %v", all, skipped, err)
	}
	if f := all[0]; f.Service != "points" || f.Env != "prod" || f.Tier != L1 || f.Text != "p95 is 3 s" || f.URL != "http://prom/graph" || !f.To.IsZero() || f.From.Nanosecond() != 123_000_000 {
		t.Errorf("%+v", f)
	}
	if f := all[1]; f.Tier != L2 || f.Env != "prod" || f.Text != "96 of 100" || f.To.Hour() != 11 || f.To.Minute() != 30 {
		t.Errorf("%+v", f)
	}
	for i, want := range []string{"label service", "sent back", "L3", "future", "left out 2"} {
		if !strings.Contains(skipped[i].Why, want) {
			t.Errorf("skipped %+v, want %q", skipped[i], want)
		}
	}
	for body, want := range map[string]string{`{"version":"3","alerts":[]}`: "must be 4", `[]`: "must be a message", `{`: "must be a message"} {
		if _, _, err := FromAlertmanager([]byte(body), now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func FuzzFromAlertmanager(f *testing.F) {
	f.Add([]byte(notice))
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body []byte) {
		all, _, _ := FromAlertmanager(body, now)
		for _, x := range all {
			if x.Service == "" || x.Fingerprint == "" || x.Name == "" || x.Tier != L1 && x.Tier != L2 || x.From.After(now.Add(2*time.Minute)) || len(x.Text) > 500 {
				t.Fatalf("taken: %+v", x)
			}
		}
	})
}
