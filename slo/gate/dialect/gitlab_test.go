package dialect

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"breakwater/slo"
	"breakwater/slo/gate"
)

// inside reports whether GitLab takes at for inside p: the last start is later than
// the last end before it, as it reads the two cron lines.
func inside(t *testing.T, p FreezePeriod, at time.Time) bool {
	t.Helper()
	start, err := cron.ParseStandard(p.Start)
	if err != nil {
		t.Fatal(err)
	}
	end, err := cron.ParseStandard(p.End)
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		t.Fatal(err)
	}
	at = at.In(zone)
	// The next end comes before the next start.
	return end.Next(at).Before(start.Next(at))
}

func TestGitLabFreezePeriods(t *testing.T) {
	w := newWorld(slo.Frozen)
	type answer struct {
		Periods []FreezePeriod `json:"freeze_periods"`
		Said
	}
	get := func() answer {
		return into[answer](t, w.send("GET", "/api/v1/gate/gitlab/freeze_periods?service=order&env=prod", ""))
	}
	a := get()
	thaw := noon.Add(3*time.Hour + 20*time.Second)
	if len(a.Periods) != 1 || a.Decision != gate.Deny || a.DecisionID == "" {
		t.Fatalf("%+v", a)
	}
	p := a.Periods[0]
	for at, want := range map[time.Time]bool{noon: true, noon.Add(2 * time.Hour): true, thaw.Add(-time.Second): true, thaw.Add(time.Minute): false, noon.Add(-time.Hour): false} {
		if got := inside(t, p, at); got != want {
			t.Errorf("%+v at %s: frozen %v, want %v", p, at, got, want)
		}
	}
	// Over the end of a year, and with an end nobody knows.
	for _, at := range []time.Time{time.Date(2027, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(2028, 2, 28, 23, 59, 0, 0, time.UTC)} {
		p := period(at, nil)
		if !inside(t, p, at.Add(time.Second)) || !inside(t, p, at.Add(23*time.Hour)) || inside(t, p, at.Add(25*time.Hour)) {
			t.Errorf("from %s: %+v", at, p)
		}
	}
	w.set(slo.Normal)
	if a := get(); len(a.Periods) != 0 || a.Decision != gate.Allow {
		t.Errorf("all is well: %+v", a)
	}
	w.blind()
	if a := get(); len(a.Periods) != 1 || a.Decision != gate.Unclear {
		t.Errorf("nothing is known: %+v", a)
	}
}
