package finding

import (
	"reflect"
	"testing"
	"time"
)

func TestBurndown(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	all := []Finding{
		{ID: "old", OpenedAt: day(1), Severity: "low"},
		{ID: "mended", OpenedAt: day(3), ClosedAt: day(12), Severity: "high"},
		// It was closed, and came back: its own dates do not say so any more.
		{ID: "back", OpenedAt: day(2), Reopened: 1, Severity: "critical"},
	}
	stories := map[string][]Event{"back": {
		{At: day(2), Kind: "open"}, {At: day(3), Kind: "open"}, {At: day(4), Kind: "claimed_fixed"}, {At: day(5), Kind: "verified"},
		{At: day(13), Kind: "overdue"}, {At: day(14), Kind: "reopened"}, {At: day(15), Kind: "accepted_risk"},
	}}
	got := Burndown(all, stories, []time.Time{day(1), day(4), day(11), day(18)})
	want := []Standing{
		{At: day(1)}, // what is opened at an instant belongs to what follows
		{At: day(4), Open: 3, Severe: 2, Opened: 3},
		{At: day(11), Open: 2, Severe: 1, Closed: 1},
		{At: day(18), Open: 2, Severe: 1, Opened: 1, Closed: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Burndown(nil, nil, nil); len(got) != 0 {
		t.Errorf("%+v of nothing", got)
	}
}
