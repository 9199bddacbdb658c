package readiness

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// shelf keeps days in memory.
type shelf map[string][]Day

func (s shelf) KeepReadyDay(_ context.Context, service string, d Day) error {
	s[service] = slices.DeleteFunc(s[service], func(x Day) bool { return x.Day == d.Day })
	s[service] = append(s[service], d)
	return nil
}

func (s shelf) ReadyDays(_ context.Context, service string, since time.Time) (map[string][]Day, error) {
	out := map[string][]Day{}
	for name, days := range s {
		for _, d := range days {
			if (service == "" || service == name) && d.Day >= since.UTC().Format(time.DateOnly) {
				out[name] = append(out[name], d)
			}
		}
	}
	return out, nil
}

func (s shelf) ReadyCounts(ctx context.Context, since time.Time) (map[string][]Day, error) {
	return s.ReadyDays(ctx, "", since)
}

func TestTrendCountsDaysAndNamesWhatChanged(t *testing.T) {
	at := time.Date(2026, 3, 1, 23, 50, 0, 0, time.FixedZone("", -2*3600)) // the 2nd, of UTC
	f := good(at)
	first := DayOf(Assess(Facts{Service: "points", Now: at}), at)
	second := DayOf(Assess(f), at.AddDate(0, 0, 3))
	f.Overdue, f.Opened = 1, nil
	third := DayOf(Assess(f), at.AddDate(0, 0, 4))
	if first.Day != "2026-03-02" || first.Ready != 0 || first.Ready+first.No+first.Unknown != 15 || first.Of != 15 {
		t.Errorf("%+v", first)
	}
	got := TrendOf("points", []Day{third, first, second})
	var days []string
	for _, d := range got.Days {
		days = append(days, d.Day)
	}
	if !slices.Equal(days, []string{"2026-03-02", "2026-03-05", "2026-03-06"}) || got.Days[1].Ready != 15 || got.Days[2].Ready != 13 || got.Gained() != 13 {
		t.Errorf("%v, %+v, gained %d", days, got.Days, got.Gained())
	}
	if want := []Change{{"2026-03-06", "breaker", Yes, No}, {"2026-03-06", "findings", Yes, No}}; !slices.Equal(got.Changes[:2], want) || len(got.Changes) != 17 {
		t.Errorf("%d changes %+v, want %+v first", len(got.Changes), got.Changes, want)
	}
	// An item that another version asked, or did not ask yet, has not changed.
	delete(second.States, "breaker")
	for _, c := range TrendOf("points", []Day{second, third}).Changes {
		if c.Item == "breaker" {
			t.Errorf("%+v, though the day before did not know it", c)
		}
	}
	if empty := TrendOf("nobody", nil); empty.Days == nil || empty.Changes == nil || empty.Gained() != 0 {
		t.Errorf("%+v", empty)
	}
}

func recorder(days shelf, broken string) *Recorder {
	return &Recorder{Days: days, Log: slog.New(slog.DiscardHandler),
		Services: func(context.Context) ([]string, error) { return []string{"points", "order"}, nil },
		Now:      func(context.Context) (time.Time, error) { return time.Now(), nil },
		Assess: func(_ context.Context, service string) ([]Answer, error) {
			if service == broken {
				return nil, errors.New("the ledger is away")
			}
			f := good(time.Now())
			f.Service = service
			return Assess(f), nil
		}}
}

// A service that cannot be looked at hides no other, and no look is made up for it.
func TestRecorderHasADayForEachDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 72*time.Hour)
		defer cancel()
		days := shelf{}
		if err := recorder(days, "points").Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(days["order"]) != 4 && len(days["order"]) != 3 || len(days["points"]) != 0 {
			t.Errorf("%d days of order, %d of points", len(days["order"]), len(days["points"]))
		}
		// The newest look of a day is the one that is kept.
		last := days["order"][1].At
		if end := last.Truncate(24 * time.Hour).Add(24 * time.Hour); end.Sub(last) > lookEvery {
			t.Errorf("the last look of a whole day was at %s", last)
		}
	})
}

func TestTrendAPI(t *testing.T) {
	days := shelf{}
	r := recorder(days, "")
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	api := NewAPI(Source{Trends: r.Look, Now: r.Now, Log: r.Log})
	ask := func(h http.HandlerFunc, path, service string) (int, string) {
		q := httptest.NewRequest(http.MethodGet, path, nil)
		q.SetPathValue("service", service)
		w := httptest.NewRecorder()
		h(w, q)
		return w.Code, w.Body.String()
	}
	if code, body := ask(api.Trend, "/", "points"); code != 200 || !strings.Contains(body, `"ready": 15`) && !strings.Contains(body, `"ready":15`) || strings.Contains(body, "order") {
		t.Errorf("%d %s", code, body)
	}
	code, body := ask(api.All, "/?days=1", "")
	if at := strings.Index(body, `"order"`); code != 200 || at < 0 || at > strings.Index(body, `"points"`) || !strings.Contains(body, "budget-review") {
		t.Errorf("%d %s", code, body)
	}
	// Of a service that nobody knows there is no day, and that is said.
	if code, body := ask(api.Trend, "/", "nobody"); code != 200 || !strings.Contains(body, `"days":[]`) && !strings.Contains(body, `"days": []`) {
		t.Errorf("%d %s", code, body)
	}
	for _, days := range []string{"0", "-1", "801", "x", "1e9"} {
		if code, body := ask(api.All, "/?days="+days, ""); code != 400 || !strings.Contains(body, "1 to 800") {
			t.Errorf("days=%s: %d %s", days, code, body)
		}
	}
}

// Before promises are evaluated nothing is written down: it would say for a quarter of
// an hour that nothing is promised.
func TestRecorderWaitsUntilPromisesAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		days := shelf{}
		r := recorder(days, "")
		r.Ready = func() bool { return time.Since(began) >= 5*time.Second }
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(days["order"]) != 1 || days["order"][0].At.Sub(began) != 5*time.Second {
			t.Errorf("looked at %+v, began %s", days["order"], began)
		}
	})
}
